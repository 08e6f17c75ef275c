// Bounds the work that a turn does for its peers, so that nobody waits for everybody's backlog:
// what does not fit is done in later turns, after whoever was served less.
// Flow:   begin_turn() -> spend() for each request -> is_over() before the next. One session may
//         take all of a turn: smaller shares would mean more and smaller sends. A turn that meets
//         a backlog serves in the order of arrival; whoever was served least comes first from the
//         next one on.
// Units:  of about a nanosecond of user CPU each, as bench/turns/turns measures it.
// Lives:  one per worker, one thread only. A request is done whole, so it may overdraw the budget.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/quota.hpp"

namespace sluice::session {

// What requests cost.
namespace work {
inline constexpr uint64_t entry = 20;  // by key
inline constexpr uint64_t handle = 4;
inline constexpr uint64_t frame = 96;
inline constexpr uint64_t quota_call = 64;
inline constexpr uint64_t limit = 8;             // of a subject of a quota call
inline constexpr uint64_t fetched_subject = 72;  // beyond that
inline constexpr uint64_t row = 32;  // of a page of keys or subjects, of reported limits or nodes
inline constexpr uint64_t debug_key = 224;  // gathered, or written as JSON
inline constexpr uint64_t rest_request = 512;
inline constexpr uint64_t log_line = 2'048;
inline uint64_t of(const api::QuotaBatch& batch) noexcept {
  const uint64_t rows_count = batch.rows.size() + batch.limits.size();
  const uint64_t calls_count = batch.calls.size() + batch.calls_repeated;
  return calls_count * quota_call + batch.limits_checked * limit +
         batch.subjects_fetched * fetched_subject + rows_count * row;
}
// Header fields of HTTP/2: each byte received may stand for one, also where nobody reads it; one
// that is read is checked byte by byte.
constexpr uint64_t fields(size_t received_bytes, size_t decoded_bytes) noexcept {
  return 8 * received_bytes + decoded_bytes / 2;
}
// Received, or sent: the kernel's work in the main.
constexpr uint64_t bytes(size_t count) noexcept {
  return count / 4;
}
}  // namespace work

class TurnWork {
 public:
  // Some 200 us.
  static constexpr int64_t turn_work_max = 192 * 1024;

  explicit TurnWork(int64_t turn_work) noexcept : turn_work_(turn_work) {}

  // With `has_backlog` requests of earlier turns come first.
  void begin_turn(bool has_backlog) noexcept {
    left_ = turn_work_;
    has_backlog_ = has_backlog;
  }
  uint64_t turn_work() const noexcept { return static_cast<uint64_t>(turn_work_); }

  void spend(uint64_t work) noexcept { left_ -= static_cast<int64_t>(work); }

  bool is_over() const noexcept { return left_ <= 0; }
  // Whether requests may be served as they arrive, before their session is compared with others.
  bool may_serve_at_once() const noexcept { return !has_backlog_ && !is_over(); }

 private:
  const int64_t turn_work_;
  int64_t left_ = turn_work_;
  bool has_backlog_ = false;
};

}  // namespace sluice::session
