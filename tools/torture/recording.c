/* Preloaded: writes to $RECORD_TO what changes files and folders under $RECORD_UNDER, in order; see `power.py`.

A record is a line "what inode number bytes path" and so many bytes: of data, or of a second path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static int is_ours(const char *path) {
    const char *under = getenv("RECORD_UNDER");
    return under != NULL && path != NULL && strncmp(path, under, strlen(under)) == 0;
}

static void record(const char *what, long inode, long number, const char *path, const void *data, size_t size) {
    static int to = -1;
    int before = errno;
    if (to < 0) to = syscall(SYS_openat, AT_FDCWD, getenv("RECORD_TO"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char head[PATH_MAX + 100];
    int length = snprintf(head, sizeof head, "%s %ld %ld %zu %s\n", what, inode, number, size, path);
    struct iovec parts[2] = {{head, length}, {(void *)data, size}};
    if (syscall(SYS_writev, to, parts, 2) != (long)(length + size)) abort();
    errno = before;
}

/* The path of an open file under the folder, and what is known of it; NULL for others. */
static const char *place_of(int number, struct stat *found) {
    static __thread char path[PATH_MAX];
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", number);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size < 0) return NULL;
    path[size] = 0;
    if (!is_ours(path) || fstat(number, found) != 0) return NULL;
    return path;
}

#define ATOMIC(type, call, noted) \
    pthread_mutex_lock(&lock); \
    type result = call; \
    if (result >= 0) { noted } \
    pthread_mutex_unlock(&lock); \
    return result;

static void opened(int number, const char *path, int flags, int was_there) {
    struct stat found;
    const char *place = place_of(number, &found);
    if (place == NULL || !S_ISREG(found.st_mode)) return;
    if (!was_there) record("create", found.st_ino, 0, place, NULL, 0);
    else if (flags & O_TRUNC) record("truncate", found.st_ino, 0, place, NULL, 0);
}
#define OPEN(name, parameters, arguments, there) \
    int name parameters { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        pthread_mutex_lock(&lock); \
        int before = errno, was_there = !(flags & O_CREAT) || there == 0; \
        errno = before; \
        int result = REAL(name) arguments; \
        if (result >= 0) opened(result, path, flags, was_there); \
        pthread_mutex_unlock(&lock); \
        return result; \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode), access(path, F_OK))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), access(path, F_OK))
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), faccessat(folder, path, F_OK, 0))
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), faccessat(folder, path, F_OK, 0))

static long offset_of(int number, const struct stat *found) {
    return fcntl(number, F_GETFL) & O_APPEND ? found->st_size : lseek(number, 0, SEEK_CUR);
}
ssize_t write(int number, const void *data, size_t size) {
    struct stat found;
    pthread_mutex_lock(&lock);
    const char *path = place_of(number, &found);
    long at = path == NULL ? 0 : offset_of(number, &found);
    ssize_t result = REAL(write)(number, data, size);
    if (path != NULL && result > 0) record("write", found.st_ino, at, path, data, result);
    pthread_mutex_unlock(&lock);
    return result;
}
ssize_t writev(int number, const struct iovec *parts, int count) {
    struct stat found;
    if (place_of(number, &found) == NULL) return REAL(writev)(number, parts, count);
    ssize_t all = 0;
    for (int each = 0; each < count; each++) {
        ssize_t result = write(number, parts[each].iov_base, parts[each].iov_len);
        if (result < 0) return all ? all : result;
        all += result;
    }
    return all;
}
static ssize_t written(ssize_t result, int number, const void *data, long at) {
    struct stat found;
    const char *path = result > 0 ? place_of(number, &found) : NULL;
    if (path != NULL) record("write", found.st_ino, at, path, data, result);
    return result;
}
ssize_t pwrite(int number, const void *data, size_t size, off_t at) {
    ATOMIC(ssize_t, REAL(pwrite)(number, data, size, at), written(result, number, data, at);)
}
ssize_t pwrite64(int number, const void *data, size_t size, off64_t at) {
    ATOMIC(ssize_t, REAL(pwrite64)(number, data, size, at), written(result, number, data, at);)
}
ssize_t sendfile64(int number, int from, off64_t *at, size_t size) {
    struct stat found;
    if (place_of(number, &found) == NULL) return REAL(sendfile64)(number, from, at, size);
    char *data = malloc(size < 1 << 20 ? size : 1 << 20);
    ssize_t result = pread64(from, data, size < 1 << 20 ? size : 1 << 20, at ? *at : lseek(from, 0, SEEK_CUR));
    if (result > 0) result = write(number, data, result);
    if (result > 0 && at) *at += result;
    else if (result > 0) lseek(from, result, SEEK_CUR);
    free(data);
    return result;
}
ssize_t sendfile(int number, int from, off_t *at, size_t size) { return sendfile64(number, from, at, size); }

static void noted(const char *what, int number, long size) {
    struct stat found;
    const char *path = place_of(number, &found);
    if (path != NULL) record(S_ISDIR(found.st_mode) ? "syncfolder" : what, found.st_ino, size, path, NULL, 0);
}
int fsync(int number) { ATOMIC(int, REAL(fsync)(number), noted("sync", number, 0);) }
int fdatasync(int number) { ATOMIC(int, REAL(fdatasync)(number), noted("sync", number, 0);) }
int ftruncate(int number, off_t size) { ATOMIC(int, REAL(ftruncate)(number, size), noted("truncate", number, size);) }
int ftruncate64(int number, off64_t size) { ATOMIC(int, REAL(ftruncate64)(number, size), noted("truncate", number, size);) }

static void cut(const char *path, long size) {
    struct stat found;
    if (is_ours(path) && stat(path, &found) == 0) record("truncate", found.st_ino, size, path, NULL, 0);
}
int truncate(const char *path, off_t size) { ATOMIC(int, REAL(truncate)(path, size), cut(path, size);) }
int truncate64(const char *path, off64_t size) { ATOMIC(int, REAL(truncate64)(path, size), cut(path, size);) }

static void named(const char *what, const char *path, const char *second) {
    if (is_ours(path)) record(what, 0, 0, path, second, second == NULL ? 0 : strlen(second));
}
int rename(const char *from, const char *path) { ATOMIC(int, REAL(rename)(from, path), named("rename", from, path);) }
int link(const char *from, const char *path) { ATOMIC(int, REAL(link)(from, path), named("link", from, path);) }
int unlink(const char *path) { ATOMIC(int, REAL(unlink)(path), named("unlink", path, NULL);) }
int mkdir(const char *path, mode_t mode) { ATOMIC(int, REAL(mkdir)(path, mode), named("mkdir", path, NULL);) }
int rmdir(const char *path) { ATOMIC(int, REAL(rmdir)(path), named("unlink", path, NULL);) }

static void unlinked(int folder, const char *path) {
    struct stat found;
    char whole[PATH_MAX];
    const char *above = path[0] == '/' ? "" : folder == AT_FDCWD ? NULL : place_of(folder, &found);
    if (above == NULL) return;
    snprintf(whole, sizeof whole, "%s%s%s", above, above[0] ? "/" : "", path);
    named("unlink", whole, NULL);
}
int unlinkat(int folder, const char *path, int flags) { ATOMIC(int, REAL(unlinkat)(folder, path, flags), unlinked(folder, path);) }
int renameat(int from_folder, const char *from, int folder, const char *path) {
    if (from[0] == '/' && path[0] == '/') return rename(from, path);
    return REAL(renameat)(from_folder, from, folder, path);
}
