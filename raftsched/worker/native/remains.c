/* Looks in one call whether a process is what it was before a python run. remains.py says what for.
 *
 * It only compares: with what was there when all was well. Where anything is different, or cannot be asked, it says so,
 * and Python looks closer and decides. So there is one set of rules, and this is the short way to "nothing is left".
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX (16 * 1024)
#define STREAMS 3
#define LIMITS 16

enum { SAME = 1, PRINTED = 2, CAN_ANSWER = 4 };

struct text {
    const char *at;
    size_t size;
};

/* As class _Usual in remains.py has it. */
struct usual {
    int status_fd, list_fd, timers_fd, work_fd;
    int nice, policy;
    unsigned long work, files[STREAMS];
    long descriptors;
    unsigned long memory_max; /* bytes */
    rlim_t limits[LIMITS][2];
    struct text first, second, third; /* parts of status */
};

static int has_file(int fd, unsigned long file) {
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_ino == file;
}

static int waits(int fd) {
    int size = 0;
    return ioctl(fd, FIONREAD, &size) != 0 || size != 0;
}

/* Whether the text between two names is this one. */
static int is_between(const char *status, const char *first, const char *last, struct text usual) {
    const char *from = strstr(status, first);
    const char *to = from ? strstr(from, last) : NULL;
    return to && (size_t)(to - from) == usual.size && memcmp(from, usual.at, usual.size) == 0;
}

static int has_no_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0;
}

static int is_subreaper(void) {
    int found = 0;
    return prctl(PR_GET_CHILD_SUBREAPER, &found, 0, 0, 0) == 0 && found;
}

static int has_no_alarm(int which) {
    struct itimerval found;
    return getitimer(which, &found) == 0 && !found.it_value.tv_sec && !found.it_value.tv_usec &&
           !found.it_interval.tv_sec && !found.it_interval.tv_usec;
}

static int limits_of(int which, struct rlimit *found) {
#ifdef SYS_getrlimit
    return (int)syscall(SYS_getrlimit, which, found); /* half of what the library's prlimit64 costs */
#else
    return getrlimit((__rlimit_resource_t)which, found);
#endif
}

static int has_usual_limits(const struct usual *usual) {
    struct rlimit found;
    for (int which = 0; which < LIMITS; which++)
        if (limits_of(which, &found) != 0 || found.rlim_cur != usual->limits[which][0] ||
            found.rlim_max != usual->limits[which][1])
            return 0;
    return 1;
}

static int has_usual_status(const struct usual *usual) {
    char status[TEXT_MAX + 1], timer[16];
    ssize_t size = pread(usual->status_fd, status, TEXT_MAX, 0);
    if (size <= 0)
        return 0;
    status[size] = '\0';
    const char *memory = strstr(status, "\nVmRSS:");
    if (!memory || strtoul(memory + 7, NULL, 10) << 10 > usual->memory_max)
        return 0;
    if (!is_between(status, "\nUid:", "\nVmPeak:", usual->first) ||
        !is_between(status, "\nThreads:", "\nSigQ:", usual->second) ||
        !is_between(status, "\nSigPnd:", "\nCpus_allowed_list:", usual->third))
        return 0;
    /* Timers of timer_create(2) count as queued signals of the user. */
    return strstr(status, "\nSigQ:\t0/") || usual->timers_fd < 0 || pread(usual->timers_fd, timer, sizeof timer, 0) == 0;
}

static int has_usual_descriptors(const struct usual *usual) {
    struct stat found;
    return fstat(usual->list_fd, &found) == 0 && found.st_size && found.st_size == usual->descriptors;
}

/* By which Python sees whether it has the struct as it is here. */
extern const unsigned raftsched_usual_size;
const unsigned raftsched_usual_size = sizeof(struct usual);

int raftsched_remains(const struct usual *usual) {
    int found = waits(1) || waits(2) ? PRINTED : 0;
    if (has_file(usual->work_fd, usual->work))
        found |= CAN_ANSWER;
    for (int fd = 0; fd < STREAMS; fd++)
        if (!has_file(fd, usual->files[fd]))
            return found;
    if (has_no_children() && is_subreaper() && getpriority(PRIO_PROCESS, 0) == usual->nice &&
        sched_getscheduler(0) == usual->policy && has_no_alarm(ITIMER_REAL) && has_no_alarm(ITIMER_VIRTUAL) &&
        has_no_alarm(ITIMER_PROF) && has_usual_descriptors(usual) && has_usual_status(usual) && has_usual_limits(usual))
        found |= SAME;
    return found;
}
