#include "c10d_store.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace llmtrain {
namespace {

using std::chrono::milliseconds;

class C10dStore final : public c10d::Store {
 public:
  C10dStore(std::shared_ptr<llmtrain::Store> store, std::string prefix, milliseconds timeout)
      : c10d::Store(timeout), store_(std::move(store)), prefix_(std::move(prefix)) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return make_c10d_store(store_, prefix_, timeout_); }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    store_->set(prefix_ + key, std::string(value.begin(), value.end()));
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const std::string value = wait_for(key, timeout_);
    return {value.begin(), value.end()};
  }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys)
      if (!store_->get(prefix_ + key, milliseconds(0))) return false;
    return true;
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    for (const std::string& key : keys) wait_for(key, timeout);
  }
  std::int64_t add(const std::string&, std::int64_t) override { refuse("add"); }
  bool deleteKey(const std::string&) override { refuse("deleteKey"); }
  std::int64_t getNumKeys() override { refuse("getNumKeys"); }

 private:
  std::string wait_for(const std::string& key, milliseconds timeout) {
    if (auto value = store_->get(prefix_ + key, timeout)) return *std::move(value);
    throw std::runtime_error(fmt::format("nobody set {}{} within {} ms", prefix_, key, timeout.count()));
  }
  [[noreturn]] static void refuse(const char* verb) {
    throw std::logic_error(fmt::format("the store of a communicator has no {}", verb));
  }

  std::shared_ptr<llmtrain::Store> store_;
  std::string prefix_;
};

class StoreOverC10d final : public llmtrain::Store {
 public:
  explicit StoreOverC10d(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  std::optional<std::string> get(const std::string& key, milliseconds timeout) override {
    try {
      // To them, a timeout of nothing means no timeout.
      if (timeout.count() > 0)
        store_->wait({key}, timeout);
      else if (!store_->check({key}))
        return std::nullopt;
      const std::vector<std::uint8_t> value = store_->get(key);
      return std::string(value.begin(), value.end());
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_c10d_store(std::shared_ptr<Store> store,
                                                std::string prefix,
                                                milliseconds timeout) {
  return c10::make_intrusive<C10dStore>(std::move(store), std::move(prefix), timeout);
}

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<StoreOverC10d>(c10::make_intrusive<c10d::HashStore>());
}

std::shared_ptr<Store> make_file_store(const std::string& path, int ranks) {
  return std::make_shared<StoreOverC10d>(c10::make_intrusive<c10d::FileStore>(path, ranks));
}

std::shared_ptr<Store> make_tcp_store(const std::string& host, std::uint16_t port, bool serve) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = serve;
  options.waitWorkers = false;
  return std::make_shared<StoreOverC10d>(c10::make_intrusive<c10d::TCPStore>(host, options));
}

}  // namespace llmtrain
