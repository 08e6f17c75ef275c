#include "server/entry_decisions.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::server {
namespace {

using api::Verdict;

// How many plain or hashed entries of a message are decided at once.
constexpr uint32_t plain_entries_max = 1'024;

bool shows_id(const api::Entry& entry) noexcept {
  return (entry.flags & api::flag::shows_id) != 0;
}

// Entries of one request either all show their id or none, but for those of a Forward.
bool shows_id(const route::Request& request, std::span<const api::Entry> entries) noexcept {
  if (request.has_mixed_ids) [[unlikely]]
    return true;
  return !entries.empty() && shows_id(entries[0]);
}

// Whether a request takes ids now: a split one takes them when it is complete.
bool shows_id(const route::Request& request, const route::Turn& turn) noexcept {
  return request.split == route::Request::whole && !request.by_handle &&
         shows_id(request, turn.entries().subspan(request.first_entry, request.entries_count));
}

// A request that was refused for what it asked takes no id, as in gocc. Nor does a look.
bool takes_id(const api::Entry& entry, Verdict verdict) noexcept {
  return shows_id(entry) && entry.op != api::Op::look && verdict != Verdict::never_fits &&
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

// Of a request that is complete.
uint64_t count_ids(const route::SplitBook::Answers& answers) noexcept {
  return shows_id(answers.request, answers.entries) ? count_ids(answers.entries, answers.verdicts)
                                                    : 0;
}
uint64_t assign_ids(const route::SplitBook::Answers& answers, uint64_t next_id) noexcept {
  if (!shows_id(answers.request, answers.entries)) return next_id;
  return assign_ids(answers.entries, answers.verdicts, answers.details, next_id);
}

}  // namespace

EntryDecisions::EntryDecisions(session::Context& context, SessionTable& sessions,
                               route::SplitBook& book, WaiterDelivery& waiters,
                               shard::KeyDecider& keys, RequestIds& ids)
    : context_(context),
      sessions_(sessions),
      book_(book),
      waiters_(waiters),
      keys_(keys),
      ids_(ids),
      shard_(static_cast<api::ShardId>(context.options.shard)),
      entries_(plain_entries_max),
      details_(plain_entries_max),
      waiter_ids_(plain_entries_max) {
  complete_.reserve(limits::frame_entries_max);
}

void EntryDecisions::execute() noexcept {
  if (context_.turn.empty()) {
    context_.text.clear();  // of entries that went to other shards
    return;
  }
  ASSERT(!executing_);
  executing_ = true;
  route::Turn& turn = context_.turn;
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
      book_.keep_own(request, turn);
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

void EntryDecisions::decide_for(api::ShardId origin, route::ShardMessage& message) noexcept {
  for (const route::MessageRun& run : message.runs()) {
    if (run.form == route::Form::detailed) {
      decide_detailed(origin, message, run);
    } else {
      decide_plain(origin, message, run);
    }
  }
  serving_ = {};
}

void EntryDecisions::mark_draining(std::span<api::Entry> entries) const noexcept {
  if (!context_.draining) return;
  for (api::Entry& entry : entries) entry.flags |= api::flag::draining;
}

void EntryDecisions::decide_plain(api::ShardId origin, const route::ShardMessage& message,
                                  const route::MessageRun& run) noexcept {
  const char* key = message.text_from(run.text_begin).data();
  const uint32_t end = run.first_entry + run.entries_count;
  for (uint32_t first = run.first_entry; first < end; first += plain_entries_max) {
    const auto sizes = message.key_sizes(first, std::min(plain_entries_max, end - first));
    const auto count = static_cast<uint32_t>(sizes.size());
    const auto entries = std::span(entries_).first(count);
    key = route::fill_entries(entries, key, sizes);
    mark_draining(entries);
    serving_ = {.message = &message, .first_entry = first};
    const shard::Answers answers{
        .verdicts = message.verdicts(first, count), .details = details_, .waiters = waiter_ids_};
    if (run.form == route::Form::hashed) {
      keys_.decide(entries, message.hashes(first, count), answers, context_.now, origin);
    } else {
      keys_.decide(entries, answers, context_.now, origin);
    }
  }
}

void EntryDecisions::decide_detailed(api::ShardId origin, const route::ShardMessage& message,
                                     const route::MessageRun& run) noexcept {
  const uint32_t first = run.first_entry;
  const uint32_t count = run.entries_count;
  const auto entries = message.entries(first, count);
  mark_draining(entries);
  serving_ = {.message = &message, .first_entry = first};
  keys_.decide(entries,
               {.verdicts = message.verdicts(first, count),
                .details = message.details(first, count),
                .waiters = message.waiters(first, count)},
               context_.now, origin);
}

void EntryDecisions::on_returned(route::TargetId target, route::ShardMessage& message) noexcept {
  for (const route::MessageRun& run : message.runs()) {
    if (run.form == route::Form::detailed) register_waiters(target, message, run);
  }
  if (target >= context_.options.shards) keep_ids_of_owner(message);
  complete_.clear();
  for (const route::Part& part : message.parts()) {
    if (book_.keep(target, part, message)) complete_.push_back(part);
  }
  deliver_complete(message);
}

// A lone request shows the id that another node has given it.
void EntryDecisions::keep_ids_of_owner(const route::ShardMessage& message) noexcept {
  for (const route::Part& part : message.parts()) {
    if (!part.is_whole || part.entries_count != 1) continue;
    const bool has_id = message.details(part.first_entry, 1)[0].request_id != 0;
    api::Entry& entry = message.entries(part.first_entry, 1)[0];
    if (has_id) entry.flags &= static_cast<uint8_t>(~api::flag::shows_id);
  }
}

void EntryDecisions::register_waiters(route::TargetId target, const route::ShardMessage& message,
                                      const route::MessageRun& run) noexcept {
  const auto verdicts = message.verdicts(run.first_entry, run.entries_count);
  const auto entries = message.entries(run.first_entry, run.entries_count);
  const auto waiters = message.waiters(run.first_entry, run.entries_count);
  for (size_t index = 0; index < verdicts.size(); ++index) {
    if (verdicts[index] != Verdict::queued) continue;
    // A shard of this node stood in for the other one.
    if ((entries[index].flags & api::flag::stays_here) != 0) {
      waiters_.on_queued(entries[index].ticket, waiters[index], entries[index].key());
    } else {
      waiters_.on_queued(entries[index].ticket, waiters[index], target);
    }
  }
}

// Delivers the requests whose last part was in this message. Their ids are taken together.
void EntryDecisions::deliver_complete(const route::ShardMessage& message) noexcept {
  uint64_t count = 0;
  for (const route::Part& part : complete_)
    count += server::count_ids(book_.answers(part, message));
  uint64_t next_id = count > 0 ? ids_.take(count) : 0;
  for (const route::Part& part : complete_) {
    const route::SplitBook::Answers answers = book_.answers(part, message);
    next_id = server::assign_ids(answers, next_id);
    deliver(answers.request,
            {.entries = answers.entries, .verdicts = answers.verdicts, .details = answers.details});
    book_.close(part.split);
  }
  if (!complete_.empty()) waiters_.deliver_early_grants();
}

}  // namespace sluice::server
