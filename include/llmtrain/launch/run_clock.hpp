#pragma once

#include <chrono>

// The time of day by which a leader dates what it writes down: read once, counted on from there.
//
// A host's clock may be set while a job runs, by hand or after a lost time server. What is written down
// still lies in order, and no jump counts as time. It is for people: nothing is decided by it.
namespace llmtrain {

class RunClock {
 public:
  using TimeOfDay = double (*)();

  explicit RunClock(TimeOfDay host = time_of_day)
      : host_(host), day_(host()), start_(std::chrono::steady_clock::now()) {}

  // Seconds since 1970.
  double now() const {
    return day_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  // A time that a process of this host has just read, by this clock.
  double from_host(double unix_time) const { return unix_time - host_() + now(); }

  // What the host says now: for who compares it with what a host says later.
  static double time_of_day() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

 private:
  TimeOfDay host_;
  double day_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace llmtrain
