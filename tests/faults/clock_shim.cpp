#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// Loaded before the C library (LD_PRELOAD): the time of day is off by as many seconds as the first eight
// bytes of the file $LLMTRAIN_TEST_CLOCK say at this moment. Clocks that only count are left alone.
namespace {

std::int64_t offset() {
  static const volatile std::int64_t* const seconds = [] {
    static const std::int64_t none = 0;
    const char* const path = std::getenv("LLMTRAIN_TEST_CLOCK");
    const int fd = path ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return &none;
    const void* const page = ::mmap(nullptr, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    return page == MAP_FAILED ? &none : static_cast<const std::int64_t*>(page);
  }();
  return *seconds;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += offset();
  return result;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
}
