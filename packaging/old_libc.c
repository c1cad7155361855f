/* Functions that g++'s headers and its static C++ library take from a C library newer than the wheels' target. */
#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

/* Hidden: each library that links this file has its own copy. Zero means that several threads may exist. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* Waits until a time of `clock`. Converts the remaining time to CLOCK_REALTIME, the condition's clock. */
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                                                 clockid_t clock, const struct timespec* end) {
  struct timespec now, until;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += end->tv_sec - now.tv_sec;
  until.tv_nsec += end->tv_nsec - now.tv_nsec;
  if (until.tv_nsec < 0) until.tv_nsec += 1000000000, --until.tv_sec;
  if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &until);
}

/* Used by std::random_device, which is linked but not called. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t word = 0;
  while (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word) {
  }
  return word;
}
