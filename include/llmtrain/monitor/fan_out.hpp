#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "llmtrain/monitor/events.hpp"

// One sink that hands every event to several, in the order in which they were added.
namespace llmtrain {

class FanOut final : public EventSink {
 public:
  void add(std::unique_ptr<EventSink> sink) { sinks_.push_back(std::move(sink)); }

  void on(const Event& event) override {
    for (const auto& sink : sinks_) sink->on(event);
  }

 private:
  std::vector<std::unique_ptr<EventSink>> sinks_;
};

}  // namespace llmtrain
