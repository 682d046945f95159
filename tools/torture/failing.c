/* Preloaded: counts the system calls on files under $FAILING_UNDER, and lets the n-th fail once it is armed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;
static long first, last;
static int error_number;

/* From here on let the calls from `from` to `to`, counted from 1, fail with `number`; 0 for none. */
void arm(long from, long to, int number) {
    first = from, last = to, error_number = number;
    atomic_store(&calls, 0);
}

long counted(void) { return atomic_load(&calls); }

static int is_ours(const char *path) {
    const char *under = getenv("FAILING_UNDER");
    return under != NULL && path != NULL && strncmp(path, under, strlen(under)) == 0;
}

static int is_ours_by_number(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_ours(path);
}

/* Whether this call is to fail; errno is set then, and kept otherwise. */
static int fails(int ours, int number) {
    if (error_number == 0 || !ours) return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (call < first || call > last) return 0;
    errno = number ? number : error_number;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BY_PATH(type, name, path, parameters, arguments) \
    type name parameters { \
        int before = errno; \
        if (fails(is_ours(path), 0)) return (type)-1; \
        errno = before; \
        return REAL(name) arguments; \
    }
#define BY_NUMBER(type, name, descriptor, parameters, arguments) \
    type name parameters { \
        int before = errno; \
        if (fails(is_ours_by_number(descriptor), 0)) return (type)-1; \
        errno = before; \
        return REAL(name) arguments; \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        mode_t mode = 0; \
        int before = errno; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        if (fails(is_ours(path), 0)) return -1; \
        errno = before; \
        return REAL(name)(path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        mode_t mode = 0; \
        int before = errno; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        if (fails(is_ours(path), 0)) return -1; \
        errno = before; \
        return REAL(name)(folder, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
BY_NUMBER(ssize_t, read, descriptor, (int descriptor, void *data, size_t size), (descriptor, data, size))
BY_NUMBER(ssize_t, write, descriptor, (int descriptor, const void *data, size_t size), (descriptor, data, size))
BY_NUMBER(ssize_t, pread, descriptor, (int descriptor, void *data, size_t size, off_t at), (descriptor, data, size, at))
BY_NUMBER(ssize_t, pread64, descriptor, (int descriptor, void *data, size_t size, off64_t at), (descriptor, data, size, at))
BY_NUMBER(ssize_t, pwrite, descriptor, (int descriptor, const void *data, size_t size, off_t at), (descriptor, data, size, at))
BY_NUMBER(ssize_t, pwrite64, descriptor, (int descriptor, const void *data, size_t size, off64_t at), (descriptor, data, size, at))
BY_NUMBER(int, fsync, descriptor, (int descriptor), (descriptor))
BY_NUMBER(int, fdatasync, descriptor, (int descriptor), (descriptor))
BY_NUMBER(int, ftruncate, descriptor, (int descriptor, off_t size), (descriptor, size))
BY_NUMBER(int, ftruncate64, descriptor, (int descriptor, off64_t size), (descriptor, size))
BY_NUMBER(int, fchmod, descriptor, (int descriptor, mode_t mode), (descriptor, mode))
BY_PATH(int, rename, to, (const char *from, const char *to), (from, to))
BY_PATH(int, link, to, (const char *from, const char *to), (from, to))
BY_PATH(int, unlink, path, (const char *path), (path))
BY_PATH(int, mkdir, path, (const char *path, mode_t mode), (path, mode))
BY_PATH(int, rmdir, path, (const char *path), (path))
BY_PATH(int, chmod, path, (const char *path, mode_t mode), (path, mode))
