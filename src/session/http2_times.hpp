// When a connection of HTTP/2 has waited too long for its peer, and when its last GOAWAY is due
// while the server drains.
// Flow:   note_...(), begin_...() as things happen -> deadline_ms() -> what is due then.
// Shape:  a session that is held reads nothing, so the peer may have sent what it lacks: until it
//         goes on, and for as long again, nothing is late, and only the last GOAWAY is due.
// Units:  milliseconds of the worker's clock; base::never_ms: nothing is due.
// Lives:  as long as its session.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.hpp"
#include "session/context.hpp"

namespace sluice::session {

class Http2Times {
 public:
  static constexpr int64_t idle_ms_max = 30'000;  // without a stream, as in gocc

  // The peer's first bytes are awaited.
  Http2Times(const Options& options, int64_t now_ms) noexcept
      : options_(options), partial_since_ms_(now_ms), idle_since_ms_(now_ms) {}

  // A head, or a frame that is no part of a body, has begun, and its rest is awaited.
  void note_partial(int64_t now_ms) noexcept {
    partial_since_ms_ = std::min(partial_since_ms_, now_ms);
  }
  void note_whole() noexcept { partial_since_ms_ = base::never_ms; }

  // The connection has no stream any more, or has one again.
  void begin_idle(int64_t now_ms) noexcept { idle_since_ms_ = now_ms; }
  void end_idle() noexcept { idle_since_ms_ = base::never_ms; }

  // A stream is late then.
  void note_stream(int64_t deadline_ms) noexcept {
    streams_due_ms_ = std::min(streams_due_ms_, deadline_ms);
  }
  // Whether one may be late. Then all are to be noted again.
  bool take_due_streams(int64_t now_ms) noexcept {
    if (not_held(streams_due_ms_) > now_ms) return false;
    streams_due_ms_ = base::never_ms;
    return true;
  }

  // The last GOAWAY is due after the drain's grace, if it is not sent before.
  void expect_last_goaway(int64_t now_ms) noexcept {
    goaway_due_ms_ = now_ms + options_.drain_grace_ms;
  }
  void note_last_goaway() noexcept { goaway_due_ms_ = base::never_ms; }
  bool is_goaway_due(int64_t now_ms) const noexcept { return goaway_due_ms_ <= now_ms; }

  // Whether the session is held, as often as that may have changed.
  void note_hold(bool is_held, int64_t now_ms) noexcept {
    if (is_held) {
      held_since_ms_ = std::min(held_since_ms_, now_ms);
    } else if (held_since_ms_ != base::never_ms) {
      const int64_t held_ms = now_ms - std::exchange(held_since_ms_, base::never_ms);
      late_from_ms_ = std::max(late_from_ms_, now_ms + held_ms);
    }
  }

  // Whether the connection ends.
  bool is_over(int64_t now_ms) const noexcept { return not_held(end_ms()) <= now_ms; }
  // Of all.
  int64_t deadline_ms() const noexcept {
    return std::min(not_held(std::min(end_ms(), streams_due_ms_)), goaway_due_ms_);
  }

 private:
  // When something is late that would be late at `ms` if the session were never held.
  int64_t not_held(int64_t ms) const noexcept {
    return held_since_ms_ == base::never_ms ? std::max(ms, late_from_ms_) : base::never_ms;
  }
  static int64_t after(int64_t since_ms, int64_t ms) noexcept {
    return since_ms == base::never_ms ? base::never_ms : since_ms + ms;
  }
  int64_t idle_ms() const noexcept {
    const int64_t ms = options_.idle_timeout_ms;
    return ms == 0 ? idle_ms_max : std::min(ms, idle_ms_max);
  }
  int64_t end_ms() const noexcept {
    return std::min(after(partial_since_ms_, options_.header_timeout_ms),
                    after(idle_since_ms_, idle_ms()));
  }

  const Options& options_;
  int64_t partial_since_ms_;
  int64_t idle_since_ms_;
  int64_t streams_due_ms_ = base::never_ms;
  int64_t goaway_due_ms_ = base::never_ms;
  int64_t held_since_ms_ = base::never_ms;
  int64_t late_from_ms_ = 0;  // nothing is late before
};

}  // namespace sluice::session
