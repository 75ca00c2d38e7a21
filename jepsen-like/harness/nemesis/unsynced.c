/* Power loss for one process: loaded before a node (LD_PRELOAD), it keeps what every write to a file below
 * $UNSYNCED_DIR replaced, until that file is synced. After kill -9 the harness puts the old bytes back, as a machine
 * does that lost its power (nemesis/power.py). One undo file in $UNSYNCED_UNDO for each file, named by its inode:
 *   records of { offset, length of the old bytes, size of the file before, length of the path } as 64-bit numbers,
 *   the path, the old bytes.
 * While the file $UNSYNCED_HOLD is there, a sync waits, for a second at most; as many as the number in it says pass
 * first. $UNSYNCED_HOLD.waits is there while one waits.
 * A file opened with O_DSYNC or O_SYNC is synced by each of its writes, and so are the bytes written before through
 * other descriptors only where fsync or fdatasync says so: such writes are not kept, and drop nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 256
struct file { dev_t dev; ino_t ino; int undo; char path[512]; };
static struct file files[FILES];
static int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *below, *undo_dir, *hold;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_fdatasync)(int), (*real_fsync)(int);

__attribute__((constructor)) static void begin(void) {
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
  real_write = dlsym(RTLD_NEXT, "write");
  real_writev = dlsym(RTLD_NEXT, "writev");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  below = getenv("UNSYNCED_DIR");
  undo_dir = getenv("UNSYNCED_UNDO");
  hold = getenv("UNSYNCED_HOLD");
}

/* By which name the file is known now; it may have been renamed since it was opened. */
static int name_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, size - 1);
  if (n >= 0) path[n] = 0;
  return n >= 0;
}

/* The entry of a regular file below the directory; NULL for everything else. */
static struct file *find(int fd, struct stat *st) {
  char path[512];
  int i;
  if (!below || !undo_dir || fstat(fd, st) || !S_ISREG(st->st_mode)) return NULL;
  for (i = 0; i < known; i++)
    if (files[i].ino == st->st_ino && files[i].dev == st->st_dev) {
      if (files[i].path[0] && name_of(fd, path, sizeof path)) strcpy(files[i].path, path);
      return files[i].path[0] ? &files[i] : NULL;
    }
  if (!name_of(fd, path, sizeof path)) return NULL;
  if (known == FILES) return NULL;
  files[known].dev = st->st_dev;
  files[known].ino = st->st_ino;
  files[known].undo = -1;
  files[known].path[0] = 0;
  if (!strncmp(path, below, strlen(below)) && !strstr(path, "lock")) {
    char name[600];
    snprintf(name, sizeof name, "%s/%llu", undo_dir, (unsigned long long)st->st_ino);
    files[known].undo = open(name, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (files[known].undo >= 0) strcpy(files[known].path, path);
  }
  known++;
  return files[known - 1].path[0] ? &files[known - 1] : NULL;
}

static void keep(int fd, off_t at, size_t size) {
  struct stat st;
  int saved = errno, flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_DSYNC)) {
    pthread_mutex_lock(&lock);
    struct file *f = find(fd, &st);
    if (f) {
      char *old = malloc(size ? size : 1);
      int in = old ? open(f->path, O_RDONLY | O_CLOEXEC) : -1;
      ssize_t n = in < 0 ? 0 : pread(in, old, size, at);
      if (n < 0) n = 0;
      if (in >= 0) close(in);
      uint64_t head[4] = {(uint64_t)at, (uint64_t)n, (uint64_t)st.st_size, strlen(f->path)};
      struct iovec parts[3] = {{head, sizeof head}, {f->path, head[3]}, {old, (size_t)n}};
      if (real_writev(f->undo, parts, 3) < 0) abort();
      free(old);
    }
    pthread_mutex_unlock(&lock);
  }
  errno = saved;
}

/* How many bytes of the undo file are about writes that a sync which begins now brings onto the disk. */
static off_t to_sync(int fd) {
  struct stat st, undo;
  int saved = errno;
  off_t n = 0;
  pthread_mutex_lock(&lock);
  struct file *f = find(fd, &st);
  if (f && !fstat(f->undo, &undo)) n = undo.st_size;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return n;
}

/* These are on the disk; what was written to the file meanwhile may not be. */
static void synced(int fd, off_t done) {
  struct stat st, undo;
  int saved = errno;
  pthread_mutex_lock(&lock);
  struct file *f = find(fd, &st);
  if (f && !fstat(f->undo, &undo)) {
    size_t rest = undo.st_size > done ? undo.st_size - done : 0;
    char *kept = malloc(rest ? rest : 1), name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", f->undo);
    int in = open(name, O_RDONLY | O_CLOEXEC);
    if (!kept || in < 0 || pread(in, kept, rest, done) != (ssize_t)rest || ftruncate(f->undo, 0)) abort();
    if (rest && real_write(f->undo, kept, rest) != (ssize_t)rest) abort();
    close(in);
    free(kept);
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
}

static size_t total(const struct iovec *v, int count) {
  size_t n = 0;
  for (int i = 0; i < count; i++) n += v[i].iov_len;
  return n;
}

/* Where write() will write: at the end when the file was opened for appending. */
static off_t place(int fd) {
  struct stat st;
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_APPEND) && !fstat(fd, &st)) return st.st_size;
  return lseek(fd, 0, SEEK_CUR);
}

ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) { keep(fd, at, n); return real_pwrite(fd, b, n, at); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return pwrite64(fd, b, n, at); }
ssize_t pwritev64(int fd, const struct iovec *v, int c, off_t at) {
  keep(fd, at, total(v, c));
  return real_pwritev(fd, v, c, at);
}
ssize_t pwritev(int fd, const struct iovec *v, int c, off_t at) { return pwritev64(fd, v, c, at); }
ssize_t write(int fd, const void *b, size_t n) {
  off_t at = place(fd);
  if (at >= 0) keep(fd, at, n);
  return real_write(fd, b, n);
}
ssize_t writev(int fd, const struct iovec *v, int c) {
  off_t at = place(fd);
  if (at >= 0) keep(fd, at, total(v, c));
  return real_writev(fd, v, c);
}
/* How many syncs may pass while there is a hold; -1: there is none. */
static int passing(void) {
  char number[16] = "";
  int fd = hold ? open(hold, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return -1;
  ssize_t n = read(fd, number, sizeof number - 1);
  close(fd);
  return n > 0 ? atoi(number) : 0;
}

static void wait_for_hold(void) {
  static int passed;
  char mark[600];
  int fd, may, saved = errno;
  pthread_mutex_lock(&lock);
  may = passing();
  passed = may < 0 ? 0 : passed + 1;
  int waits = passed > may && may >= 0;
  pthread_mutex_unlock(&lock);
  if (waits) {
    snprintf(mark, sizeof mark, "%s.waits", hold);
    if ((fd = open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) >= 0) close(fd);
    for (int i = 0; i < 1000 && !access(hold, F_OK); i++) usleep(1000);
    unlink(mark);
  }
  errno = saved;
}

static int sync_by(int (*real)(int), int fd) {
  wait_for_hold();
  off_t done = to_sync(fd);
  int r = real(fd);
  if (!r) synced(fd, done);
  return r;
}
int fdatasync(int fd) { return sync_by(real_fdatasync, fd); }
int fsync(int fd) { return sync_by(real_fsync, fd); }
