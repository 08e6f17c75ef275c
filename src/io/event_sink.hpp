// Writes events into the array that the caller passed to Io::poll(), up to its end.
#pragma once

#include <span>

#include "base/assert.hpp"
#include "io/io.hpp"

namespace sluice::io {

class EventSink {
 public:
  explicit EventSink(std::span<Event> events) noexcept : events_(events) {}

  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == events_.size(); }
  size_t count() const noexcept { return count_; }
  size_t room() const noexcept { return events_.size() - count_; }

  void push(const Event& event) noexcept {
    ASSERT(!full());
    events_[count_++] = event;
  }

 private:
  std::span<Event> events_;
  size_t count_ = 0;
};

}  // namespace sluice::io
