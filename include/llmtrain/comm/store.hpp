#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

// Where ranks that cannot reach each other yet leave their addresses: text by key, seen by all ranks of a
// job.
//
// A key is set once and stays. It serves the making of communicators, and is not for data. Thread-safe.
namespace llmtrain {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // What some rank sets within `timeout`; nothing when nobody did, or when the store cannot be reached.
  virtual std::optional<std::string> get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

// Of ranks that are threads of one process.
std::shared_ptr<Store> make_memory_store();
// Of the job, through this worker's agent: `fd` is a packet socket to it (control/store_wire.hpp), taken
// over. Once the agent is gone, get() answers nothing and set() throws CommError.
std::shared_ptr<Store> make_agent_store(int fd);
// In a file that processes of one host share; the last of `ranks` removes it.
std::shared_ptr<Store> make_file_store(const std::string& path, int ranks);
// Served over TCP by the one rank for which `serve` is set.
std::shared_ptr<Store> make_tcp_store(const std::string& host, std::uint16_t port, bool serve);

}  // namespace llmtrain
