// The entries that wait, as their connections keep them: the session's end of the shards' waiters.
// Flow:   an entry that may wait takes a ticket before it is decided; `queued` makes it a member of
//         its frame, any other verdict frees the ticket; a grant names the ticket. The states in
//         between are those of wait_state.hpp.
// Shape:  tickets are pool indexes. A native frame with waiting entries is a WaitingFrame, found by
//         its id; a REST request waits with one ticket and no frame.
// Errors: take() returns api::no_ticket when the book is full: the entry's answer is waiters_full.
// Lives:  one thread only; a ticket lives from take() to free().
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <memory>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/object_pool.hpp"
#include "route/node_map.hpp"
#include "route/shard_message.hpp"
#include "session/ticket_share.hpp"
#include "session/wait_state.hpp"

namespace sluice::session {

struct WaitingFrame;

struct WaitingEntry : boost::intrusive::list_base_hook<> {
  WaitingEntry(uint32_t of_session, uint32_t of_index, WaitsFor what) noexcept
      : session(of_session), entry_index(of_index), waits_for(what) {}

  uint32_t session;      // valid until its client leaves
  uint32_t entry_index;  // in its frame; over HTTP/2, its stream
  WaitsFor waits_for;
  api::Ticket ticket = api::no_ticket;
  api::WaiterId waiter = api::no_waiter;
  route::TargetId owner = 0;  // where the waiter is
  WaitState state = WaitState::undecided;
  route::Notice notice;           // to an owner that is another shard
  WaitingFrame* frame = nullptr;  // native only
  // The outcome: of an entry with a key ...
  api::Verdict verdict = api::Verdict::none;
  api::Detail detail;
  // ... and of a quota call, with detail.retry_after_ms.
  api::QuotaCode code{};
  uint64_t reservation = 0;  // when admitted
  // For quota calls over REST: lent to the owner, which is done with it before the ticket is free.
  std::unique_ptr<api::WaitAnswer> answer;
};

using WaitingEntries =
    boost::intrusive::list<WaitingEntry, boost::intrusive::constant_time_size<false>>;

// An Acquire or Reserve frame with entries that wait, or that are granted and not written yet.
struct WaitingFrame : boost::intrusive::set_base_hook<>, boost::intrusive::list_base_hook<> {
  WaitingFrame(uint64_t of_id, uint8_t of_detail_bits) noexcept
      : id(of_id), detail_bits(of_detail_bits) {}

  uint64_t id;
  uint32_t pool_index = 0;
  uint8_t detail_bits;
  bool reserves = false;   // it is a Reserve
  bool forwards = false;   // it is a Forward: its grants carry permits
  WaitingEntries waiting;  // by entry index
  WaitingEntries granted;  // in the order of their outcomes
};

struct FrameId {
  using type = uint64_t;
  uint64_t operator()(const WaitingFrame& frame) const noexcept { return frame.id; }
};

using WaitingFrames = boost::intrusive::set<WaitingFrame, boost::intrusive::key_of_value<FrameId>>;
using GrantedFrames =
    boost::intrusive::list<WaitingFrame, boost::intrusive::constant_time_size<false>,
                           boost::intrusive::base_hook<boost::intrusive::list_base_hook<>>>;

class WaitBook {
 public:
  // Entries that may wait hold a ticket until they are decided, hence the turn's entries on top.
  explicit WaitBook(uint32_t waiters_max)
      : entries_(waiters_max + limits::turn_entries, "waiting entries (--max-waiters)"),
        frames_(waiters_max + limits::turn_entries, "waiting frames (--max-waiters)") {}

  api::Ticket take(uint32_t session, uint32_t entry_index, WaitsFor what) noexcept {
    const api::Ticket ticket = entries_.take(session, entry_index, what);
    if (ticket != api::no_ticket) entries_[ticket].ticket = ticket;
    return ticket;
  }
  void follow(WaitingEntry& entry, WaitEvent event) noexcept {
    uint32_t& waiting = waiting_[static_cast<size_t>(entry.waits_for)];
    waiting -= waits(entry.state);
    entry.state = next_wait_state(entry.state, event);
    ASSERT(entry.state != no_wait_state);
    waiting += waits(entry.state);
  }
  // A ticket that a notice names, here or under way, must not name another entry: it stays until
  // the notice has returned, and free_ended() is called.
  void free(api::Ticket ticket) noexcept {
    WaitingEntry& entry = entries_[ticket];
    follow(entry, WaitEvent::ended);
    if (entry.notice.kind == route::Notice::Kind::none) entries_.free(ticket);
  }
  void free_ended(api::Ticket ticket) noexcept {
    const WaitingEntry& entry = entries_[ticket];
    ASSERT(entry.state == WaitState::ended && entry.notice.kind == route::Notice::Kind::none);
    entries_.free(ticket);
  }
  WaitingEntry& operator[](api::Ticket ticket) noexcept { return entries_[ticket]; }
  // Calls `handle(entry)` for each that waits.
  template <typename Handle>
  void for_waiting(Handle handle) noexcept {
    for (api::Ticket ticket = 0; ticket < entries_.index_end(); ++ticket) {
      const bool waits = entries_.holds(ticket) && entries_[ticket].state == WaitState::waiting;
      if (waits) handle(entries_[ticket]);
    }
  }

  // There is always room: an open frame has an entry that holds a ticket, waiting, or granted and
  // not written yet. The number of the shard's waiters is no bound, because a granted entry has
  // none any more.
  WaitingFrame* open_frame(uint64_t id, uint8_t detail_bits) noexcept {
    const uint32_t index = frames_.take(id, detail_bits);
    if (index == decltype(frames_)::none) return nullptr;
    frames_[index].pool_index = index;
    return &frames_[index];
  }
  void close_frame(WaitingFrame& frame) noexcept { frames_.free(frame.pool_index); }

  uint32_t tickets_count() const noexcept { return entries_.used(); }
  // Entries that wait, or have an outcome that is not written yet.
  uint32_t waiting_count(WaitsFor what) const noexcept {
    return waiting_[static_cast<size_t>(what)];
  }
  uint32_t frames_count() const noexcept { return frames_.used(); }
  uint64_t reserved_bytes() const noexcept {
    return entries_.reserved_bytes() + frames_.reserved_bytes();
  }

 private:
  static constexpr bool waits(WaitState state) noexcept {
    return state != WaitState::undecided && state != WaitState::ended;
  }

  std::array<uint32_t, waits_for_count> waiting_{};
  base::ObjectPool<WaitingEntry> entries_;
  base::ObjectPool<WaitingFrame> frames_;
};

}  // namespace sluice::session
