// A caller that blocks until its entries have their outcomes. Part of Client.
// Shape:  lives on the caller's stack; the thread that completes an entry stores its verdict, and
//         the last one opens the gate. A poke wakes the caller up early, so that it leads its lane.
// Lives:  until is_done(); no other thread touches it after that.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "platform.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {

// What became of an entry: an Outcome without its details.
struct Decided {
  Verdict verdict = Verdict::none;
  Failure failure = Failure::none;

  bool approved() const noexcept { return verdict == Verdict::approved; }
};

class Waiter {
 public:
  using Clock = Platform::Clock;

  // A place for each entry's verdict.
  Waiter(Platform& platform, std::span<Verdict> verdicts)
      : platform_{platform}, verdicts_{verdicts}, left_{verdicts.size()} {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  std::span<Verdict> verdicts() noexcept { return verdicts_; }

  void complete(size_t index, const Decided& outcome) noexcept {
    verdicts_[index] = outcome.verdict;
    if (outcome.failure != Failure::none) note_failure(outcome.failure, 1);
    complete(1);
  }
  // The verdicts of `count` entries were stored.
  void complete(size_t count) noexcept {
    if (left_.fetch_sub(count, std::memory_order_acq_rel) == count) open(done);
  }
  void note_failure(Failure failure, size_t count) noexcept {
    auto none = Failure::none;
    failure_.compare_exchange_strong(none, failure, std::memory_order_relaxed);
    failed_.fetch_add(count, std::memory_order_relaxed);
  }
  // Notes the server's reason for refusing a frame; the first one counts.
  void note_refusal(ErrorCode code, std::string_view text) {
    if (has_refusal_.exchange(true, std::memory_order_relaxed)) return;
    refusal_code_ = code;
    refusal_text_ = text;
  }
  void poke() noexcept { open(poked); }

  bool is_done() const noexcept { return (gate_.load(std::memory_order_acquire) & done) != 0; }
  Failure failure() const noexcept { return failure_.load(std::memory_order_relaxed); }
  Refused refusal() const { return {refusal_code_, refusal_text_}; }
  size_t failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  // Blocks until it is done, poked, or the deadline has passed.
  void wait_until(Platform::Deadline deadline) noexcept {
    while (gate_.load(std::memory_order_acquire) == shut) {
      if (!platform_.sleep(gate_, shut, deadline)) break;
    }
    gate_.fetch_and(~poked, std::memory_order_acquire);
  }

  // Of its lane, under the lane's lock, or that of a lane that took its call over.
  std::atomic<bool> is_listed{false};    // it waits on one lane alone
  std::atomic<bool> is_in_queue{false};  // the server answered `queued`: it must not lead
  // Its call was taken over by another lane than the one that it waits on: it must not lead,
  // either.
  std::atomic<bool> was_taken_over{false};
  bool may_lead() const noexcept {
    return !is_in_queue.load(std::memory_order_relaxed) &&
           !was_taken_over.load(std::memory_order_relaxed);
  }
  Waiter* next = nullptr;
  Waiter* previous = nullptr;

 private:
  static constexpr uint32_t shut = 0, done = 1, poked = 2;

  // The waiter may be gone when its thread is woken: the wake-up then has no effect.
  void open(uint32_t why) noexcept {
    Platform& platform = platform_;
    auto* gate = &gate_;
    if (gate->fetch_or(why, std::memory_order_release) == shut) platform.wake(gate);
  }

  Platform& platform_;
  std::span<Verdict> verdicts_;
  std::atomic<size_t> left_;
  std::atomic<size_t> failed_{0};
  std::atomic<Failure> failure_{Failure::none};
  std::atomic<bool> has_refusal_{false};
  // Unless the server refuses: the reason why a lane does not send a frame.
  ErrorCode refusal_code_ = ErrorCode::frame_too_large;
  std::string refusal_text_ = "it accepts no frame as large as this call's";
  Platform::Gate gate_{shut};
};

}  // namespace sluicegate
