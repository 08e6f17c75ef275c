#include "server/entry_decisions.hpp"

#include <utility>

#include "base/assert.hpp"

namespace sluice::server {
namespace {

using api::Verdict;

// Entries of one request either all show their id or none.
bool shows_id(std::span<const api::Entry> entries) noexcept {
  return !entries.empty() && (entries[0].flags & api::flag::shows_id) != 0;
}

// Whether a request takes ids now: a split one takes them when it is complete.
bool shows_id(const route::Request& request, const route::Turn& turn) noexcept {
  return request.split == route::Request::whole && !request.by_handle &&
         shows_id(turn.entries().subspan(request.first_entry, request.entries_count));
}

// A request that was refused for what it asked takes no id, as in gocc. Nor does a look.
bool takes_id(const api::Entry& entry, Verdict verdict) noexcept {
  return entry.op != api::Op::look && verdict != Verdict::never_fits &&
         verdict != Verdict::not_allowed && verdict != Verdict::invalid_key;
}

uint64_t count_ids(std::span<const api::Entry> entries,
                   std::span<const Verdict> verdicts) noexcept {
  uint64_t count = 0;
  for (size_t index = 0; index < entries.size(); ++index) {
    count += takes_id(entries[index], verdicts[index]) ? 1 : 0;
  }
  return count;
}

// Returns the next id.
uint64_t assign_ids(std::span<const api::Entry> entries, std::span<const Verdict> verdicts,
                    std::span<api::Detail> details, uint64_t next_id) noexcept {
  for (size_t index = 0; index < entries.size(); ++index) {
    details[index].request_id = takes_id(entries[index], verdicts[index]) ? next_id++ : 0;
  }
  return next_id;
}

}  // namespace

EntryDecisions::EntryDecisions(session::Context& context, SessionTable& sessions,
                               route::Mailboxes& mailboxes, WaiterDelivery& waiters,
                               shard::KeyDecider& keys, RequestIds& ids)
    : context_(context),
      sessions_(sessions),
      mailboxes_(mailboxes),
      waiters_(waiters),
      keys_(keys),
      ids_(ids),
      shard_(mailboxes.shard()) {}

void EntryDecisions::execute() noexcept {
  if (context_.turn.empty()) return;
  ASSERT(!executing_);
  executing_ = true;
  route::Turn& turn = context_.turn;
  mailboxes_.split(turn);
  const uint64_t queued_before = queued_count();
  for (const route::Run& run : turn.runs()) decide(run);
  if (queued_count() != queued_before) register_waiters();
  const uint64_t ids = count_ids();
  assign_ids(ids > 0 ? ids_.take(ids) : 0);
  deliver_verdicts();
  turn.clear();
  context_.text.clear();
  executing_ = false;
  waiters_.deliver_grants();
}

void EntryDecisions::decide(const route::Run& run) noexcept {
  route::Turn& turn = context_.turn;
  const uint32_t first = run.first_entry;
  if (run.by_handle) {
    keys_.decide(turn.handles().subspan(first, run.entries_count), turn.verdicts().subspan(first),
                 context_.now);
    return;
  }
  const shard::Answers answers{
      .verdicts = turn.verdicts(), .details = turn.details(), .waiters = turn.waiters()};
  keys_.decide(turn.entries().subspan(first, run.entries_count), answers.from(first), context_.now,
               shard_);
}

void EntryDecisions::register_waiters() noexcept {
  route::Turn& turn = context_.turn;
  for (size_t index = 0; index < turn.entries().size(); ++index) {
    if (turn.verdicts()[index] != Verdict::queued) continue;
    waiters_.on_queued(turn.entries()[index].ticket, turn.waiters()[index], shard_);
  }
}

uint64_t EntryDecisions::count_ids() noexcept {
  uint64_t count = 0;
  route::Turn& turn = context_.turn;
  for (const route::Request& request : turn.requests()) {
    if (!shows_id(request, turn)) continue;
    const uint32_t first = request.first_entry;
    count += server::count_ids(turn.entries().subspan(first, request.entries_count),
                               turn.verdicts().subspan(first));
  }
  return count;
}

void EntryDecisions::assign_ids(uint64_t next_id) noexcept {
  route::Turn& turn = context_.turn;
  for (const route::Request& request : turn.requests()) {
    if (!shows_id(request, turn)) continue;
    const uint32_t first = request.first_entry;
    next_id =
        server::assign_ids(turn.entries().subspan(first, request.entries_count),
                           turn.verdicts().subspan(first), turn.details().subspan(first), next_id);
  }
}

void EntryDecisions::deliver_verdicts() noexcept {
  route::Turn& turn = context_.turn;
  for (const route::Request& request : std::as_const(turn).requests()) {
    if (request.split != route::Request::whole) {
      mailboxes_.keep_decided(request, turn);
      continue;
    }
    const uint32_t first = request.first_entry;
    const uint32_t count = request.entries_count;
    deliver(request, {.entries = turn.entries().subspan(first, count),
                      .verdicts = turn.verdicts().subspan(first, count),
                      .details = turn.details().subspan(first, count)});
  }
}

void EntryDecisions::deliver(const route::Request& request,
                             const session::Verdicts& verdicts) noexcept {
  if (session::Session* session = sessions_.find({request.session, request.generation})) {
    session->on_verdicts(request, verdicts);
    return;
  }
  if (request.by_handle) return;
  // The connection has ended meanwhile: no client waits.
  for (size_t index = 0; index < verdicts.entries.size(); ++index) {
    waiters_.free_or_abandon(verdicts.entries[index].ticket,
                             verdicts.verdicts[index] == Verdict::queued);
  }
}

void EntryDecisions::deliver_split(route::SplitBook::Index split) noexcept {
  const route::SplitBook::Parts parts = mailboxes_.book().parts(split);
  if (shows_id(parts.entries)) {
    const uint64_t ids = server::count_ids(parts.entries, parts.verdicts);
    server::assign_ids(parts.entries, parts.verdicts, parts.details, ids > 0 ? ids_.take(ids) : 0);
  }
  deliver(parts.request,
          {.entries = parts.entries, .verdicts = parts.verdicts, .details = parts.details});
  mailboxes_.book().close(split);
  context_.room_made = true;
  waiters_.deliver_early_grants();
}

void EntryDecisions::decide_for(api::ShardId origin, route::ShardMessage& message) noexcept {
  if (context_.draining) {
    for (api::Entry& entry : message.entries) entry.flags |= api::flag::draining;
  }
  message.make_answers();
  serving_ = &message;
  keys_.decide(
      message.entries,
      {.verdicts = message.verdicts, .details = message.details, .waiters = message.waiters},
      context_.now, origin);
  serving_ = nullptr;
}

void EntryDecisions::on_returned(api::ShardId target, const route::ShardMessage& message) noexcept {
  for (size_t index = 0; index < message.entries.size(); ++index) {
    const Verdict verdict = message.verdicts[index];
    if (verdict == Verdict::queued) {
      waiters_.on_queued(message.entries[index].ticket, message.waiters[index], target);
    }
    const uint32_t slot = message.slots[index];
    const auto split = mailboxes_.book().split_of(slot);
    if (mailboxes_.book().settle(slot, verdict, message.details[index])) {
      deliver_split(split);
    }
  }
}

}  // namespace sluice::server
