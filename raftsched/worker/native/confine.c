/* Confines this process, and becomes a program.
 *
 *   confine REPORT NAME VALUE ... -- PROGRAM ARGUMENT ...
 *
 * A keeper starts it by posix_spawn(3), which cannot do itself what lies between fork and exec here. Each NAME is one of
 *
 *   group DIRECTORY      moves this process into the control group
 *   nice N               gives way by so much, also as a session of its own (sched(7), autogroup)
 *   score N              raises oom_score_adj to it (proc(5))
 *   rlimit R:SOFT:HARD   setrlimit(2); at most the hard limit that holds already
 *   user UID:GID:G,G,..  becomes the user for good, without capabilities and without core dumps
 *   home DIRECTORY       leaves a working directory that the user has no way into, for this one or else for /
 *   cwd DIRECTORY        the working directory
 *   within DIRECTORY     the working directory has to lie in one of those named, links followed
 *   limit R:SOFT:HARD    as rlimit, as the last thing before the program: nothing here is to meet it
 *
 * They are done in this order, in whichever they stand. The program is looked for as execvp(3) does, by the PATH that it
 * is given, as the user and where the user is. Its environment is that of this process without the first character of
 * each variable, a "+": so neither loader nor C library here heeds what a job says, such as LD_PRELOAD, while this is
 * still the node's user, perhaps root; and as arguments its secrets would be seen by every user of the machine.
 *
 * It is built without the C library where that is possible: what a library does before main costs half of what the start
 * of a small program costs, and all that is needed here are system calls. Numbers below zero are errors (-errno).
 *
 * REPORT is a descriptor that a successful start closes. What goes wrong is written there as "STEP ERRNO TEXT", and
 * this process ends: nothing of the program has begun then. It never goes on with less than it was told.
 */
#define _GNU_SOURCE
#include <asm/unistd.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/limits.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/stat.h>

#define ARGUMENTS_MAX 4096
#define GROUPS_MAX 65536 /* NGROUPS_MAX of Linux */
#define NONE (~0ul)      /* RLIM64_INFINITY */
#define EXECUTE 1        /* X_OK */

/* ---------------------------------------------------------------- the system */

#ifdef WITHOUT_LIBRARY

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n\thlt\n");

static long call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl begin\n\tbrk #0\n");

static long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory", "cc");
    return x0;
}
#else
#error "on this machine it is built with the C library"
#endif

#else /* with the library */

#include <errno.h>
#include <unistd.h>

static long call(long number, long a, long b, long c, long d, long e) {
    long result = syscall(number, a, b, c, d, e);
    return result == -1 ? -errno : result;
}

#endif

static long at(const void *address) { return (long)address; }

__attribute__((noreturn)) static void leave(int code) {
    for (;;) call(__NR_exit_group, code, 0, 0, 0, 0);
}

static long open_file(const char *file, int flags) {
    return call(__NR_openat, AT_FDCWD, at(file), flags | O_CLOEXEC, 0600, 0);
}

static long change_directory(const char *directory) { return call(__NR_chdir, at(directory), 0, 0, 0, 0); }

static int may_execute(const char *file) { return call(__NR_faccessat, AT_FDCWD, at(file), EXECUTE, 0, 0) == 0; }

/* What kind of file it is, links followed; 0: there is none. */
static unsigned kind_of(const char *file) {
    struct statx found;
    if (call(__NR_statx, AT_FDCWD, at(file), 0, STATX_TYPE, at(&found)) < 0) return 0;
    return found.stx_mode & S_IFMT;
}

/* ---------------------------------------------------------------- text */

static unsigned long length_of(const char *text) {
    unsigned long length = 0;
    while (text[length] != '\0') length++;
    return length;
}

static int begins_with(const char *text, const char *beginning) {
    while (*beginning != '\0')
        if (*text++ != *beginning++) return 0;
    return 1;
}

static int same(const char *one, const char *other) { return begins_with(one, other) && begins_with(other, one); }

static int has(const char *text, char wanted) {
    while (*text != '\0')
        if (*text++ == wanted) return 1;
    return 0;
}

/* A line that never grows beyond its room; what is too much is cut, and `cut` says so. */
struct line {
    char text[PATH_MAX + 64];
    unsigned long size;
    int cut;
};

static void add(struct line *line, const char *text, unsigned long size) {
    for (unsigned long i = 0; i < size; i++) {
        if (line->size + 1 >= sizeof line->text) {
            line->cut = 1;
            return;
        }
        line->text[line->size++] = text[i];
        line->text[line->size] = '\0';
    }
}

static void add_text(struct line *line, const char *text) { add(line, text, length_of(text)); }

static void add_number(struct line *line, long number) {
    char digits[24];
    unsigned long size = sizeof digits, left = number < 0 ? 0ul - (unsigned long)number : (unsigned long)number;
    do {
        digits[--size] = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (number < 0) digits[--size] = '-';
    add(line, digits + size, sizeof digits - size);
}

static void clear(struct line *line) {
    line->size = 0;
    line->cut = 0;
    line->text[0] = '\0';
}

/* ---------------------------------------------------------------- what goes wrong */

static int report = -1;

/* Says what could not be done, and ends. */
__attribute__((noreturn)) static void fail(const char *step, long error, const char *text) {
    static struct line said;
    clear(&said);
    add_text(&said, step);
    add_text(&said, " ");
    add_number(&said, -error);
    add_text(&said, " ");
    add_text(&said, text);
    leave(call(__NR_write, report, at(said.text), (long)said.size, 0, 0) < 0 ? 126 : 127);
}

/* A whole number at *text, which then points behind it. It has to be followed by `end`. */
static unsigned long number(const char **text, char end) {
    unsigned long found = 0;
    const char *digit = *text;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(found, 10ul, &found) || __builtin_add_overflow(found, (unsigned long)(*digit - '0'), &found))
            fail("options", -EINVAL, *text);
    if (digit == *text || *digit != end) fail("options", -EINVAL, *text);
    *text = end == '\0' ? digit : digit + 1;
    return found;
}

/* The number of a user or group. The last one of 32 bits says "as it is" to the kernel; beyond lies 0, which is root. */
static unsigned identity(const char **text, char end) {
    unsigned long found = number(text, end);
    if (found >= 0xffffffffu) fail("options", -EINVAL, "user");
    return (unsigned)found;
}

static long small(const char *value) {
    const char *text = value;
    unsigned long found = number(&text, '\0');
    if (found > 1000) fail("options", -EINVAL, value);
    return (long)found;
}

/* ---------------------------------------------------------------- steps */

static long write_to(const char *file, const char *text) {
    long fd = open_file(file, O_WRONLY | O_CREAT | O_TRUNC); /* as a shell's `>` */
    if (fd < 0) return fd;
    long written = call(__NR_write, fd, at(text), (long)length_of(text), 0, 0);
    call(__NR_close, fd, 0, 0, 0, 0);
    return written;
}

static void enter_group(const char *directory) {
    static struct line file;
    clear(&file);
    add_text(&file, directory);
    add_text(&file, "/cgroup.procs");
    long done = file.cut ? -ENAMETOOLONG : write_to(file.text, "0");
    if (done < 0) fail("group", done, directory);
}

/* A kernel without autogroups is no reason not to start. */
static void give_way(long by) {
    static struct line text;
    long now = call(__NR_getpriority, 0, 0, 0, 0, 0); /* 20 less the nice value */
    if (now < 0) return;
    now = 20 - now + by > 19 ? 19 : 20 - now + by;
    (void)call(__NR_setpriority, 0, 0, now, 0, 0);
    clear(&text);
    add_number(&text, now);
    (void)write_to("/proc/self/autogroup", text.text);
}

/* It may have a higher one already, which it keeps: so few digits are compared as numbers. */
static void raise_score(long least) {
    static struct line text;
    char held[24] = "";
    long fd = open_file("/proc/self/oom_score_adj", O_RDWR);
    if (fd < 0) return;
    long size = call(__NR_read, fd, at(held), sizeof held - 1, 0, 0), found = 0;
    for (long i = 0; i < size && held[i] >= '0' && held[i] <= '9'; i++) found = found * 10 + (held[i] - '0');
    if (size > 0 && found < least) {
        clear(&text);
        add_number(&text, least);
        (void)call(__NR_write, fd, at(text.text), (long)text.size, 0, 0);
    }
    call(__NR_close, fd, 0, 0, 0, 0);
}

static void limit(const char *value) {
    struct rlimit64 now, wanted;
    const char *text = value;
    unsigned long resource = number(&text, ':');
    wanted.rlim_cur = number(&text, ':');
    wanted.rlim_max = number(&text, '\0');
    long done = call(__NR_prlimit64, 0, (long)resource, 0, at(&now), 0);
    if (done < 0) fail("limit", done, value);
    if (now.rlim_max != NONE) {
        if (wanted.rlim_cur > now.rlim_max) wanted.rlim_cur = now.rlim_max;
        if (wanted.rlim_max > now.rlim_max) wanted.rlim_max = now.rlim_max;
    }
    done = call(__NR_prlimit64, 0, (long)resource, at(&wanted), 0, 0);
    if (done < 0) fail("limit", done, value);
}

static void must(long done, const char *what) {
    if (done < 0) fail("user", done, what);
}

static void become(const char *value) {
    static unsigned groups[GROUPS_MAX];
    const struct rlimit64 nothing = {0, 0};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    const char *text = value;
    unsigned count = 0, uid = identity(&text, ':'), gid = identity(&text, ':'), real, effective, saved;
    while (*text != '\0') {
        if (count == GROUPS_MAX) fail("options", -EINVAL, "groups");
        groups[count++] = identity(&text, has(text, ',') ? ',' : '\0');
    }
    must(call(__NR_setgroups, count, at(groups), 0, 0, 0), "setgroups");
    must(call(__NR_setresgid, gid, gid, gid, 0, 0), "setresgid");
    must(call(__NR_setresuid, uid, uid, uid, 0, 0), "setresuid");
    /* It would hold the secrets of the run. */
    must(call(__NR_prlimit64, 0, RLIMIT_CORE, at(&nothing), 0, 0), "RLIMIT_CORE");
    if (uid != 0) {
        must(call(__NR_capset, at(&header), at(none), 0, 0, 0), "capset");
        long done = call(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if (done != -EINVAL) must(done, "prctl"); /* before Linux 4.3 there were none */
        if (call(__NR_setuid, 0, 0, 0, 0, 0) == 0) fail("user", -EPERM, "it could come back");
    }
    must(call(__NR_getresuid, at(&real), at(&effective), at(&saved), 0, 0), "getresuid");
    if (real != uid || effective != uid || saved != uid) fail("user", -EPERM, "getresuid");
}

/* Where it can do nothing, in neither, the program learns that itself. */
static void go_home(const char *home) {
    if (!may_execute(".") && change_directory(home) < 0) (void)change_directory("/");
}

static int lies_in(const char *there, const char *directory) {
    unsigned long length = length_of(directory);
    if (directory[0] != '/') return 0;
    if (length == 1) return 1;
    return begins_with(there, directory) && (there[length] == '\0' || there[length] == '/');
}

static const char *path_in(char **environment) {
    for (; *environment != 0; environment++)
        if (begins_with(*environment, "PATH=")) return *environment + 5;
    return "/bin:/usr/bin";
}

/* Like execvp(3), which would give what is no program to a shell. */
__attribute__((noreturn)) static void start(char **argv, char **environment) {
    static struct line candidate;
    const char *name = argv[0], *program = name;
    if (!has(name, '/')) {
        int denied = 0;
        program = 0;
        for (const char *place = path_in(environment); place != 0 && program == 0;) {
            unsigned long length = 0;
            while (place[length] != '\0' && place[length] != ':') length++;
            clear(&candidate);
            add(&candidate, length == 0 ? "." : place, length == 0 ? 1 : length);
            add_text(&candidate, "/");
            add_text(&candidate, name);
            place = place[length] == '\0' ? 0 : place + length + 1;
            if (candidate.cut) continue;
            unsigned kind = kind_of(candidate.text);
            if (kind != 0 && kind != S_IFDIR && may_execute(candidate.text)) program = candidate.text;
            else if (kind == S_IFREG) denied = 1;
        }
        if (program == 0) fail(denied ? "denied" : "missing", -ENOENT, "");
    }
    long error = call(__NR_execve, at(program), at(argv), at(environment), 0, 0);
    fail(error == -ENOENT && kind_of(program) != 0 ? "interpreter" : "exec", error, "");
}

__attribute__((noreturn)) static void run(int count, char **argv, char **environment) {
    static const char *const order[] = {"group", "nice", "score", "rlimit", "user", "home", "cwd", "within", "limit"};
    const unsigned kinds = sizeof order / sizeof *order;
    static char there[PATH_MAX];
    const char *text;
    int behind = 2, judged = 0, inside = 0;
    long done;

    if (count < 3) leave(64);
    text = argv[1];
    report = (int)number(&text, '\0');
    if (report < 3 || call(__NR_fcntl, report, F_SETFD, FD_CLOEXEC, 0, 0) < 0) leave(64);
    for (; behind < count && !same(argv[behind], "--"); behind += 2) {
        unsigned kind = 0;
        while (kind < kinds && !same(order[kind], argv[behind])) kind++;
        if (kind == kinds || behind + 1 >= count || behind > ARGUMENTS_MAX) fail("options", -EINVAL, argv[behind]);
    }
    if (behind + 1 >= count) fail("options", -EINVAL, "no program");
    for (char **variable = environment; *variable != 0; variable++)
        if (*(*variable)++ != '+') fail("options", -EINVAL, "environment");

    for (unsigned kind = 0; kind < kinds; kind++) {
        if (judged && !inside && same(order[kind], "limit")) fail("within", -EPERM, there);
        for (int i = 2; i < behind; i += 2) {
            const char *value = argv[i + 1];
            if (!same(argv[i], order[kind])) continue;
            switch (kind) {
            case 0: enter_group(value); break;
            case 1: give_way(small(value)); break;
            case 2: raise_score(small(value)); break;
            case 3: limit(value); break;
            case 4: become(value); break;
            case 5: go_home(value); break;
            case 6:
                done = change_directory(value);
                if (done < 0) fail("cwd", done, "");
                break;
            case 7:
                done = judged ? 0 : call(__NR_getcwd, at(there), sizeof there, 0, 0, 0);
                if (done < 0) fail("cwd", done, "");
                judged = 1;
                inside = inside || lies_in(there, value);
                break;
            default: limit(value);
            }
        }
    }
    start(argv + behind + 1, environment);
}

#ifdef WITHOUT_LIBRARY
/* What the kernel leaves on the stack: the number of arguments, they and a zero, and the environment (execve(2)). */
__attribute__((used, noreturn)) void begin(long *stack);
void begin(long *stack) {
    char **argv = (char **)(stack + 1);
    run((int)stack[0], argv, argv + stack[0] + 1);
}

/* Calls of these are put in by the compiler. */
__attribute__((used)) void *memset(void *place, int byte, unsigned long size);
void *memset(void *place, int byte, unsigned long size) {
    volatile char *to = place;
    while (size-- > 0) *to++ = (char)byte;
    return place;
}
__attribute__((used)) void *memcpy(void *place, const void *from, unsigned long size);
void *memcpy(void *place, const void *from, unsigned long size) {
    volatile char *to = place;
    const char *source = from;
    while (size-- > 0) *to++ = *source++;
    return place;
}
#else
int main(int count, char **argv, char **environment) { run(count, argv, environment); }
#endif
