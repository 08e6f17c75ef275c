#include "oracle.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "checked_shard.hpp"
#include "shard/key_hash.hpp"

namespace sluice::simulation {
namespace {

constexpr uint32_t adopt_slices = 8;  // more than the most waiters of a run fill

std::string name_of(api::Verdict verdict) {
  return std::string(api::verdict_name(verdict));
}

std::string name_of(api::Op op) {
  if (op == api::Op::look) return " look ";
  return op == api::Op::release ? " release " : " acquire ";
}

}  // namespace

std::string describe(const api::Detail& detail) {
  return "{limit " + std::to_string(detail.limit) + ", remaining " +
         std::to_string(detail.remaining) + ", window " + std::to_string(detail.window_ms) +
         ", reset " + std::to_string(detail.reset_ms) + ", retry " +
         std::to_string(detail.retry_after_ms) + ", position " + std::to_string(detail.position) +
         "}";
}

bool same(const api::Detail& one, const api::Detail& other) {
  return one.limit == other.limit && one.remaining == other.remaining &&
         one.window_ms == other.window_ms && one.reset_ms == other.reset_ms &&
         one.retry_after_ms == other.retry_after_ms && one.position == other.position;
}

// Tickets of different shards are the same numbers; the models need different ones.
constexpr uint32_t shard_shift = 24;

namespace {

api::Ticket named(api::Ticket ticket, api::ShardId origin) {
  if (ticket == api::no_ticket) return ticket;
  ASSERT(ticket < 1U << shard_shift && origin < 64);
  return ticket | uint32_t{origin} << shard_shift;
}

}  // namespace

Oracle::Oracle(const shard::Options& options, bool single_steps, Failure& failure)
    : options_(options),
      single_steps_(single_steps),
      failure_(failure),
      traces_(std::getenv("TRACE") != nullptr) {}

std::unique_ptr<shard::KeyDecider> Oracle::check(std::unique_ptr<shard::KeyDecider> shard) {
  const auto shard_id = static_cast<api::ShardId>(shards_.size());
  shards_.emplace_back(*shard, options_, failure_);
  return std::make_unique<CheckedShard>(std::move(shard), *this, shard_id);
}

void Oracle::watch(const server::Worker& worker, io::SimIo& io) {
  ShardRecord& shard = shards_[worker.mailboxes().shard()];
  shard.worker = &worker;
  shard.io = &io;
}

uint32_t Oracle::waiters_count() const {
  uint32_t count = 0;
  for (const ShardRecord& shard : shards_) count += shard.model.waiters_count();
  return count;
}

void Oracle::trace(const std::string& text) const {
  if (!traces_) return;
  const int64_t now_ns = shards_.empty() ? 0 : shards_[0].io->network().clock().monotonic_ns;
  std::fprintf(stderr, "%10.3f ms  %s\n", static_cast<double>(now_ns) / 1e6, text.c_str());
}

void Oracle::decide(api::ShardId shard_id, std::span<const api::Entry> entries,
                    std::span<const api::KeyHash> hashes, const shard::Answers& answers,
                    base::Now now, api::ShardId origin) {
  ShardRecord& shard = shards_[shard_id];
  if (!single_steps_) {
    decide_some(shard, entries, hashes, answers, now, origin);
  } else {
    for (size_t i = 0; i < entries.size(); ++i) {
      decide_some(shard, entries.subspan(i, 1), hashes.empty() ? hashes : hashes.subspan(i, 1),
                  {.verdicts = answers.verdicts.subspan(i, 1),
                   .details = answers.details.subspan(i, 1),
                   .waiters = answers.waiters.subspan(i, 1)},
                  now, origin);
    }
  }
  if (const auto& serving = shard.worker->serving(); serving.message != nullptr) {
    keep_message(shards_[origin], origin, serving, entries, answers);
  } else {
    keep_entries(shard, entries, answers);
  }
  record_granted(shard.model);
}

// Checked like entries with the keys' text, one permit each.
void Oracle::decide(api::ShardId shard_id, std::span<const api::Handle> handles,
                    std::span<api::Verdict> verdicts, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  if (!single_steps_) {
    decide_some(shard, handles, verdicts, now);
  } else {
    for (size_t i = 0; i < handles.size(); ++i) {
      decide_some(shard, handles.subspan(i, 1), verdicts.subspan(i, 1), now);
    }
  }
  by_handle_ += handles.size();
  keep_handles(shard, handles, verdicts);
  record_granted(shard.model);
}

void Oracle::decide_some(ShardRecord& shard, std::span<const api::Handle> handles,
                         std::span<api::Verdict> verdicts, base::Now now) {
  std::vector<std::string> keys;
  for (const api::Handle handle : handles) {
    keys.push_back(shard.handles.key_held(handle));
    if (shard.worker->mailboxes().shard_of(keys.back()) != shard.worker->mailboxes().shard()) {
      failure_.report("handle of " + keys.back() + " was decided by a shard that does not own it");
    }
    if (failure_) return std::ranges::fill(verdicts, api::Verdict::denied), void();
  }
  shard.model.run_due(now);
  const bool full = single_steps_ && is_full(shard, now);
  shard.shard.decide(handles, verdicts, now);
  if (single_steps_) follow_evictions(shard, now);
  for (size_t i = 0; i < handles.size(); ++i) {
    const api::Entry entry{.key_data = keys[i].data(),
                           .key_bytes = static_cast<uint16_t>(keys[i].size())};
    check_answer(entry, shard.model.decide(entry, now, full), verdicts[i], {});
  }
  check_grants(shard);
}

api::Handle Oracle::intern(api::ShardId shard_id, std::string_view key) {
  ShardRecord& shard = shards_[shard_id];
  const std::string name(key);
  const api::Handle handle = shard.shard.intern(key);
  trace("intern " + name + ": " + std::to_string(static_cast<int32_t>(handle)));
  shard.handles.interned(name, handle);
  if (handle == api::no_handle) ++handles_full_;
  shard.handles.check_count(shard.shard.handles_count());
  return handle;
}

void Oracle::drop_handle_reference(api::ShardId shard_id, api::Handle handle) {
  ShardRecord& shard = shards_[shard_id];
  const std::string name = shard.handles.key_held(handle);
  if (failure_) return;
  trace("free " + std::to_string(handle) + " of " + name);
  shard.shard.drop_handle_reference(handle);
  shard.handles.dropped(handle);
  shard.handles.check_count(shard.shard.handles_count());
}

std::string_view Oracle::key_of(api::ShardId shard_id, api::Handle handle) {
  const ShardRecord& shard = shards_[shard_id];
  const std::string name = shard.handles.key_held(handle);
  if (failure_) return {};
  const std::string_view key = shard.shard.key_of(handle);
  if (key != name)
    failure_.report("the handle of " + name + " is reported as that of " + std::string(key));
  return key;
}

void Oracle::decide_some(ShardRecord& shard, std::span<const api::Entry> entries,
                         std::span<const api::KeyHash> hashes, const shard::Answers& answers,
                         base::Now now, api::ShardId origin) {
  shard.model.run_due(now);
  const bool full = single_steps_ && is_full(shard, now);
  if (hashes.empty()) {
    shard.shard.decide(entries, answers, now, origin);
  } else {
    shard.shard.decide(entries, hashes, answers, now, origin);
  }
  if (single_steps_) follow_evictions(shard, now);
  for (size_t i = 0; i < entries.size(); ++i) {
    check_drain(shard, entries[i]);
    api::Entry entry = entries[i];
    entry.ticket = named(entry.ticket, origin);
    const ShardModel::Answer expected = shard.model.decide(entry, now, full);
    check_answer(entry, expected, answers.verdicts[i], answers.details[i]);
  }
  check_grants(shard);
}

// A shard that drains decides acquires of other shards only, and lets none of them wait.
void Oracle::check_drain(const ShardRecord& shard, const api::Entry& entry) {
  const bool is_flagged = (entry.flags & api::flag::draining) != 0;
  if (is_flagged && !shard.drains) failure_.report("an entry is decided as in a drain");
  if (!is_flagged && shard.drains && entry.op == api::Op::acquire) {
    failure_.report("a shard that drains decides an acquire as if it did not");
  }
}

void Oracle::check_answer(const api::Entry& entry, const ShardModel::Answer& expected,
                          api::Verdict verdict, const api::Detail& detail) {
  trace(std::string(entry.key()) + name_of(entry.op) + std::to_string(entry.cost) + " ticket " +
        std::to_string(static_cast<int32_t>(entry.ticket)) + ": " + name_of(verdict) + " " +
        describe(expected.detail));
  if (verdict != expected.verdict) {
    failure_.report("key " + std::string(entry.key()) + " was " + name_of(verdict) +
                    " where the model has " + name_of(expected.verdict) + " " +
                    describe(expected.detail));
  }
  const bool reported =
      entry.op != api::Op::release && (entry.flags & api::flag::wants_details) != 0;
  if (reported && !same(detail, expected.detail)) {
    failure_.report("details of " + std::string(entry.key()) + " (" + name_of(verdict) + ") are " +
                    describe(detail) + " where the model has " + describe(expected.detail));
  }
}

// The table answers `table_full` only when it has to: no slot is free or held by an expired key,
// and no live key may be forgotten.
bool Oracle::is_full(ShardRecord& shard, base::Now now) const {
  if (shard.shard.keys_count() < options_.keys_max) return false;
  uint32_t live_count = 0;
  for (const auto& [name, key] : shard.model.keys()) {
    if (shard.model.has_expired(key, now)) continue;
    if (shard.model.may_be_evicted(key, now)) return false;
    ++live_count;
  }
  return shard.shard.keys_count() == live_count;
}

void Oracle::follow_evictions(ShardRecord& shard, base::Now now) {
  const uint64_t count = shard.shard.statistics().keys_evicted;
  if (count == shard.evicted_count) return;
  shard.evicted_count = count;
  std::vector<std::string> evicted;
  for (const auto& [name, key] : shard.model.keys()) {
    if (shard.shard.inspect(name, now)) continue;
    evicted.push_back(name);
    if (!shard.model.may_be_evicted(key, now)) {
      failure_.report("key " + name + " was forgotten too early");
    }
  }
  for (const std::string& name : evicted) shard.model.evict(name);
}

// The grants of each key must be in the model's order; those of different keys may be in any.
void Oracle::check_grants(ShardRecord& shard) {
  const auto granted = shard.shard.grants().subspan(shard.grants_checked);
  const auto expected = std::span(shard.model.grants()).subspan(shard.grants_checked);
  if (granted.size() != expected.size()) {
    failure_.report(std::to_string(granted.size()) + " grants where the model has " +
                    std::to_string(expected.size()));
    return;
  }
  std::map<std::string, std::vector<const ShardModel::Grant*>> queues;
  std::map<api::Ticket, std::string> keys;
  for (const ShardModel::Grant& grant : expected) {
    queues[grant.key].push_back(&grant);
    keys[grant.ticket] = grant.key;
  }
  std::map<std::string, size_t> positions;
  for (const api::Grant& grant : granted) {
    trace("grant to ticket " + std::to_string(grant.ticket) + ": " + name_of(grant.verdict));
    const api::Ticket ticket = named(grant.ticket, grant.origin);
    const auto key = keys.find(ticket);
    if (key == keys.end()) {
      failure_.report("a grant that the model does not have: " + name_of(grant.verdict));
      return;
    }
    const ShardModel::Grant& due = *queues[key->second][positions[key->second]++];
    if (due.ticket != ticket || due.verdict != grant.verdict || !same(due.detail, grant.detail)) {
      failure_.report("the queue of " + key->second + ": " + name_of(grant.verdict) + " " +
                      describe(grant.detail) + " where the model has " + name_of(due.verdict) +
                      " " + describe(due.detail) +
                      (due.ticket != ticket ? " for another waiter" : ""));
      return;
    }
    if (const auto waiting = waiting_.find(ticket); waiting != waiting_.end()) {
      DecidedEntry& entry = waiting->second.request->entries[waiting->second.entry];
      entry.outcome = grant.verdict;
      entry.outcome_detail = grant.detail;
      waiting_.erase(waiting);
    }
  }
  shard.grants_checked += granted.size();
}

// The record of a request that a shard of its connection, or another one, begins to decide, or has
// begun. Requests of a connection over HTTP/1.1 have growing ids, whoever decides them first.
DecidedRequest& Oracle::record_of(ShardRecord& origin, const route::Request& request,
                                  uint32_t& link) {
  const bool is_split = request.split != route::Request::whole;
  if (const auto known = origin.splits.find(request.split);
      is_split && known != origin.splits.end()) {
    link = known->second.link;
    return *known->second.request;
  }
  link = origin.io->link_of({.index = request.session, .generation = request.generation});
  DecidedRequests& records = decided_[link];
  auto behind = records.end();
  while (behind != records.begin() && std::prev(behind)->id > request.id) --behind;
  DecidedRequest& record = *records.insert(behind, {.id = request.id, .entries = {}});
  const uint32_t count = is_split
                             ? origin.worker->router().book().request(request.split).entries_count
                             : request.entries_count;
  record.entries.resize(count);
  if (is_split) origin.splits[request.split] = {.link = link, .request = &record, .left = count};
  return record;
}

void Oracle::count_decided(ShardRecord& origin, uint32_t split, size_t entries_count) {
  const auto known = origin.splits.find(split);
  if ((known->second.left -= entries_count) == 0) origin.splits.erase(known);
}

// Keeps the decisions of a run by request: the turn has the requests that the entries belong to.
template <typename Keep>
void Oracle::keep_run(ShardRecord& shard, bool by_handle, size_t entries_count, Keep keep_entry) {
  const route::Turn& turn = shard.worker->undecided();
  const route::Run& run = turn.runs()[shard.runs_done];
  if (run.by_handle != by_handle || run.entries_count != entries_count) {
    return failure_.report("runs of a turn are decided in the wrong order");
  }
  size_t& next = shard.requests_done;
  for (; next < turn.requests().size() && turn.requests()[next].by_handle == by_handle; ++next) {
    const route::Request& request = turn.requests()[next];
    const bool is_split = request.split != route::Request::whole;
    uint32_t link = 0;
    DecidedRequest& decided = record_of(shard, request, link);
    for (uint32_t i = 0; i < request.entries_count; ++i) {
      const uint32_t index = request.first_entry + i;
      keep_entry(index, decided, link, is_split ? turn.places()[index] : i);
    }
    if (is_split) count_decided(shard, request.split, request.entries_count);
  }
  if (++shard.runs_done == turn.runs().size()) shard.runs_done = shard.requests_done = 0;
}

void Oracle::keep_entries(ShardRecord& shard, std::span<const api::Entry> entries,
                          const shard::Answers& answers) {
  const api::ShardId origin = shard.worker->mailboxes().shard();
  const auto first =
      static_cast<size_t>(entries.data() - shard.worker->undecided().entries().data());
  keep_run(shard, false, entries.size(),
           [&](uint32_t index, DecidedRequest& decided, uint32_t link, uint32_t place) {
             keep(decided, link, place, entries[index - first], origin,
                  answers.verdicts[index - first], answers.details[index - first]);
           });
}

void Oracle::keep_handles(ShardRecord& shard, std::span<const api::Handle> handles,
                          std::span<const api::Verdict> verdicts) {
  if (failure_) return;
  const auto first =
      static_cast<size_t>(handles.data() - shard.worker->undecided().handles().data());
  keep_run(shard, true, handles.size(),
           [&](uint32_t at, DecidedRequest& decided, uint32_t link, uint32_t place) {
             const size_t index = at - first;
             const std::string key = shard.handles.key_held(handles[index]);
             const api::Entry entry{.key_data = key.data(),
                                    .key_bytes = static_cast<uint16_t>(key.size())};
             keep(decided, link, place, entry, shard.worker->mailboxes().shard(), verdicts[index],
                  {});
           });
}

// Keeps the decisions for another shard: the origin's book has the requests of the entries.
void Oracle::keep_message(ShardRecord& origin, api::ShardId origin_id,
                          const server::EntryDecisions::Serving& serving,
                          std::span<const api::Entry> entries, const shard::Answers& answers) {
  const auto end = static_cast<uint32_t>(serving.first_entry + entries.size());
  for (const route::Part& part : serving.message->parts()) {
    const uint32_t from = std::max(part.first_entry, serving.first_entry);
    const uint32_t to = std::min(part.first_entry + part.entries_count, end);
    if (from >= to) continue;
    uint32_t link = 0;
    DecidedRequest& request =
        record_of(origin, origin.worker->router().book().request(part.split), link);
    const auto places = serving.message->places(part.first_entry, part.entries_count);
    for (uint32_t at = from; at < to; ++at) {
      const uint32_t in_part = at - part.first_entry;
      const uint32_t index = at - serving.first_entry;
      if (origin.io->server_closed(link)) ++left_behind_;
      keep(request, link, part.is_whole ? in_part : places[in_part], entries[index], origin_id,
           answers.verdicts[index], answers.details[index]);
    }
    count_decided(origin, part.split, to - from);
  }
}

void Oracle::keep(DecidedRequest& request, uint32_t link, size_t place, const api::Entry& entry,
                  api::ShardId origin, api::Verdict verdict, const api::Detail& detail) {
  request.entries[place] = {.sequence = sequence_++,
                            .key = std::string(entry.key()),
                            .op = entry.op,
                            .verdict = verdict,
                            .detail = detail,
                            .outcome_detail = {}};
  check_order(link, request.entries[place].key, request.id, place);
  if (verdict == api::Verdict::queued) {
    waiting_[named(entry.ticket, origin)] = {link, &request, place};
  }
}

// By handle or not: entries of one connection for one key are decided in the order sent.
void Oracle::check_order(uint32_t link, const std::string& key, uint64_t id, size_t place) {
  const auto connection = last_decided_.find(link);
  if (connection == last_decided_.end()) return;
  auto& last = connection->second[key];
  const std::pair<uint64_t, size_t> now{id, place};
  if (now < last) {
    failure_.report("client " + std::to_string(link) + ": entry " + std::to_string(place) +
                    " of request " + std::to_string(id) + " for " + key +
                    " was decided after one " + "of request " + std::to_string(last.first));
  }
  last = now;
}

// An entry of the same call may have served a waiter in front of it.
void Oracle::record_granted(const ShardModel& model) {
  for (const ShardModel::Grant& grant : model.grants()) {
    const auto waiting = waiting_.find(grant.ticket);
    if (waiting == waiting_.end()) continue;
    DecidedEntry& entry = waiting->second.request->entries[waiting->second.entry];
    entry.outcome = grant.verdict;
    entry.outcome_detail = grant.detail;
    waiting_.erase(waiting);
  }
}

bool Oracle::withdraw(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket,
                      base::Now now, api::ShardId origin) {
  ShardRecord& shard = shards_[shard_id];
  trace("withdraw ticket " + std::to_string(ticket) + " of shard " + std::to_string(origin));
  const bool withdrawn = shard.shard.withdraw(waiter, ticket, now, origin);
  if (withdrawn != shard.model.withdraw(named(ticket, origin), now)) {
    failure_.report("a withdrawal differs from the model's");
  }
  check_grants(shard);
  return withdrawn;
}

bool Oracle::abandon(api::ShardId shard_id, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::ShardId origin) {
  ShardRecord& shard = shards_[shard_id];
  trace("abandon ticket " + std::to_string(ticket) + " of shard " + std::to_string(origin));
  const bool abandoned = shard.shard.abandon(waiter, ticket, now, origin);
  if (abandoned != shard.model.abandon(named(ticket, origin), now)) {
    failure_.report("an abandonment differs from the model's");
  }
  if (abandoned) waiting_.erase(named(ticket, origin));
  check_grants(shard);
  return abandoned;
}

bool Oracle::refund(api::ShardId shard_id, const api::RefundClaim& permit, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  const bool taken = shard.shard.refund(permit, now);
  shard.model.run_due(now);
  bool expected = false;
  for (const auto& [name, key] : shard.model.keys()) {
    const shard::KeyHash hash = shard::hash_key(name, options_.hash_secret);
    if (hash.tag != permit.key_tag) continue;
    trace(name + " is refunded " + std::to_string(permit.cost));
    const std::string key_name(name);
    expected = shard.model.refund(key_name, permit.cost, permit.window_end_ms, now);
    if (const auto state = shard.shard.inspect(key_name, now))
      check_state(shard, *state, key_name, now);
    break;
  }
  if (taken != expected)
    failure_.report("the refund of an undelivered permit differs from the model's");
  ++(taken ? refunded_ : refunded_late_);
  check_grants(shard);
  return taken;
}

void Oracle::drain(api::ShardId shard_id, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  shard.drains = true;
  shard.shard.drain(now);
  shard.model.drain(now);
  check_grants(shard);
}

void Oracle::run_due(api::ShardId shard_id, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  shard.shard.run_due(now);
  shard.model.run_due(now);
  check_grants(shard);
}

// A shard matches keys with waiters to new rules in slices, in its next calls of run_due(). Here
// all slices run at once, so that the model can follow.
std::unique_ptr<policy::RuleBook> Oracle::adopt(api::ShardId shard_id,
                                                std::unique_ptr<policy::RuleBook> rules,
                                                base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  if (shard.worker == nullptr) return shard.shard.adopt(std::move(rules), now);
  trace("new rules");
  // Reads all keys: one that was not used since the last rules would skip them.
  uint64_t cursor = 0;
  do {
    cursor = shard.shard.page(cursor, limits::inspect_page_max, now).next_cursor;
  } while (cursor != 0);
  policy::RuleBook* book = rules.get();
  std::unique_ptr<policy::RuleBook> before = shard.shard.adopt(std::move(rules), now);
  for (uint32_t slices = 0; slices < adopt_slices; ++slices) shard.shard.run_due(now);
  shard.model.adopt([book](const std::string& key) { return book->policy_of(key); }, now);
  check_grants(shard);
  return before;
}

void Oracle::keep_grants(api::ShardId shard_id, size_t count) {
  ShardRecord& shard = shards_[shard_id];
  ASSERT(shard.grants_checked == shard.shard.grants().size());
  shard.shard.keep_grants(count);
  std::set<api::Ticket> kept;
  for (const api::Grant& grant : shard.shard.grants())
    kept.insert(named(grant.ticket, grant.origin));
  shard.model.keep_grants(kept);
  shard.grants_checked = count;
}

void Oracle::check_state(ShardRecord& shard, const api::KeyState& state, std::string_view name,
                         base::Now now) {
  const ShardModel::Key* key = shard.model.find(std::string(name), now);
  if (key == nullptr) return failure_.report("a forgotten key is shown: " + std::string(name));
  const api::KeyState expected = shard.model.state(*key, now);
  if (state.window_ms != expected.window_ms || state.reset_ms != expected.reset_ms ||
      state.max_requests != expected.max_requests ||
      state.max_requests_in_queue != expected.max_requests_in_queue ||
      state.approved != expected.approved || state.denied != expected.denied ||
      state.waiting != expected.waiting) {
    failure_.report("key " + std::string(name) + " is shown in another state than the model's");
  }
}

std::optional<api::KeyState> Oracle::inspect(api::ShardId shard_id, std::string_view key,
                                             base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  const auto state = shard.shard.inspect(key, now);
  if (state) {
    check_state(shard, *state, key, now);
  } else if (shard.model.find(std::string(key), now) != nullptr) {
    failure_.report("a live key is not shown: " + std::string(key));
  }
  return state;
}

shard::Page Oracle::page(api::ShardId shard_id, uint64_t cursor, uint32_t keys_max, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  const shard::Page page = shard.shard.page(cursor, keys_max, now);
  for (const api::KeyState& state : page.keys) check_state(shard, state, state.key, now);
  return page;
}

bool Oracle::waits(uint32_t link, uint64_t id) const {
  return std::ranges::any_of(waiting_, [&](const auto& one) {
    return one.second.link == link && one.second.request->id == id;
  });
}

void Oracle::check_waiters() {
  if (shards_.size() > 1) return;
  for (const auto& [ticket, waiting] : waiting_) {
    if (shards_[0].io->server_closed(waiting.link))
      failure_.report("a waiter outlives its connection");
  }
}

void Oracle::check_keys(api::ShardId shard_id, base::Now now) {
  ShardRecord& shard = shards_[shard_id];
  std::set<std::string> shown;
  uint64_t cursor = 0;
  do {
    const shard::Page some = page(shard_id, cursor, limits::inspect_page_max, now);
    for (const api::KeyState& state : some.keys) {
      if (!shown.emplace(state.key).second) failure_.report("a key is twice in the table");
    }
    cursor = some.next_cursor;
  } while (cursor != 0);
  size_t live = 0;
  for (const auto& [name, key] : shard.model.keys()) {
    if (shard.model.has_expired(key, now)) continue;
    ++live;
    if (!shown.contains(name)) failure_.report("a live key is not in the table: " + name);
  }
  if (shown.size() != live || shard.shard.keys_count() < live) {
    failure_.report(std::to_string(shown.size()) + " keys are shown of " +
                    std::to_string(shard.shard.keys_count()) + " where the model has " +
                    std::to_string(live));
  }
}

void Oracle::check_reported_id(const DecidedEntry& entry, uint64_t request_id) {
  // An entry that is refused for its contents takes no id.
  if (entry.verdict == api::Verdict::never_fits || entry.verdict == api::Verdict::not_allowed ||
      entry.verdict == api::Verdict::invalid_key) {
    if (request_id != 0) failure_.report("a refused request got an id");
    return;
  }
  const auto [place, fresh] = reported_ids_.emplace(entry.sequence, request_id);
  if (!fresh) {
    if (place->second != request_id) failure_.report("a request got a second id");
    return;
  }
  if (!ids_.insert(request_id).second) failure_.report("two requests got the same id");
  if (shards_.size() > 1) {
    if (request_id == 0) failure_.report("a request got no id");
    return;
  }
  const auto next = std::next(place);
  const bool after_last = place == reported_ids_.begin() || std::prev(place)->second < request_id;
  const bool before_next = next == reported_ids_.end() || request_id < next->second;
  if (request_id == 0 || !after_last || !before_next) {
    failure_.report("request id " + std::to_string(request_id) + " is out of order");
  }
}

}  // namespace sluice::simulation
