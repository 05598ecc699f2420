/* Records the file system calls of a program below one directory; fails, delays or stops them and its messages to a
 * server.
 *
 * Preloaded into the real binary (LD_PRELOAD). Environment:
 *   DUOLOG_SHIM_DIR   the watched directory, as a canonical path
 *   DUOLOG_SHIM_LOG   a file that gets one record per call, of all processes, in the order of effect
 *   DUOLOG_SHIM_PLAN  faults: "ACTION KIND SUFFIX FIRST EVERY" separated by ';'
 *   DUOLOG_SHIM_STEPS a file that gets a line "KIND NOTE PATH" before each step; NOTE is `commit` for the
 *                     header of a frame that ends a transaction in SQLite's write-ahead log, else `-`
 *   DUOLOG_SHIM_BOOT  a file that is read instead of the kernel's boot id
 *
 * ACTION  stop | kill | killafter | fail=ERRNO | short=BYTES | delay=MILLISECONDS
 * KIND    write sync truncate create unlink rename mkdir link chmod opendir lock send, `change` (all but opendir and
 *         lock) or `step` (all)
 * SUFFIX  the end of the path, or *; the path of a socket is `server`
 * FIRST   the number of the first matching call of this process to apply it to, from 1
 * EVERY   0: only that call; n: that call and every n-th after it
 *
 * A call and its record are made under a lock that all processes share, so the order of the records is the order of
 * the effects. A process that is stopped or killed by a plan does not hold that lock. Calls that copy data inside the
 * kernel are refused, so that callers fall back to read and write. Memory maps are not recorded: the first process that
 * opens SQLite's -shm rebuilds it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, LINK, CHMOD, SYNC, OUTPUT, UNSUPPORTED = 99,
    OPENDIR = 100, LOCK = 101, SEND = 102
};
enum { SYNC_FAILED = 1, SYNC_DATA = 2 };

struct header {
    uint32_t magic;
    uint8_t kind, flags;
    uint16_t path_len, path2_len, pad;
    uint32_t pid, data_len, pad2;
    uint64_t ino, offset, arg;
};

enum action { NOTHING, STOP, KILL, KILL_AFTER, FAIL, SHORT, DELAY };
struct plan {
    enum action action;
    long value, first, every;
    char kind[12], suffix[64];
    long seen;
};

static char dir[PATH_MAX];
static size_t dir_len;
static int log_fd = -1, steps_fd = -1;
static const char *boot;
static struct plan plans[8];
static int plan_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t plan_mutex = PTHREAD_MUTEX_INITIALIZER;


/* The functions of the C library: those below would call this file again. */
static long (*next(void))(long, ...) {
    static long (*found)(long, ...);
    if (!found) found = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return found;
}

static void parse_plan(const char *text) {
    char copy[1024], *rest = copy, *one;
    snprintf(copy, sizeof copy, "%s", text);
    while (plan_count < 8 && (one = strsep(&rest, ";"))) {
        struct plan *p = &plans[plan_count];
        char action[32];
        if (sscanf(one, "%31s %11s %63s %ld %ld", action, p->kind, p->suffix, &p->first, &p->every) != 5) {
            fprintf(stderr, "shim: bad plan: %s\n", one);
            _exit(99);
        }
        char *value = strchr(action, '=');
        if (value) { *value++ = 0; p->value = atol(value); }
        p->action = !strcmp(action, "stop") ? STOP : !strcmp(action, "kill") ? KILL
            : !strcmp(action, "killafter") ? KILL_AFTER : !strcmp(action, "fail") ? FAIL
            : !strcmp(action, "short") ? SHORT : !strcmp(action, "delay") ? DELAY : NOTHING;
        plan_count++;
    }
}

static int appending(const char *path) {
    int fd = (int)next()(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 700);
    next()(SYS_close, fd);
    return high;
}

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("DUOLOG_SHIM_DIR"), *log = getenv("DUOLOG_SHIM_LOG"), *plan = getenv("DUOLOG_SHIM_PLAN");
    const char *steps = getenv("DUOLOG_SHIM_STEPS");
    boot = getenv("DUOLOG_SHIM_BOOT");
    if (!at) return;
    snprintf(dir, sizeof dir, "%s", at);
    dir_len = strlen(dir);
    if (log) log_fd = appending(log);
    if (steps) steps_fd = appending(steps);
    if (plan) parse_plan(plan);
}

/* ---- watched paths ---- */

static void normalise(char *path) {
    char out[PATH_MAX] = "", *rest = path, *part;
    while ((part = strsep(&rest, "/"))) {
        if (!*part || !strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) { char *cut = strrchr(out, '/'); if (cut) *cut = 0; continue; }
        strcat(out, "/");
        strcat(out, part);
    }
    strcpy(path, out);
}

static const char *below(const char *path) {
    if (!dir_len || strncmp(path, dir, dir_len)) return NULL;
    return path[dir_len] == '/' ? path + dir_len + 1 : path[dir_len] ? NULL : path + dir_len;
}

/* The path below the watched directory that `at` and `path` name, in `into`; NULL if it is elsewhere. */
static const char *named(int at, const char *path, char into[PATH_MAX]) {
    if (!dir_len || !path) return NULL;
    char base[PATH_MAX] = "", link[40];
    if (path[0] != '/') {
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return NULL;
        base[n] = 0;
    }
    if ((size_t)snprintf(into, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return NULL;
    normalise(into);
    return below(into);
}

static const char *of_fd(int fd, char into[PATH_MAX], struct stat *st) {
    if (!dir_len || fd < 0) return NULL;
    int before = errno;
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, into, PATH_MAX - 1);
    const char *at = NULL;
    if (n > 0) {
        into[n] = 0;
        char *gone = strstr(into, " (deleted)");
        if (gone) *gone = 0;
        at = below(into);
        if (at && fstat(fd, st)) at = NULL;
        if (at && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) at = NULL;
    }
    errno = before;
    return at;
}

/* ---- applying a plan to a call ---- */

static const char *name_of(int kind) {
    switch (kind) {
    case CREATE: return "create"; case WRITE: return "write"; case TRUNCATE: return "truncate";
    case RENAME: return "rename"; case UNLINK: case RMDIR: return "unlink"; case MKDIR: return "mkdir";
    case LINK: return "link"; case CHMOD: return "chmod"; case SYNC: return "sync"; case LOCK: return "lock";
    case OPENDIR: return "opendir"; case SEND: return "send"; default: return "other";
    }
}

static int ends_with(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return !strcmp(suffix, "*") || (n >= m && !strcmp(path + n - m, suffix));
}

static void write_step(int kind, const char *note, const char *path) {
    char line[PATH_MAX + 32];
    int before = errno, size = snprintf(line, sizeof line, "%s %s %s\n", name_of(kind), note, path);
    if (steps_fd >= 0) next()(SYS_write, steps_fd, line, size);
    errno = before;
}

/* Counts the call, stops or kills the process if planned, and returns the plan that remains to be applied. */
static struct plan *noted(int kind, const char *note, const char *path) {
    struct plan *left = NULL;
    write_step(kind, note, path);
    for (int i = 0; i < plan_count; i++) {
        struct plan *p = &plans[i];
        int all = !strcmp(p->kind, "step") || (!strcmp(p->kind, "change") && kind != LOCK && kind != OPENDIR);
        if (!(all || !strcmp(p->kind, name_of(kind))) || !ends_with(path, p->suffix)) continue;
        pthread_mutex_lock(&plan_mutex);
        long n = ++p->seen;
        pthread_mutex_unlock(&plan_mutex);
        if (!(n == p->first || (p->every && n > p->first && (n - p->first) % p->every == 0))) continue;
        struct timespec pause = { p->value / 1000, p->value % 1000 * 1000000 };
        /* Sent to this thread: a signal to the process could stop another thread first while this one continues. */
        if (p->action == STOP) next()(SYS_tgkill, getpid(), next()(SYS_gettid), SIGSTOP);
        else if (p->action == KILL) kill(getpid(), SIGKILL);
        else if (p->action == DELAY) nanosleep(&pause, NULL);
        else left = p;
    }
    return left;
}

static struct plan *planned(int kind, const char *path) { return noted(kind, "-", path); }

#define FAILS(p) ((p) && (p)->action == FAIL ? (errno = (int)(p)->value, 1) : 0)

static void after(struct plan *p) {
    if (p && p->action == KILL_AFTER) kill(getpid(), SIGKILL);
}

/* ---- records ---- */

static void hold(void) {
    pthread_mutex_lock(&mutex);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (log_fd >= 0) while (next()(SYS_fcntl, log_fd, F_OFD_SETLKW, &whole) < 0 && errno == EINTR) {}
}

static void release(void) {
    int before = errno;
    struct flock whole = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    if (log_fd >= 0) next()(SYS_fcntl, log_fd, F_OFD_SETLK, &whole);
    pthread_mutex_unlock(&mutex);
    errno = before;
}

static void record(struct header h, const char *path, const char *path2, const struct iovec *data, int parts) {
    if (log_fd < 0) return;
    int before = errno;
    struct iovec out[4 + 64];
    h.magic = 0x31524c44;
    h.pid = (uint32_t)getpid();
    h.path_len = path ? (uint16_t)strlen(path) : 0;
    h.path2_len = path2 ? (uint16_t)strlen(path2) : 0;
    out[0] = (struct iovec){ &h, sizeof h };
    out[1] = (struct iovec){ (void *)path, h.path_len };
    out[2] = (struct iovec){ (void *)path2, h.path2_len };
    size_t total = sizeof h + h.path_len + h.path2_len, left = h.data_len;
    int n = 3;
    for (int i = 0; i < parts && i < 64 && left; i++) {
        size_t take = data[i].iov_len < left ? data[i].iov_len : left;
        out[n++] = (struct iovec){ data[i].iov_base, take };
        left -= take;
        total += take;
    }
    if (next()(SYS_writev, log_fd, out, n) != (long)total) {
        static const char said[] = "shim: cannot write the record\n";
        next()(SYS_write, 2, said, sizeof said - 1);
        _exit(99);
    }
    errno = before;
}

static void record_path(int kind, const char *path, const char *path2, uint64_t ino, uint64_t arg) {
    record((struct header){ .kind = (uint8_t)kind, .ino = ino, .arg = arg }, path, path2, NULL, 0);
}

/* ---- open ---- */

static int opened(int at, const char *path, int flags, mode_t mode, void *how, size_t how_size) {
#define OPEN(p) (how ? (int)next()(SYS_openat2, at, p, how, how_size) : (int)next()(SYS_openat, at, p, flags, mode))
    if (boot && path && !strcmp(path, "/proc/sys/kernel/random/boot_id"))
        return (int)next()(SYS_openat, AT_FDCWD, boot, flags, 0);
    char buffer[PATH_MAX];
    const char *name = named(at, path, buffer);
    if (!name) return OPEN(path);
    int changes = flags & (O_CREAT | O_TRUNC), directory = (flags & O_DIRECTORY) != 0;
    struct stat st;
    int there = !fstatat(AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW);
    struct plan *p = NULL;
    if (directory || (there && S_ISDIR(st.st_mode))) p = planned(OPENDIR, name);
    else if (changes && !there) p = planned(CREATE, name);
    else if (changes && (flags & O_TRUNC)) p = planned(TRUNCATE, name);
    if (FAILS(p)) return -1;
    if (!changes || directory) return OPEN(path);
    hold();
    there = !fstatat(AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW);
    int fd = OPEN(path);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        if (!there) record_path(CREATE, name, NULL, st.st_ino, st.st_mode & 07777);
        else if (flags & O_TRUNC) record_path(TRUNCATE, name, NULL, st.st_ino, 0);
    }
    release();
    after(p);
    return fd;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list ap; va_start(ap, flags); mode = va_arg(ap, mode_t); va_end(ap); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode, NULL, 0); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode, NULL, 0); }
int openat(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(at, path, flags, mode, NULL, 0); }
int openat64(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(at, path, flags, mode, NULL, 0); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, NULL, 0); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* The C library has no wrapper for openat2: programs call it by its number. */
long syscall(long number, ...) {
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_openat2) {
        uint64_t *how = (uint64_t *)a[2];
        return opened((int)a[0], (const char *)a[1], (int)how[0], (mode_t)how[1], how, (size_t)a[3]);
    }
    return next()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- write, truncate, sync ---- */

/* A frame's header is written separately, and holds the size of the database if the frame ends a transaction. */
static int ends_transaction(const char *path, const struct iovec *parts, int count) {
    const unsigned char *frame = parts[0].iov_base;
    return count == 1 && parts[0].iov_len == 24 && ends_with(path, "-wal") && (frame[4] | frame[5] | frame[6] | frame[7]);
}

/* A message to a server is a step for plans, but is not recorded. */
static struct plan *sent(int fd) {
    struct stat st;
    if (!dir_len || (!plan_count && steps_fd < 0) || fstat(fd, &st) || !S_ISSOCK(st.st_mode)) return NULL;
    return planned(SEND, "server");
}

static ssize_t written(int fd, const struct iovec *parts, int count, off_t at) {
#define WRITEV(v, n) (at < 0 ? next()(SYS_writev, fd, v, n) : next()(SYS_pwritev, fd, v, n, at, 0))
    char buffer[PATH_MAX];
    struct stat st;
    const char *name = of_fd(fd, buffer, &st);
    struct plan *p = name ? noted(WRITE, ends_transaction(name, parts, count) ? "commit" : "-", name) : sent(fd);
    if (!name && !(fd == 1 && log_fd >= 0)) {
        if (FAILS(p)) return -1;
        ssize_t n = WRITEV(parts, count);
        after(p);
        return n;
    }
    if (FAILS(p)) return -1;
    struct iovec one;
    if (p && p->action == SHORT && count > 0 && parts[0].iov_len > (size_t)p->value) {
        one = (struct iovec){ parts[0].iov_base, (size_t)p->value };
        parts = &one;
        count = 1;
    }
    hold();
    struct header h = { .kind = name ? WRITE : OUTPUT };
    if (name && !fstat(fd, &st)) {
        int flags = (int)next()(SYS_fcntl, fd, F_GETFL);
        h.ino = st.st_ino;
        h.offset = flags & O_APPEND ? (uint64_t)st.st_size : at >= 0 ? (uint64_t)at : (uint64_t)lseek(fd, 0, SEEK_CUR);
    }
    if (!name) { h.data_len = 0; for (int i = 0; i < count; i++) h.data_len += (uint32_t)parts[i].iov_len;
                 record(h, NULL, NULL, parts, count); }
    ssize_t n = WRITEV(parts, count);
    if (name && n > 0) { h.data_len = (uint32_t)n; record(h, name, NULL, parts, count); }
    release();
    after(p);
    return n;
}

ssize_t write(int fd, const void *data, size_t size) {
    struct iovec one = { (void *)data, size };
    return written(fd, &one, 1, -1);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    struct iovec one = { (void *)data, size };
    return written(fd, &one, 1, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return pwrite(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return written(fd, parts, count > 64 ? 64 : count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return written(fd, parts, count > 64 ? 64 : count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return pwritev(fd, parts, count, at); }

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_len) {
    struct plan *p = sent(fd);
    if (FAILS(p)) return -1;
    ssize_t n = next()(SYS_sendto, fd, data, size, flags, to, to_len);
    after(p);
    return n;
}
ssize_t send(int fd, const void *data, size_t size, int flags) { return sendto(fd, data, size, flags, NULL, 0); }
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    struct plan *p = sent(fd);
    if (FAILS(p)) return -1;
    ssize_t n = next()(SYS_sendmsg, fd, message, flags);
    after(p);
    return n;
}

int ftruncate(int fd, off_t size) {
    char buffer[PATH_MAX];
    struct stat st;
    const char *name = of_fd(fd, buffer, &st);
    if (!name) return (int)next()(SYS_ftruncate, fd, size);
    struct plan *p = planned(TRUNCATE, name);
    if (FAILS(p)) return -1;
    hold();
    int answer = (int)next()(SYS_ftruncate, fd, size);
    if (!answer) record_path(TRUNCATE, name, NULL, st.st_ino, (uint64_t)size);
    release();
    after(p);
    return answer;
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

static int synced(int fd, int data) {
    char buffer[PATH_MAX];
    struct stat st;
    long call = data ? SYS_fdatasync : SYS_fsync;
    const char *name = of_fd(fd, buffer, &st);
    if (!name) return (int)next()(call, fd);
    struct plan *p = planned(SYNC, name);
    hold();
    int fails = FAILS(p), answer = fails ? -1 : (int)next()(call, fd);
    uint8_t flags = (uint8_t)((fails ? SYNC_FAILED : 0) | (data ? SYNC_DATA : 0));
    if (fails || !answer) record((struct header){ .kind = SYNC, .flags = flags, .ino = st.st_ino }, name, NULL, NULL, 0);
    release();
    after(p);
    return answer;
}
int fsync(int fd) { return synced(fd, 0); }
int fdatasync(int fd) { return synced(fd, 1); }

/* ---- names ---- */

static int renamed(int at, const char *from, int to_at, const char *to, unsigned flags) {
    char a[PATH_MAX], b[PATH_MAX];
    const char *x = named(at, from, a), *y = named(to_at, to, b);
    if (!x && !y) return (int)next()(SYS_renameat2, at, from, to_at, to, flags);
    struct plan *p = planned(RENAME, y ? y : x);
    if (FAILS(p)) return -1;
    hold();
    int answer = (int)next()(SYS_renameat2, at, from, to_at, to, flags);
    if (!answer) record_path(x && y ? RENAME : UNSUPPORTED, x ? x : "", y ? y : "", 0, 0);
    release();
    after(p);
    return answer;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int at, const char *from, int to_at, const char *to) { return renamed(at, from, to_at, to, 0); }
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) { return renamed(at, from, to_at, to, flags); }

int unlinkat(int at, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *name = named(at, path, buffer);
    if (!name) return (int)next()(SYS_unlinkat, at, path, flags);
    int kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    struct plan *p = planned(kind, name);
    if (FAILS(p)) return -1;
    hold();
    int answer = (int)next()(SYS_unlinkat, at, path, flags);
    if (!answer) record_path(kind, name, NULL, 0, 0);
    release();
    after(p);
    return answer;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = named(at, path, buffer);
    if (!name) return (int)next()(SYS_mkdirat, at, path, mode);
    struct plan *p = planned(MKDIR, name);
    if (FAILS(p)) return -1;
    struct stat st;
    hold();
    int answer = (int)next()(SYS_mkdirat, at, path, mode);
    if (!answer && !fstatat(AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW)) record_path(MKDIR, name, NULL, st.st_ino, st.st_mode & 07777);
    release();
    after(p);
    return answer;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    char a[PATH_MAX], b[PATH_MAX];
    const char *x = named(at, from, a), *y = named(to_at, to, b);
    if (!y) return (int)next()(SYS_linkat, at, from, to_at, to, flags);
    struct plan *p = planned(LINK, y);
    if (FAILS(p)) return -1;
    hold();
    int answer = (int)next()(SYS_linkat, at, from, to_at, to, flags);
    if (!answer) record_path(x ? LINK : UNSUPPORTED, x ? x : "", y, 0, 0);
    release();
    after(p);
    return answer;
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int fchmod(int fd, mode_t mode) {
    char buffer[PATH_MAX];
    struct stat st;
    const char *name = of_fd(fd, buffer, &st);
    if (!name) return (int)next()(SYS_fchmod, fd, mode);
    struct plan *p = planned(CHMOD, name);
    if (FAILS(p)) return -1;
    hold();
    int answer = (int)next()(SYS_fchmod, fd, mode);
    if (!answer) record_path(CHMOD, name, NULL, st.st_ino, mode & 07777);
    release();
    after(p);
    return answer;
}
int fchmodat(int at, const char *path, mode_t mode, int flags) {
    (void)flags;
    char buffer[PATH_MAX];
    const char *name = named(at, path, buffer);
    if (!name) return (int)next()(SYS_fchmodat, at, path, mode);
    struct plan *p = planned(CHMOD, name);
    if (FAILS(p)) return -1;
    struct stat st;
    hold();
    int answer = (int)next()(SYS_fchmodat, at, path, mode);
    if (!answer && !stat(buffer, &st)) record_path(CHMOD, name, NULL, st.st_ino, mode & 07777);
    release();
    after(p);
    return answer;
}
int chmod(const char *path, mode_t mode) { return fchmodat(AT_FDCWD, path, mode, 0); }

/* ---- locks: steps for plans, not recorded ---- */

int flock(int fd, int operation) {
    char buffer[PATH_MAX];
    struct stat st;
    const char *name = plan_count || steps_fd >= 0 ? of_fd(fd, buffer, &st) : NULL;
    struct plan *p = name ? planned(LOCK, name) : NULL;
    if (FAILS(p)) return -1;
    int answer = (int)next()(SYS_flock, fd, operation);
    after(p);
    return answer;
}

/* ---- copies inside the kernel, refused below the watched directory ---- */

static int copies(int fd) {
    char buffer[PATH_MAX];
    struct stat st;
    return of_fd(fd, buffer, &st) ? (errno = ENOSYS, 1) : 0;
}
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags) {
    return copies(out) ? -1 : next()(SYS_copy_file_range, in, in_at, out, out_at, size, flags);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) {
    if (copies(out)) { errno = EINVAL; return -1; }
    return next()(SYS_sendfile, out, in, at, size);
}
ssize_t sendfile(int out, int in, off_t *at, size_t size) { return sendfile64(out, in, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) {
    return copies(fd) ? EOPNOTSUPP : next()(SYS_fallocate, fd, 0, at, size) ? errno : 0;
}
