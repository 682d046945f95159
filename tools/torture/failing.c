/* Preloaded: counts the system calls on files under $FAILING_UNDER, and lets the n-th fail once it is armed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
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

static int log_number = -1;
static __thread char place[PATH_MAX];

/* From here on write the number, the name and the path of each call to an open file; -1 for none. */
void log_calls(int number) { log_number = number; }

static int is_ours(const char *path) {
    const char *under = getenv("FAILING_UNDER");
    if (under == NULL || path == NULL || strncmp(path, under, strlen(under)) != 0) return 0;
    snprintf(place, sizeof place, "%s", path + strlen(under));
    return 1;
}

static int is_ours_by_number(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_ours(path);
}

/* Whether this call is to fail; errno is set then. A call that only reads fails with EIO: no disk is too full for it. */
static int fails(const char *name, int ours, int reads) {
    if (error_number == 0 || !ours) return 0;
    long call = atomic_fetch_add(&calls, 1) + 1;
    if (log_number >= 0) dprintf(log_number, "%ld\t%s\t%s\n", call, name, place);
    if (call < first || call > last) return 0;
    errno = reads ? EIO : error_number;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL(type, failed, name, ours, reads, parameters, arguments) \
    type name parameters { \
        int before = errno; \
        if (fails(#name, ours, reads)) return failed; \
        errno = before; \
        return REAL(name) arguments; \
    }
#define READS(name, type, parameters, arguments) CALL(type, -1, name, is_ours_by_number(number), 1, parameters, arguments)
#define WRITES(name, type, parameters, arguments) CALL(type, -1, name, is_ours_by_number(number), 0, parameters, arguments)
#define LOOKS(name, parameters, arguments) CALL(int, -1, name, is_ours(path), 1, parameters, arguments)
#define CHANGES(name, parameters, arguments) CALL(int, -1, name, is_ours(path), 0, parameters, arguments)

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
#define OPEN(name, parameters, arguments) \
    int name parameters { \
        MODE(flags) \
        int before = errno; \
        if (fails(#name, is_ours(path), (flags & (O_ACCMODE | O_CREAT)) == O_RDONLY)) return -1; \
        errno = before; \
        return REAL(name) arguments; \
    }
/* Names that are relative to an open folder, as shutil.rmtree gives them. */
#define IN_FOLDER(name, reads, parameters, arguments) \
    CALL(int, -1, name, path[0] == '/' ? is_ours(path) : is_ours_by_number(folder), reads, parameters, arguments)

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
CALL(DIR *, NULL, opendir, is_ours(path), 1, (const char *path), (path))
LOOKS(stat, (const char *path, struct stat *found), (path, found))
LOOKS(stat64, (const char *path, struct stat64 *found), (path, found))
LOOKS(lstat, (const char *path, struct stat *found), (path, found))
LOOKS(lstat64, (const char *path, struct stat64 *found), (path, found))
LOOKS(access, (const char *path, int mode), (path, mode))
IN_FOLDER(fstatat, 1, (int folder, const char *path, struct stat *found, int flags), (folder, path, found, flags))
IN_FOLDER(fstatat64, 1, (int folder, const char *path, struct stat64 *found, int flags), (folder, path, found, flags))
READS(read, ssize_t, (int number, void *data, size_t size), (number, data, size))
READS(pread, ssize_t, (int number, void *data, size_t size, off_t at), (number, data, size, at))
READS(pread64, ssize_t, (int number, void *data, size_t size, off64_t at), (number, data, size, at))
WRITES(write, ssize_t, (int number, const void *data, size_t size), (number, data, size))
WRITES(writev, ssize_t, (int number, const struct iovec *parts, int count), (number, parts, count))
WRITES(pwrite, ssize_t, (int number, const void *data, size_t size, off_t at), (number, data, size, at))
WRITES(pwrite64, ssize_t, (int number, const void *data, size_t size, off64_t at), (number, data, size, at))
WRITES(sendfile, ssize_t, (int number, int from, off_t *at, size_t size), (number, from, at, size))
WRITES(sendfile64, ssize_t, (int number, int from, off64_t *at, size_t size), (number, from, at, size))
WRITES(fsync, int, (int number), (number))
WRITES(fdatasync, int, (int number), (number))
WRITES(ftruncate, int, (int number, off_t size), (number, size))
WRITES(ftruncate64, int, (int number, off64_t size), (number, size))
WRITES(fchmod, int, (int number, mode_t mode), (number, mode))
CHANGES(truncate, (const char *path, off_t size), (path, size))
CHANGES(truncate64, (const char *path, off64_t size), (path, size))
CHANGES(rename, (const char *from, const char *path), (from, path))
CHANGES(renameat, (int from_folder, const char *from, int folder, const char *path), (from_folder, from, folder, path))
CHANGES(link, (const char *from, const char *path), (from, path))
CHANGES(unlink, (const char *path), (path))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode))
CHANGES(rmdir, (const char *path), (path))
CHANGES(chmod, (const char *path, mode_t mode), (path, mode))
IN_FOLDER(unlinkat, 0, (int folder, const char *path, int flags), (folder, path, flags))
