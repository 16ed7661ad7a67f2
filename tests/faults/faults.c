/* Counts the steps by which a process changes what is below one folder, and at the N-th kills it, or fills the disk.

   Preloaded, it stands before the C library, through which SQLite, FAISS, Tantivy and Python write. A step is whatever
   changes a file or a folder: making, opening for writing, writing, flushing, renaming, shortening and removing.

   - FAULTS_COUNT  does no harm
   - FAULTS_KILL   ends the process before the N-th step
   - FAULTS_TEAR   ends it in the middle of the N-th step, if that writes more than a byte, and else before it
   - FAULTS_FULL   from the N-th step on nothing finds room; the N-th itself, if it writes, finds room for half
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAULTS_COUNT, FAULTS_KILL, FAULTS_TEAR, FAULTS_FULL };
enum { GO, FAIL, HALF }; /* what becomes of a step */

static char folder[PATH_MAX]; /* empty: nothing is counted */
static size_t folder_length;
static int mode = FAULTS_COUNT, log_handle = -1;
static long fatal, steps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Begin: steps below `below` are counted, and a line `kind path` for each is written to the open file `log`, if any. */
void faults_arm(const char *below, int how, long at, int log) {
    mode = how;
    fatal = at;
    log_handle = log;
    folder_length = strlen(below);
    memcpy(folder, below, folder_length + 1);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int is_watched(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) &&
           (path[folder_length] == '/' || !path[folder_length]);
}

static void path_of_handle(int handle, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    out[length < 0 ? 0 : length] = 0;
}

static void path_at(int parent, const char *path, char *out) {
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (parent != AT_FDCWD) path_of_handle(parent, out);
    else if (!getcwd(out, PATH_MAX)) out[0] = 0;
    size_t length = strlen(out);
    snprintf(out + length, PATH_MAX - length, "/%s", path);
}

static int step(const char *kind, const char *path, int needs_room, size_t bytes) {
    int outcome = GO;
    pthread_mutex_lock(&lock);
    long number = ++steps;
    if (log_handle >= 0) dprintf(log_handle, "%s %s\n", kind, path + folder_length);
    if (mode == FAULTS_KILL && number == fatal) die();
    if (mode == FAULTS_TEAR && number == fatal) {
        if (bytes < 2) die();
        outcome = HALF;
    }
    if (mode == FAULTS_FULL && number >= fatal && needs_room) outcome = number == fatal && bytes > 1 ? HALF : FAIL;
    pthread_mutex_unlock(&lock);
    if (outcome == FAIL) errno = ENOSPC;
    return outcome;
}

static int step_at(const char *kind, int parent, const char *path, int needs_room) {
    char full[PATH_MAX];
    if (!folder_length) return GO;
    path_at(parent, path, full);
    return is_watched(full) ? step(kind, full, needs_room, 0) : GO;
}

static int step_on(const char *kind, int handle, int needs_room, size_t bytes) {
    char full[PATH_MAX];
    if (!folder_length || handle == log_handle) return GO;
    path_of_handle(handle, full);
    return is_watched(full) ? step(kind, full, needs_room, bytes) : GO;
}

/* ---- opening and making ---- */

#define OPEN_MODE \
    mode_t bits = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        bits = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC))

int open(const char *path, int flags, ...) {
    REAL(open);
    OPEN_MODE
    return CHANGES(flags) && step_at("open", AT_FDCWD, path, flags & O_CREAT) ? -1 : real(path, flags, bits);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    OPEN_MODE
    return CHANGES(flags) && step_at("open", AT_FDCWD, path, flags & O_CREAT) ? -1 : real(path, flags, bits);
}

int openat(int parent, const char *path, int flags, ...) {
    REAL(openat);
    OPEN_MODE
    return CHANGES(flags) && step_at("open", parent, path, flags & O_CREAT) ? -1 : real(parent, path, flags, bits);
}

int openat64(int parent, const char *path, int flags, ...) {
    REAL(openat64);
    OPEN_MODE
    return CHANGES(flags) && step_at("open", parent, path, flags & O_CREAT) ? -1 : real(parent, path, flags, bits);
}

FILE *fopen(const char *path, const char *how) {
    REAL(fopen);
    return how[0] != 'r' && step_at("open", AT_FDCWD, path, 1) ? NULL : real(path, how);
}

FILE *fopen64(const char *path, const char *how) {
    REAL(fopen64);
    return how[0] != 'r' && step_at("open", AT_FDCWD, path, 1) ? NULL : real(path, how);
}

int mkdir(const char *path, mode_t bits) {
    REAL(mkdir);
    return step_at("mkdir", AT_FDCWD, path, 1) ? -1 : real(path, bits);
}

int mkdirat(int parent, const char *path, mode_t bits) {
    REAL(mkdirat);
    return step_at("mkdir", parent, path, 1) ? -1 : real(parent, path, bits);
}

/* ---- writing ---- */

static ssize_t half_of(ssize_t written) {
    if (mode == FAULTS_TEAR) die();
    return written;
}

ssize_t write(int handle, const void *bytes, size_t size) {
    REAL(write);
    int outcome = step_on("write", handle, 1, size);
    if (outcome == HALF) return half_of(real(handle, bytes, size / 2));
    return outcome ? -1 : real(handle, bytes, size);
}

ssize_t pwrite(int handle, const void *bytes, size_t size, off_t offset) {
    REAL(pwrite);
    int outcome = step_on("write", handle, 1, size);
    if (outcome == HALF) return half_of(real(handle, bytes, size / 2, offset));
    return outcome ? -1 : real(handle, bytes, size, offset);
}

ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t offset) {
    REAL(pwrite64);
    int outcome = step_on("write", handle, 1, size);
    if (outcome == HALF) return half_of(real(handle, bytes, size / 2, offset));
    return outcome ? -1 : real(handle, bytes, size, offset);
}

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(writev);
    int outcome = step_on("write", handle, 1, count > 0 ? parts[0].iov_len : 0);
    if (outcome == HALF) return half_of(write(handle, parts[0].iov_base, parts[0].iov_len / 2));
    return outcome ? -1 : real(handle, parts, count);
}

/* Whatever a stream is given goes to the file at once, so that a kill finds there what was written before it. */
size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream) {
    REAL(fwrite);
    int handle = folder_length ? fileno(stream) : -1;
    int outcome = handle < 0 ? GO : step_on("write", handle, 1, size * count);
    if (outcome == FAIL) return 0;
    if (outcome == HALF) {
        size_t written = real(bytes, 1, size * count / 2, stream) / size;
        fflush(stream);
        errno = ENOSPC;
        return half_of(written);
    }
    size_t written = real(bytes, size, count, stream);
    if (handle >= 0) fflush(stream);
    return written;
}

/* ---- flushing ---- */

int fsync(int handle) {
    REAL(fsync);
    return step_on("fsync", handle, 1, 0) ? -1 : real(handle);
}

int fdatasync(int handle) {
    REAL(fdatasync);
    return step_on("fsync", handle, 1, 0) ? -1 : real(handle);
}

/* ---- renaming, shortening, removing ---- */

int rename(const char *from, const char *to) {
    REAL(rename);
    return step_at("rename", AT_FDCWD, from, 1) ? -1 : real(from, to);
}

int renameat(int from_parent, const char *from, int to_parent, const char *to) {
    REAL(renameat);
    return step_at("rename", from_parent, from, 1) ? -1 : real(from_parent, from, to_parent, to);
}

int renameat2(int from_parent, const char *from, int to_parent, const char *to, unsigned flags) {
    REAL(renameat2);
    return step_at("rename", from_parent, from, 1) ? -1 : real(from_parent, from, to_parent, to, flags);
}

int ftruncate(int handle, off_t size) {
    REAL(ftruncate);
    return step_on("truncate", handle, 0, 0) ? -1 : real(handle, size);
}

int ftruncate64(int handle, off64_t size) {
    REAL(ftruncate64);
    return step_on("truncate", handle, 0, 0) ? -1 : real(handle, size);
}

int unlink(const char *path) {
    REAL(unlink);
    return step_at("unlink", AT_FDCWD, path, 0) ? -1 : real(path);
}

int unlinkat(int parent, const char *path, int flags) {
    REAL(unlinkat);
    return step_at("unlink", parent, path, 0) ? -1 : real(parent, path, flags);
}

int rmdir(const char *path) {
    REAL(rmdir);
    return step_at("unlink", AT_FDCWD, path, 0) ? -1 : real(path);
}
