// When a socket's multishot receive is armed, cancelled and armed again: pure, so that the uring
// back end and the simulator take the same decisions and a wrong one shows under simulation.
// Flow:   start, stop, close, completions, returned buffers -> ReceiveArming -> what to submit.
// Shape:  at most one receive is in flight; it ends with the completion that has no `more`.
// Errors: a completion's `result` is bytes, 0 (end of stream) or a negative errno.
// Lives:  one per socket slot, built anew with each generation.
// Source: io_uring_prep_recv_multishot(3): IORING_CQE_F_MORE may be missing on success too.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/assert.hpp"

namespace sluice::io {

enum class ReceiveAction : uint8_t {
  none,
  arm,               // submit a multishot receive
  cancel,            // submit a cancel of the receive in flight
  wait_for_buffers,  // call buffers_returned() when some are free, in order
};

class ReceiveArming {
 public:
  [[nodiscard]] ReceiveAction start() noexcept {
    wanted_ = !ended_;
    return arm_if_wanted();
  }

  [[nodiscard]] ReceiveAction stop() noexcept {
    wanted_ = false;
    return cancel_if_armed();
  }

  // Nothing is armed from now on. The socket may be closed or released once nothing is in flight.
  [[nodiscard]] ReceiveAction close() noexcept {
    ended_ = true;
    return stop();
  }

  // A completion of the receive in flight; without `more` the receive has ended. That happens on
  // success as well (it was a receive of one buffer, the completion queue was full, the kernel
  // chose to), so only `more` decides. With `others_wait` for buffers a socket that has got one
  // lines up behind them.
  [[nodiscard]] ReceiveAction complete(int32_t result, bool more,
                                       bool others_wait = false) noexcept {
    ASSERT(in_flight_);
    if (more) return ReceiveAction::none;
    in_flight_ = false;
    cancelling_ = false;
    if (result == 0 || (result < 0 && !is_transient(result))) {
      ended_ = true;
      wanted_ = false;
    }
    // Arming on an empty buffer ring would fail at once, and again.
    if (wanted_ && (result == -ENOBUFS || (result > 0 && others_wait))) {
      starved_ = true;
      return ReceiveAction::wait_for_buffers;
    }
    return arm_if_wanted();
  }

  // The buffer ring has buffers again, which this socket had to wait for.
  [[nodiscard]] ReceiveAction buffers_returned() noexcept {
    starved_ = false;
    return arm_if_wanted();
  }

  bool in_flight() const noexcept { return in_flight_; }
  bool wanted() const noexcept { return wanted_; }
  bool starved() const noexcept { return starved_; }
  bool ended() const noexcept { return ended_; }  // end of stream, failure or close()

 private:
  // Results that end the receive, but not the stream.
  static bool is_transient(int32_t result) noexcept {
    return result == -ENOBUFS || result == -ECANCELED || result == -EINTR || result == -EAGAIN;
  }

  ReceiveAction arm_if_wanted() noexcept {
    if (!wanted_ || in_flight_ || starved_) return ReceiveAction::none;
    in_flight_ = true;
    return ReceiveAction::arm;
  }

  ReceiveAction cancel_if_armed() noexcept {
    if (!in_flight_ || cancelling_) return ReceiveAction::none;
    cancelling_ = true;
    return ReceiveAction::cancel;
  }

  bool wanted_ = false;      // bytes shall be delivered
  bool in_flight_ = false;   // the last completion is still to come
  bool cancelling_ = false;  // and a cancel was submitted
  bool starved_ = false;     // waits for buffers_returned()
  bool ended_ = false;
};

}  // namespace sluice::io
