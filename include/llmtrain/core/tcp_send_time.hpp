#pragma once

#include <chrono>
#include <map>

// How long this process's TCP connections have had data on its way that the network had not delivered yet.
//
// The kernel keeps that time for every connection (tcpi_busy_time of Linux' tcp_info): a slow link shows in
// it at the sender and nowhere else, while the time that a collective takes is the same for all who take
// part. So does a receiver that does not read; tcpi_rwnd_limited would not tell the two apart, because a slow
// link with long queues fills the receiver's window too. It sees TCP only, and judges nothing. One thread.
namespace llmtrain {

class TcpSendTime {
 public:
  // The sum over connections since the first call; those that were open by then count from then on. Times of
  // connections that send at once add up.
  std::chrono::microseconds total();

 private:
  void find_connections();

  std::map<int, std::chrono::microseconds> seen_;  // by descriptor
  std::chrono::microseconds total_{0};
  int calls_ = 0;
};

}  // namespace llmtrain
