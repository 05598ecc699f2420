/* A disk that loses unsynced writes to SQLite's files, by LD_PRELOAD.
 *
 * state.db and state.db-wal have two more files each: NAME.disk has the contents on the disk, and NAME.dirty has a byte
 * for each page that was written since. A sync copies dirty pages to the disk. A failed sync returns EIO and marks the
 * pages clean, as Linux does. $LOSSY_FAIL names a file with a number n and a suffix: the n-th sync of a file with that
 * suffix fails; every sync of one, if n is negative.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGE 4096
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Gets the path of a descriptor. Returns 0 if it is not one of SQLite's files. */
static int ours(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 16);
    if (n < 0) return 0;
    path[n] = 0;
    char *base = strrchr(path, '/');
    if (!base || strncmp(base, "/state.db", 9)) return 0;
    return !base[9] || !strcmp(base + 9, "-wal");
}

static int beside(const char *path, const char *suffix) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void wrote(int fd, off_t offset, ssize_t length) {
    char path[PATH_MAX];
    int saved = errno;
    if (length > 0 && ours(fd, path)) {
        int dirty = beside(path, ".dirty");
        for (off_t page = offset / PAGE; page <= (offset + length - 1) / PAGE; page++)
            REAL(pwrite)(dirty, "\1", 1, page);
        close(dirty);
    }
    errno = saved;
}

/* Returns 1 if this sync must fail. */
static int fails(const char *path) {
    const char *control = getenv("LOSSY_FAIL");
    FILE *file = control ? fopen(control, "r+") : NULL;
    int left = 0;
    char suffix[32] = "";
    if (!file) return 0;
    int read = fscanf(file, "%d %31s", &left, suffix);
    size_t at = strlen(path) - strlen(suffix);
    if (read != 2 || strlen(path) < strlen(suffix) || strcmp(path + at, suffix)) left = 0;
    if (left > 0) {
        rewind(file);
        fprintf(file, "%d %s\n", left - 1, suffix);
    }
    fclose(file);
    return left < 0 || left == 1;
}

static int flush(int fd, int (*sync)(int)) {
    char path[PATH_MAX], mark, page[PAGE];
    if (!ours(fd, path)) return sync(fd);
    int failed = fails(path);
    int dirty = beside(path, ".dirty"), disk = beside(path, ".disk");
    for (off_t n = 0; pread(dirty, &mark, 1, n) == 1; n++) {
        if (!mark) continue;
        ssize_t length = failed ? 0 : pread(fd, page, PAGE, n * PAGE);
        if (length > 0) REAL(pwrite)(disk, page, length, n * PAGE);
        REAL(pwrite)(dirty, "\0", 1, n);
    }
    close(dirty), close(disk);
    if (failed) return errno = EIO, -1;
    return 0;
}

int fdatasync(int fd) { return flush(fd, REAL(fdatasync)); }
int fsync(int fd) { return flush(fd, REAL(fsync)); }

ssize_t write(int fd, const void *bytes, size_t length) {
    ssize_t n = REAL(write)(fd, bytes, length);
    if (n > 0) wrote(fd, lseek(fd, 0, SEEK_CUR) - n, n);
    return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    ssize_t n = REAL(pwrite)(fd, bytes, length, offset);
    wrote(fd, offset, n);
    return n;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) { return pwrite(fd, bytes, length, offset); }

/* A truncation reaches the disk at once. */
int ftruncate(int fd, off_t length) {
    char path[PATH_MAX];
    int done = REAL(ftruncate)(fd, length);
    if (done == 0 && ours(fd, path)) {
        int dirty = beside(path, ".dirty"), disk = beside(path, ".disk");
        REAL(ftruncate)(dirty, (length + PAGE - 1) / PAGE);
        REAL(ftruncate)(disk, length);
        close(dirty), close(disk);
    }
    return done;
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }
