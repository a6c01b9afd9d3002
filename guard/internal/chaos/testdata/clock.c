// Loaded into redis-server ahead of the C library. It moves the wall clock by the
// nanoseconds that the file REDLATCH_CHAOS_CLOCK says, at any time. The monotonic clock
// stays.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void find(void) {
  const char *path = getenv("REDLATCH_CHAOS_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) {
    return;
  }
  void *at = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) {
    ahead = at;
  }
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int failed = (int)syscall(SYS_clock_gettime, id, t);
  if (!failed && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + *ahead;
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
  }
  return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  (void)zone;
  struct timespec s;
  int failed = clock_gettime(CLOCK_REALTIME, &s);
  t->tv_sec = s.tv_sec;
  t->tv_usec = s.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *t) {
  struct timespec s;
  clock_gettime(CLOCK_REALTIME, &s);
  if (t) {
    *t = s.tv_sec;
  }
  return s.tv_sec;
}
