/* Preloaded into a test: opening a path that never exists forks the process, which safe Rust cannot do.
 * The open of the parent fails with ENOENT, that of the child with EXDEV. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int open64(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (strcmp(path, "/duolog-test/fork") == 0) {
        errno = fork() == 0 ? EXDEV : ENOENT;
        return -1;
    }
    if (!next)
        next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    return next(path, flags, mode);
}
