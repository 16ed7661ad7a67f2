/* Counts the steps by which a process changes what is below one folder, and at the N-th kills it, or fills the disk.

   Preloaded, it stands before the C library, through which SQLite, FAISS, Tantivy and Python write. A step is whatever
   changes a file or a folder: making, opening for writing, writing, flushing, renaming, shortening and removing.

   - FAULTS_COUNT  does no harm
   - FAULTS_KILL   ends the process before the N-th step
   - FAULTS_TEAR   ends it in the middle of the N-th step, if that writes more than a byte, and else before it
   - FAULTS_FULL   from the N-th step on nothing finds room; the N-th itself, if it writes, finds room for half
   - FAULTS_FAIL   the N-th step fails once, with a given error
   - FAULTS_SHORT  the N-th step reads or writes half

   With a kind, only its steps are counted, and there are some that change nothing: "look" opens for reading, "read",
   "mmap", and "malloc", which asks for 64 kB or more, wherever it is for.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAULTS_COUNT, FAULTS_KILL, FAULTS_TEAR, FAULTS_FULL, FAULTS_FAIL, FAULTS_SHORT };
enum { LARGE = 1 << 16 }; /* bytes of an allocation that is counted */
enum { GO, FAIL, HALF }; /* what becomes of a step */

static char folder[PATH_MAX]; /* empty: nothing is counted */
static size_t folder_length;
static char counted[16]; /* kind; empty: every step that changes something */
static int mode = FAULTS_COUNT, log_handle = -1, failure = ENOSPC;
static long fatal, steps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Begin: steps below `below` are counted, and a line `kind path` for each is written to the open file `log`, if any. */
void faults_arm(const char *below, int how, long at, int log, const char *kind, int error) {
    snprintf(counted, sizeof counted, "%s", kind);
    if (error) failure = error;
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

static int is_counted(const char *kind) {
    static const char *const reading[] = {"look", "read", "mmap", "malloc"};
    if (!folder_length) return 0;
    if (counted[0]) return !strcmp(counted, kind);
    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++)
        if (!strcmp(reading[i], kind)) return 0;
    return 1;
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
    if (mode == FAULTS_FAIL && number == fatal) outcome = FAIL;
    if (mode == FAULTS_SHORT && number == fatal && bytes > 1) outcome = HALF;
    if (mode == FAULTS_FULL && number >= fatal && needs_room) outcome = number == fatal && bytes > 1 ? HALF : FAIL;
    pthread_mutex_unlock(&lock);
    if (outcome == FAIL) errno = failure;
    return outcome;
}

static int step_at(const char *kind, int parent, const char *path, int needs_room) {
    char full[PATH_MAX];
    if (!is_counted(kind)) return GO;
    path_at(parent, path, full);
    return is_watched(full) ? step(kind, full, needs_room, 0) : GO;
}

static int step_on(const char *kind, int handle, int needs_room, size_t bytes) {
    char full[PATH_MAX];
    if (!is_counted(kind) || handle == log_handle) return GO;
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
#define STEP_OF_OPEN(flags, parent, path) \
    ((flags) & (O_CREAT | O_TRUNC) ? step_at("open", parent, path, (flags) & O_CREAT) : step_at("look", parent, path, 0))

int open(const char *path, int flags, ...) {
    REAL(open);
    OPEN_MODE
    return STEP_OF_OPEN(flags, AT_FDCWD, path) ? -1 : real(path, flags, bits);
}

int open64(const char *path, int flags, ...) {
    REAL(open64);
    OPEN_MODE
    return STEP_OF_OPEN(flags, AT_FDCWD, path) ? -1 : real(path, flags, bits);
}

int openat(int parent, const char *path, int flags, ...) {
    REAL(openat);
    OPEN_MODE
    return STEP_OF_OPEN(flags, parent, path) ? -1 : real(parent, path, flags, bits);
}

int openat64(int parent, const char *path, int flags, ...) {
    REAL(openat64);
    OPEN_MODE
    return STEP_OF_OPEN(flags, parent, path) ? -1 : real(parent, path, flags, bits);
}

FILE *fopen(const char *path, const char *how) {
    REAL(fopen);
    return step_at(how[0] == 'r' ? "look" : "open", AT_FDCWD, path, how[0] != 'r') ? NULL : real(path, how);
}

FILE *fopen64(const char *path, const char *how) {
    REAL(fopen64);
    return step_at(how[0] == 'r' ? "look" : "open", AT_FDCWD, path, how[0] != 'r') ? NULL : real(path, how);
}

int mkdir(const char *path, mode_t bits) {
    REAL(mkdir);
    return step_at("mkdir", AT_FDCWD, path, 1) ? -1 : real(path, bits);
}

int mkdirat(int parent, const char *path, mode_t bits) {
    REAL(mkdirat);
    return step_at("mkdir", parent, path, 1) ? -1 : real(parent, path, bits);
}

/* ---- reading ---- */

ssize_t read(int handle, void *bytes, size_t size) {
    REAL(read);
    int outcome = step_on("read", handle, 0, size);
    return outcome == FAIL ? -1 : real(handle, bytes, outcome == HALF ? size / 2 : size);
}

ssize_t pread(int handle, void *bytes, size_t size, off_t offset) {
    REAL(pread);
    int outcome = step_on("read", handle, 0, size);
    return outcome == FAIL ? -1 : real(handle, bytes, outcome == HALF ? size / 2 : size, offset);
}

ssize_t pread64(int handle, void *bytes, size_t size, off64_t offset) {
    REAL(pread64);
    int outcome = step_on("read", handle, 0, size);
    return outcome == FAIL ? -1 : real(handle, bytes, outcome == HALF ? size / 2 : size, offset);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *stream) {
    REAL(fread);
    int outcome = step_on("read", fileno(stream), 0, size * count);
    return outcome == FAIL ? 0 : real(bytes, size, outcome == HALF ? count / 2 : count, stream);
}

void *mmap(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    REAL(mmap);
    if (!(flags & MAP_ANONYMOUS) && step_on("mmap", handle, 0, 0)) return MAP_FAILED;
    return real(at, size, protection, flags, handle, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int handle, off64_t offset) {
    REAL(mmap64);
    if (!(flags & MAP_ANONYMOUS) && step_on("mmap", handle, 0, 0)) return MAP_FAILED;
    return real(at, size, protection, flags, handle, offset);
}

/* ---- memory ---- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int is_refused(size_t size) {
    return size >= LARGE && is_counted("malloc") && step("malloc", folder, 0, 0) == FAIL;
}

void *malloc(size_t size) { return is_refused(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_refused(count * size) ? NULL : __libc_calloc(count, size); }
void *realloc(void *bytes, size_t size) { return is_refused(size) ? NULL : __libc_realloc(bytes, size); }

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
        errno = failure;
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
