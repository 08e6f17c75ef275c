// Puts a /rate request into the turn's entries, and answers it, for any version of HTTP.
// Flow:   wire::RestDecision -> add_decision() -> decided -> it waits, or end_decision().
// Shape:  has no exchange: most are answered in the iteration in which they arrive. One that is
//         queued goes on as a RestExchange.
// Lives:  inline, since there may be millions of them in a second.
#pragma once

#include <span>

#include "base/smaller_limit.hpp"
#include "session/context.hpp"
#include "session/request_log.hpp"
#include "session/session.hpp"
#include "session/ticket.hpp"
#include "wire/rest_request.hpp"

namespace sluice::session {

inline wire::RestOptions rest_options(const Options& options) noexcept {
  return {.key_bytes_max = options.key_bytes_max,
          .requests_can_set_rate = options.requests_can_set_rate,
          .requests_can_mod_queue = options.requests_can_mod_queue,
          .requests_can_set_window = options.requests_can_set_window,
          .has_other_nodes = options.ownership.nodes_count() > 1};
}

// Adds to the entry what the server's options decide.
inline void complete_entry(api::Entry& entry, const Options& options,
                           const RequestLog& log) noexcept {
  if (entry.op == api::Op::release && log.warns()) entry.flags |= api::flag::wants_details;
  if (entry.op != api::Op::acquire) return;
  entry.wait_ms_max = base::smaller_limit(entry.wait_ms_max, options.wait_ms_max);
}

// The turn has room for `request`. A key that was decoded lies in context.text.
inline const api::Entry& add_decision(Context& context, const route::Request& request,
                                      const wire::RestDecision& decision, const RequestLog& log,
                                      TicketShare& tickets, const WaiterPlace& place) noexcept {
  const api::Entry& asked = decision.entry;
  const std::span<char> text = context.text.room();
  if (asked.key_data >= text.data() && asked.key_data < text.data() + text.size()) {
    context.text.commit(static_cast<size_t>(asked.key_data - text.data()) + asked.key_bytes);
  }
  api::Entry& entry = context.turn.add(request, 1)[0];
  entry = asked;
  context.turn.set_overrides(entry, decision.overrides);
  if ((entry.flags & api::flag::stays_here) != 0) context.misrouted.count(entry.key());
  complete_entry(entry, context.options, log);
  if ((entry.flags & api::flag::may_wait) != 0) {
    const uint64_t waiting = waiting_count(context, WaitsFor::permits);
    entry.flags |= take_ticket(context, tickets, place, WaitsFor::permits, waiting, entry.ticket);
  }
  context.backend.send_lone();
  return entry;
}

// The verdict about a request's one entry.
struct DecidedEntry {
  explicit DecidedEntry(const Verdicts& verdicts) noexcept
      : entry(verdicts.entries[0]), verdict(verdicts.verdicts[0]), detail(verdicts.details[0]) {}
  bool is_queued() const noexcept { return verdict == api::Verdict::queued; }

  const api::Entry& entry;
  const api::Verdict verdict;
  const api::Detail& detail;
};

// Whether a release named a key that is not live; known only if the entry asked for it.
inline bool is_of_unknown_key(const api::Entry& entry, const api::Detail& detail) noexcept {
  const bool has_details = (entry.flags & api::flag::wants_details) != 0;
  return entry.op == api::Op::release && has_details && detail.limit == 0;
}

// The name of an owner that is a gocc and takes no such request; empty: none.
inline std::string_view unfit_owner(const Options& options, const DecidedEntry& decided) noexcept {
  const uint16_t node_plus_one = decided.detail.unfit_owner_plus_one;
  const bool is_unfit = decided.verdict == api::Verdict::owner_unreachable && node_plus_one > 0;
  return is_unfit ? options.node_names.at(node_plus_one - 1U) : std::string_view{};
}

// Answers a request that does not wait, unless its client has left: `transport` is the request's.
template <typename Transport>
void end_decision(Context& context, TicketShare& tickets, const DecidedEntry& decided, bool json,
                  bool has_left, Transport& transport) noexcept {
  const api::Entry& entry = decided.entry;
  RequestLog& log = transport.log();
  free_or_abandon(context, tickets, WaitsFor::permits, entry.ticket, decided.is_queued());
  if (has_left) {
    if (decided.is_queued()) return log.abandoned();
    log.answered(client_left, 0);
    return;
  }
  // Another node may own the key, and not answer: then nothing was released.
  const bool is_released =
      entry.op == api::Op::release && decided.verdict == api::Verdict::approved;
  if (is_released && is_of_unknown_key(entry, decided.detail)) log.released_unknown();
  if (is_released) return transport.write_release();
  transport.write_decision({.verdict = decided.verdict,
                            .detail = decided.detail,
                            .key = entry.key(),
                            .json = json,
                            .unfit_owner = unfit_owner(context.options, decided)});
}

}  // namespace sluice::session
