// Takes the tickets of calls that may wait, for every dialect.
// Errors: a flag says whose bound leaves no room for another ticket.
#pragma once

#include <cstdint>

#include "api/entry.hpp"
#include "session/context.hpp"
#include "session/ticket_share.hpp"
#include "session/wait_book.hpp"

namespace sluice::session {

// Where a grant goes: the session, and what it calls the waiting entry.
struct WaiterPlace {
  uint32_t session = 0;
  uint32_t entry_index = 0;  // in its frame; of its stream
};

// How many entries of all connections of all shards wait for that.
inline uint64_t waiting_count(const Context& context, WaitsFor what) noexcept {
  return context.waits.waiting_count(what) + context.backend.waiting_on_other_shards(what);
}

// `waiting` is waiting_count(), `most` the connection's own maximum. Returns the flag of the entry
// or quota call; 0: `ticket` is one.
inline uint8_t take_ticket(Context& context, TicketShare& tickets, const WaiterPlace& place,
                           WaitsFor what, uint64_t waiting, api::Ticket& ticket,
                           uint32_t most = limits::connection_waiters_max) noexcept {
  if (!tickets.may_take(what, waiting, context.options.waiters_max, most)) {
    return api::flag::connection_waiters_full;
  }
  ticket = context.waits.take(place.session, place.entry_index, what);
  if (ticket == api::no_ticket) return api::flag::waiters_full;
  tickets.taken(what);
  return 0;
}

// For a call that was decided, with its ticket, if it has one: frees it, or takes the call out of
// its queue, because its client has left.
inline void free_or_abandon(Context& context, TicketShare& tickets, WaitsFor what,
                            api::Ticket ticket, bool is_queued) noexcept {
  if (ticket == api::no_ticket) return;
  tickets.dropped_undecided(what);
  if (is_queued) {
    context.backend.abandon(context.waits[ticket]);
  } else {
    context.waits.free(ticket);
  }
}

// A call with a ticket was queued: its client waits.
inline void join(Context& context, TicketShare& tickets, WaitingEntry& entry) noexcept {
  context.waits.follow(entry, WaitEvent::joined);
  tickets.joined(entry.waits_for);
}

}  // namespace sluice::session
