/* Makes a fast disk slow: every flush takes longer, as on a disk whose cache is honest.
 *
 * LD_PRELOAD this into a process with SLOW_FLUSH_FILE naming a file of at least 24 bytes, three native 64-bit numbers:
 *   0  microseconds by which a flush is delayed; read at each one, so that it can be changed while the process runs
 *   1  how many fsync and fdatasync calls there were since the file was made
 *   2  how many writes there were on descriptors opened with O_DSYNC (LMDB writes its meta page through one)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static uint64_t *shared;

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("SLOW_FLUSH_FILE");
  struct stat found;
  int fd;
  if (path == NULL) return;
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &found) != 0 || found.st_size < (off_t)(3 * sizeof *shared)) {
    fprintf(stderr, "slow_flush: %s cannot be used; it must be a file of at least 24 bytes\n", path);
    abort();
  }
  shared = mmap(NULL, 3 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (shared == MAP_FAILED) abort();
}

static void delay(int counter) {
  struct timespec left;
  uint64_t us;
  if (shared == NULL) return;
  __atomic_fetch_add(&shared[counter], 1, __ATOMIC_RELAXED);
  us = __atomic_load_n(&shared[0], __ATOMIC_RELAXED);
  left.tv_sec = (time_t)(us / 1000000);
  left.tv_nsec = (long)(us % 1000000) * 1000;
  while (us != 0 && nanosleep(&left, &left) != 0) {
  }
}

/* O_SYNC contains the bit of O_DSYNC. */
static int is_flushed(int fd) {
  int flags = shared == NULL ? -1 : fcntl(fd, F_GETFL);
  return flags != -1 && (flags & O_DSYNC) != 0;
}

#define REAL(name)                                   \
  static __typeof__(&name) real;                     \
  if (real == NULL) real = dlsym(RTLD_NEXT, #name)

#define FLUSH(name)                                  \
  int name(int fd) {                                 \
    REAL(name);                                      \
    delay(1);                                        \
    return real(fd);                                 \
  }

#define WRITE(name, type, parameters, arguments)     \
  type name parameters {                             \
    REAL(name);                                      \
    if (is_flushed(fd)) delay(2);                    \
    return real arguments;                           \
  }

FLUSH(fsync)
FLUSH(fdatasync)
WRITE(write, ssize_t, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(pwrite, ssize_t, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITE(pwrite64, ssize_t, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITE(writev, ssize_t, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITE(pwritev, ssize_t, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITE(pwritev64, ssize_t, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
