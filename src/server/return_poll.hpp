// A busy wait, before its worker sleeps, for messages that other shards are about to return: their
// senders need not wake it then, which takes both sides longer than most messages are away.
// Flow:   nothing to do -> finds_work() -> the next turn, or Mailboxes::prepare_sleep().
// Shape:  only while a message of this shard has not returned, and few entries are away: under load
//         this core has others to serve meanwhile. To wait also for another shard's next message,
//         after its last was answered, costs more than it saves: docs/performance.md.
// Bounds: return_poll_ns by the clock; it ends early when Io shows that poll() has something to do,
//         which epoll does only for what this turn has queued.
//         After a wait in vain the next few are left out: a shard that is busy returns late.
// Lives:  one thread; `io` and `mailboxes` outlive it.
#pragma once

#include <cstdint>

#include "base/time.hpp"
#include "io/io.hpp"
#include "route/mailboxes.hpp"

namespace sluice::server {

// About as long as it takes to wake the other core, and to serve the message there.
inline constexpr int64_t return_poll_ns = 20 * base::ns_per_us;
inline constexpr uint32_t skips_after_vain_poll = 8;
inline constexpr uint32_t polled_entries_max = 16;

class ReturnPoll {
 public:
  // `poll_ns` 0: never, as with more shards than cores, where the other shard may need this core.
  ReturnPoll(io::Io& io, route::Mailboxes& mailboxes, int64_t poll_ns) noexcept
      : io_(io), mailboxes_(mailboxes), poll_ns_(poll_ns) {}

  // False: the worker may prepare to sleep.
  bool finds_work() noexcept;

 private:
  io::Io& io_;
  route::Mailboxes& mailboxes_;
  const int64_t poll_ns_;
  uint32_t skips_left_ = 0;  // waits to be left out
};

}  // namespace sluice::server
