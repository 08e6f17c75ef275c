#include "oracle.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/assert.hpp"
#include "shard_calls.hpp"

namespace sluice::simulation {
namespace {

std::string name_of(api::Verdict verdict) {
  return std::string(api::verdict_name(verdict));
}

}  // namespace

std::string describe(const api::Detail& detail) {
  return "{limit " + std::to_string(detail.limit) + ", remaining " +
         std::to_string(detail.remaining) + ", window " + std::to_string(detail.window_ms) +
         ", reset " + std::to_string(detail.reset_ms) + ", retry " +
         std::to_string(detail.retry_ms) + "}";
}

bool same(const api::Detail& one, const api::Detail& other) {
  return one.limit == other.limit && one.remaining == other.remaining &&
         one.window_ms == other.window_ms && one.reset_ms == other.reset_ms &&
         one.retry_ms == other.retry_ms;
}

Oracle::Oracle(const shard::Options& options, bool single_steps, io::SimIo& io, Failure& failure)
    : options_(options),
      single_steps_(single_steps),
      io_(io),
      failure_(failure),
      model_(options),
      traces_(std::getenv("TRACE") != nullptr) {
  install(this);
}

Oracle::~Oracle() {
  install(nullptr);
}

void Oracle::trace(const std::string& text) const {
  if (!traces_) return;
  std::fprintf(stderr, "%10.3f ms  %s\n", static_cast<double>(io_.now().monotonic_ns) / 1e6,
               text.c_str());
}

void Oracle::decide(shard::Shard& shard, std::span<const api::Entry> entries,
                    const shard::Answers& answers, base::Now now) {
  if (!single_steps_) {
    decide_some(shard, entries, answers, now);
  } else {
    for (size_t i = 0; i < entries.size(); ++i) {
      decide_some(shard, entries.subspan(i, 1),
                  {.verdicts = answers.verdicts.subspan(i, 1),
                   .details = answers.details.subspan(i, 1),
                   .waiters = answers.waiters.subspan(i, 1)},
                  now);
    }
  }
  keep(entries, answers);
}

void Oracle::decide_some(shard::Shard& shard, std::span<const api::Entry> entries,
                         const shard::Answers& answers, base::Now now) {
  model_.run_due(now);
  const bool full = single_steps_ && is_full(shard, now);
  real::decide(shard, entries, answers, now);
  if (single_steps_) follow_evictions(shard, now);
  for (size_t i = 0; i < entries.size(); ++i) {
    const ShardModel::Answer expected = model_.decide(entries[i], now, full);
    check_answer(entries[i], expected, answers.verdicts[i], answers.details[i]);
  }
  check_grants(shard);
}

void Oracle::check_answer(const api::Entry& entry, const ShardModel::Answer& expected,
                          api::Verdict verdict, const api::Detail& detail) {
  trace(std::string(entry.key()) + (entry.op == api::Op::release ? " release " : " acquire ") +
        std::to_string(entry.cost) + " ticket " +
        std::to_string(static_cast<int32_t>(entry.ticket)) + ": " + name_of(verdict) + " " +
        describe(expected.detail));
  if (verdict != expected.verdict) {
    failure_.report("key " + std::string(entry.key()) + " was " + name_of(verdict) +
                    " where the model says " + name_of(expected.verdict) + " " +
                    describe(expected.detail));
  }
  const bool told = entry.op == api::Op::acquire && (entry.flags & api::flag::wants_details) != 0;
  if (told && !same(detail, expected.detail)) {
    failure_.report("details of " + std::string(entry.key()) + " (" + name_of(verdict) + ") are " +
                    describe(detail) + " where the model says " + describe(expected.detail));
  }
}

// The table says `table_full` only when it has to: no slot is free or held by an expired key, and
// no live key may be given up.
bool Oracle::is_full(const shard::Shard& shard, base::Now now) const {
  if (shard.keys_count() < options_.keys_max) return false;
  uint32_t live_count = 0;
  for (const auto& [name, key] : model_.keys()) {
    if (model_.has_expired(key, now)) continue;
    if (model_.may_be_evicted(key, now)) return false;
    ++live_count;
  }
  return shard.keys_count() == live_count;
}

void Oracle::follow_evictions(const shard::Shard& shard, base::Now now) {
  const uint64_t count = shard.statistics().keys_evicted;
  if (count == evicted_count_) return;
  evicted_count_ = count;
  std::vector<std::string> gone;
  for (const auto& [name, key] : model_.keys()) {
    if (real::inspect(shard, name, now)) continue;
    gone.push_back(name);
    if (!model_.may_be_evicted(key, now))
      failure_.report("key " + name + " was forgotten too early");
  }
  for (const std::string& name : gone) model_.evict(name);
}

// Of each key, in the model's order; keys among each other in any.
void Oracle::check_grants(const shard::Shard& shard) {
  const auto granted = shard.grants().subspan(grants_checked_);
  const auto expected = std::span(model_.grants()).subspan(grants_checked_);
  if (granted.size() != expected.size()) {
    failure_.report(std::to_string(granted.size()) + " grants where the model has " +
                    std::to_string(expected.size()));
    return;
  }
  std::map<std::string, std::vector<const ShardModel::Grant*>> lines;
  std::map<api::Ticket, std::string> keys;
  for (const ShardModel::Grant& grant : expected) {
    lines[grant.key].push_back(&grant);
    keys[grant.ticket] = grant.key;
  }
  std::map<std::string, size_t> positions;
  for (const api::Grant& grant : granted) {
    trace("grant to ticket " + std::to_string(grant.ticket) + ": " + name_of(grant.verdict));
    const auto key = keys.find(grant.ticket);
    if (key == keys.end()) {
      failure_.report("a grant that the model does not have: " + name_of(grant.verdict));
      return;
    }
    const ShardModel::Grant& due = *lines[key->second][positions[key->second]++];
    if (due.ticket != grant.ticket || due.verdict != grant.verdict ||
        !same(due.detail, grant.detail)) {
      failure_.report("the line of " + key->second + ": " + name_of(grant.verdict) + " " +
                      describe(grant.detail) + " where the model has " + name_of(due.verdict) +
                      " " + describe(due.detail) +
                      (due.ticket != grant.ticket ? " for another waiter" : ""));
      return;
    }
    if (const auto waiting = waiting_.find(grant.ticket); waiting != waiting_.end()) {
      DecidedEntry& entry = waiting->second.request->entries[waiting->second.entry];
      entry.outcome = grant.verdict;
      entry.outcome_detail = grant.detail;
      waiting_.erase(waiting);
    }
  }
  grants_checked_ += granted.size();
}

// Who asked: the turn knows the requests that the entries belong to.
void Oracle::keep(std::span<const api::Entry> entries, const shard::Answers& answers) {
  ASSERT(turn_ != nullptr);
  for (const route::Request& request : turn_->requests()) {
    const uint32_t link = io_.link_of({.index = request.session, .generation = request.generation});
    DecidedRequest& decided = decided_[link].emplace_back();
    decided.id = request.id;
    decided.entries.reserve(request.entries_count);
    for (uint32_t i = 0; i < request.entries_count; ++i) {
      const size_t index = request.first_entry + i;
      const api::Entry& entry = entries[index];
      decided.entries.push_back({.sequence = sequence_++,
                                 .key = std::string(entry.key()),
                                 .op = entry.op,
                                 .verdict = answers.verdicts[index],
                                 .detail = answers.details[index],
                                 .outcome_detail = {}});
      if (answers.verdicts[index] == api::Verdict::queued) {
        waiting_[entry.ticket] = {link, &decided, i};
      }
    }
  }
  // A waiter may be served by an entry behind it, of the same call.
  for (const ShardModel::Grant& grant : model_.grants()) {
    const auto waiting = waiting_.find(grant.ticket);
    if (waiting == waiting_.end()) continue;
    DecidedEntry& entry = waiting->second.request->entries[waiting->second.entry];
    entry.outcome = grant.verdict;
    entry.outcome_detail = grant.detail;
    waiting_.erase(waiting);
  }
}

bool Oracle::withdraw(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket,
                      base::Now now) {
  trace("withdraw ticket " + std::to_string(ticket));
  const bool withdrawn = real::withdraw(shard, waiter, ticket, now);
  if (withdrawn != model_.withdraw(ticket, now)) failure_.report("a withdrawal went another way");
  check_grants(shard);
  return withdrawn;
}

bool Oracle::abandon(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now) {
  trace("abandon ticket " + std::to_string(ticket));
  const bool abandoned = real::abandon(shard, waiter, ticket, now);
  if (abandoned != model_.abandon(ticket, now)) failure_.report("an abandonment went another way");
  waiting_.erase(ticket);
  check_grants(shard);
  return abandoned;
}

void Oracle::drain(shard::Shard& shard, base::Now now) {
  real::drain(shard, now);
  model_.drain(now);
  check_grants(shard);
}

void Oracle::run_due(shard::Shard& shard, base::Now now) {
  real::run_due(shard, now);
  model_.run_due(now);
  check_grants(shard);
}

void Oracle::clear_grants(shard::Shard& shard) {
  real::clear_grants(shard);
  model_.clear_grants();
  grants_checked_ = 0;
}

void Oracle::check_state(const api::KeyState& state, std::string_view name, base::Now now) {
  const ShardModel::Key* key = model_.find(std::string(name), now);
  if (key == nullptr) return failure_.report("a forgotten key is shown: " + std::string(name));
  const api::KeyState expected = model_.state(*key, now);
  if (state.window_ms != expected.window_ms || state.reset_ms != expected.reset_ms ||
      state.max_requests != expected.max_requests ||
      state.max_requests_in_queue != expected.max_requests_in_queue ||
      state.approved != expected.approved || state.denied != expected.denied ||
      state.waiting != expected.waiting) {
    failure_.report("key " + std::string(name) + " is shown in another state than the model's");
  }
}

std::optional<api::KeyState> Oracle::inspect(const shard::Shard& shard, std::string_view key,
                                             base::Now now) {
  const auto state = real::inspect(shard, key, now);
  if (state) {
    check_state(*state, key, now);
  } else if (model_.find(std::string(key), now) != nullptr) {
    failure_.report("a live key is not shown: " + std::string(key));
  }
  return state;
}

shard::Page Oracle::page(shard::Shard& shard, uint64_t cursor, uint32_t keys_max, base::Now now) {
  const shard::Page page = real::page(shard, cursor, keys_max, now);
  for (const api::KeyState& state : page.keys) check_state(state, state.key, now);
  return page;
}

void Oracle::check_waiters() {
  for (const auto& [ticket, waiting] : waiting_) {
    if (io_.server_closed(waiting.link)) failure_.report("a waiter outlives its connection");
  }
}

void Oracle::told_id(const DecidedEntry& entry, uint64_t request_id) {
  // Refused for what was asked: such a request takes no id.
  if (entry.verdict == api::Verdict::never_fits || entry.verdict == api::Verdict::not_allowed ||
      entry.verdict == api::Verdict::invalid_key) {
    if (request_id != 0) failure_.report("a refused request got an id");
    return;
  }
  const auto [place, fresh] = told_ids_.emplace(entry.sequence, request_id);
  if (!fresh) {
    if (place->second != request_id) failure_.report("a request got a second id");
    return;
  }
  const auto next = std::next(place);
  const bool after_last = place == told_ids_.begin() || std::prev(place)->second < request_id;
  const bool before_next = next == told_ids_.end() || request_id < next->second;
  if (request_id == 0 || !after_last || !before_next) {
    failure_.report("request id " + std::to_string(request_id) + " is out of order");
  }
}

}  // namespace sluice::simulation
