// The calls of a run, each with what its caller asked for and what it got.
// Threads: callers and callbacks add to it under its lock; after the run nobody does.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluicegate/client.hpp"
#include "surroundings.hpp"

namespace sluicegate::simulation {

struct Result {
  std::vector<uint8_t> codes{};  // a verdict or quota code per entry
  std::vector<uint64_t> reservations{};
  size_t failed = 0;
  Failure failure = Failure::none;
  bool is_kept = false;  // of a settle
};

struct MadeCall {
  std::string kind{};
  std::vector<std::string> entries{};  // as the ledger names them
  bool is_quota = false;
  bool is_batch = false;
  bool is_async = false;
  bool may_wait = false;
  bool is_release = false;
  bool by_handle = false;
  uint32_t cost = 1;
  std::optional<Clock::duration> patience{};
  Time begin{};
  std::optional<Time> returned{};
  std::optional<Time> cancelled{};
  std::optional<Time> end{};
  uint32_t outcomes = 0;
  Result result{};
};

class CallBook {
 public:
  explicit CallBook(std::function<Time()> now) : now_{std::move(now)} {}

  MadeCall& begin(MadeCall call) {
    const std::lock_guard lock{mutex_};
    call.begin = now_();
    return calls_.emplace_back(std::move(call));
  }
  void end(MadeCall& call, Result result) {
    const std::lock_guard lock{mutex_};
    ++call.outcomes;
    call.end = now_();
    call.result = std::move(result);
  }
  void returned(MadeCall& call) {
    const std::lock_guard lock{mutex_};
    call.returned = now_();
  }
  void cancelled(MadeCall& call) {
    const std::lock_guard lock{mutex_};
    if (!call.end && !call.cancelled) call.cancelled = now_();
  }
  bool is_open(const MadeCall& call) {
    const std::lock_guard lock{mutex_};
    return call.outcomes == 0;
  }
  bool all_have_ended() {
    const std::lock_guard lock{mutex_};
    for (const MadeCall& call : calls_) {
      if (call.outcomes == 0) return false;
    }
    return true;
  }
  const std::deque<MadeCall>& calls() const noexcept { return calls_; }

 private:
  std::function<Time()> now_;
  std::mutex mutex_;
  std::deque<MadeCall> calls_;
};

}  // namespace sluicegate::simulation
