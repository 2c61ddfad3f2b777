/* A disk that fails: preloaded, it makes calls on files below a folder fail, and counts what it did.
 *   FAULT_FOLDER  the folder; FAULT_LOG gets a byte for each fault
 *   FAULT_RATE    one call of so many fails (EIO, ENOSPC), or writes less than it was given
 *   FAULT_ROOM    no more than so many bytes are written in all, then ENOSPC for ever
 * cc -shared -fPIC -o io_faults.so io_faults.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(const char* path) {
  const char* folder = getenv("FAULT_FOLDER");
  return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int below_fd(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return below(path);
}

static void told(void) {
  const char* log = getenv("FAULT_LOG");
  const int fd = log ? REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;
  if (fd < 0) return;
  (void)!REAL(write)(fd, "x", 1);
  REAL(close)(fd);
}

/* 0, or the errno of a fault. */
static int fault(void) {
  static __thread unsigned seed;
  const char* rate = getenv("FAULT_RATE");
  if (!rate) return 0;
  if (seed == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = (unsigned)now.tv_nsec ^ ((unsigned)getpid() << 16) ^ 1;
  }
  if (rand_r(&seed) % atoi(rate) != 0) return 0;
  told();
  return rand_r(&seed) % 2 ? EIO : ENOSPC;
}

/* How much of what is to be written there is room for. */
static size_t room(size_t size) {
  static size_t written;
  const char* most = getenv("FAULT_ROOM");
  if (!most) return size;
  const size_t left = strtoull(most, NULL, 10) - written;
  if (size > left) {
    size = left;
    told();
  }
  written += size;
  return size;
}

#define FAIL_IF(condition)                          \
  do {                                              \
    const int code = (condition) ? fault() : 0;     \
    if (code) return errno = code, -1;              \
  } while (0)

ssize_t write(int fd, const void* bytes, size_t size) {
  if (!below_fd(fd)) return REAL(write)(fd, bytes, size);
  FAIL_IF(size > 0);
  size_t some = room(size);
  if (size > 0 && some == 0) return errno = ENOSPC, -1;
  if (some > 1 && fault()) some /= 2;
  return REAL(write)(fd, bytes, some);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (!below_fd(fd)) return REAL(writev)(fd, parts, count);
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > 0) return write(fd, parts[i].iov_base, parts[i].iov_len);
  }
  return 0;
}

static int opened(const char* path, int flags, mode_t mode) {
  FAIL_IF(below(path));
  return REAL(open)(path, flags, mode);
}
#define MODE va_list rest; va_start(rest, flags); const mode_t mode = va_arg(rest, mode_t); va_end(rest)
int open(const char* path, int flags, ...) { MODE; return opened(path, flags, mode); }
int open64(const char* path, int flags, ...) { MODE; return opened(path, flags, mode); }

ssize_t read(int fd, void* bytes, size_t size) { FAIL_IF(below_fd(fd)); return REAL(read)(fd, bytes, size); }
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  FAIL_IF(below_fd(fd));
  return REAL(pread)(fd, bytes, size, at);
}
int fsync(int fd) { FAIL_IF(below_fd(fd)); return REAL(fsync)(fd); }
int rename(const char* from, const char* to) { FAIL_IF(below(to)); return REAL(rename)(from, to); }
int link(const char* from, const char* to) { FAIL_IF(below(to)); return REAL(link)(from, to); }
int unlink(const char* path) { FAIL_IF(below(path)); return REAL(unlink)(path); }
int mkdir(const char* path, mode_t mode) { FAIL_IF(below(path)); return REAL(mkdir)(path, mode); }
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  FAIL_IF(below(to));
  return REAL(renameat2)(a, from, b, to, flags);
}
