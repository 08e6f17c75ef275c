#include "oracle.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "shard/key_hash.hpp"
#include "shard_calls.hpp"

namespace sluice::simulation {
namespace {

constexpr uint32_t adopt_slices = 8;  // more than the most waiters of a run fill

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

// Tickets of different cores are the same numbers: the models need them apart.
constexpr uint32_t core_shift = 24;

namespace {

api::Ticket named(api::Ticket ticket, api::CoreId origin) {
  if (ticket == api::no_ticket) return ticket;
  ASSERT(ticket < 1U << core_shift && origin < 64);
  return ticket | uint32_t{origin} << core_shift;
}

}  // namespace

Oracle::Oracle(const shard::Options& options, bool single_steps, Failure& failure)
    : options_(options),
      single_steps_(single_steps),
      failure_(failure),
      traces_(std::getenv("TRACE") != nullptr) {
  install(this);
}

Oracle::~Oracle() {
  install(nullptr);
}

void Oracle::watch(const server::Worker& worker, io::SimIo& io) {
  cores_.emplace_back(worker, io, options_);
}

Oracle::Core& Oracle::core_of(const shard::Shard& shard) {
  const auto core =
      std::ranges::find_if(cores_, [&](const Core& one) { return &one.worker.shard() == &shard; });
  ASSERT(core != cores_.end());
  return *core;
}

uint32_t Oracle::waiters_count() const {
  uint32_t count = 0;
  for (const Core& core : cores_) count += core.model.waiters_count();
  return count;
}

void Oracle::trace(const std::string& text) const {
  if (!traces_) return;
  const int64_t now_ns = cores_.empty() ? 0 : cores_[0].io.network().clock().monotonic_ns;
  std::fprintf(stderr, "%10.3f ms  %s\n", static_cast<double>(now_ns) / 1e6, text.c_str());
}

void Oracle::decide(shard::Shard& shard, std::span<const api::Entry> entries,
                    const shard::Answers& answers, base::Now now, api::CoreId origin) {
  Core& core = core_of(shard);
  if (!single_steps_) {
    decide_some(core, shard, entries, answers, now, origin);
  } else {
    for (size_t i = 0; i < entries.size(); ++i) {
      decide_some(core, shard, entries.subspan(i, 1),
                  {.verdicts = answers.verdicts.subspan(i, 1),
                   .details = answers.details.subspan(i, 1),
                   .waiters = answers.waiters.subspan(i, 1)},
                  now, origin);
    }
  }
  if (const route::Crossing* crossing = core.worker.serving()) {
    keep_crossing(cores_[origin], origin, *crossing, answers);
  } else {
    keep_turn(core, answers);
  }
  tell_granted(core.model);
}

void Oracle::decide_some(Core& core, shard::Shard& shard, std::span<const api::Entry> entries,
                         const shard::Answers& answers, base::Now now, api::CoreId origin) {
  core.model.run_due(now);
  const bool full = single_steps_ && is_full(core, shard, now);
  real::decide(shard, entries, answers, now, origin);
  if (single_steps_) follow_evictions(core, shard, now);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].op == api::Op::elsewhere) continue;
    api::Entry entry = entries[i];
    entry.ticket = named(entry.ticket, origin);
    const ShardModel::Answer expected = core.model.decide(entry, now, full);
    check_answer(entry, expected, answers.verdicts[i], answers.details[i]);
  }
  check_grants(core, shard);
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
bool Oracle::is_full(Core& core, const shard::Shard& shard, base::Now now) const {
  if (shard.keys_count() < options_.keys_max) return false;
  uint32_t live_count = 0;
  for (const auto& [name, key] : core.model.keys()) {
    if (core.model.has_expired(key, now)) continue;
    if (core.model.may_be_evicted(key, now)) return false;
    ++live_count;
  }
  return shard.keys_count() == live_count;
}

void Oracle::follow_evictions(Core& core, shard::Shard& shard, base::Now now) {
  const uint64_t count = shard.statistics().keys_evicted;
  if (count == core.evicted_count) return;
  core.evicted_count = count;
  std::vector<std::string> gone;
  for (const auto& [name, key] : core.model.keys()) {
    if (real::inspect(shard, name, now)) continue;
    gone.push_back(name);
    if (!core.model.may_be_evicted(key, now)) {
      failure_.report("key " + name + " was forgotten too early");
    }
  }
  for (const std::string& name : gone) core.model.evict(name);
}

// Of each key, in the model's order; keys among each other in any.
void Oracle::check_grants(Core& core, shard::Shard& shard) {
  const auto granted = shard.grants().subspan(core.grants_checked);
  const auto expected = std::span(core.model.grants()).subspan(core.grants_checked);
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
    const api::Ticket ticket = named(grant.ticket, grant.origin);
    const auto key = keys.find(ticket);
    if (key == keys.end()) {
      failure_.report("a grant that the model does not have: " + name_of(grant.verdict));
      return;
    }
    const ShardModel::Grant& due = *lines[key->second][positions[key->second]++];
    if (due.ticket != ticket || due.verdict != grant.verdict || !same(due.detail, grant.detail)) {
      failure_.report("the line of " + key->second + ": " + name_of(grant.verdict) + " " +
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
  core.grants_checked += granted.size();
}

// Who asked: the turn knows the requests that the entries belong to.
void Oracle::keep_turn(Core& core, const shard::Answers& answers) {
  const route::Turn& turn = core.worker.undecided();
  const api::CoreId origin = core.worker.exchange().core();
  for (const route::Request& request : turn.requests()) {
    const uint32_t link =
        core.io.link_of({.index = request.session, .generation = request.generation});
    DecidedRequest& decided = decided_[link].emplace_back();
    decided.id = request.id;
    decided.entries.resize(request.entries_count);
    if (request.split != route::Request::whole) core.splits[request.split] = {link, &decided};
    for (uint32_t place = 0; place < request.entries_count; ++place) {
      const size_t index = request.first_entry + place;
      const api::Entry& entry = turn.entries()[index];
      const bool here = entry.op != api::Op::elsewhere;
      keep(decided, link, place, entry, origin, here ? answers.verdicts[index] : api::Verdict::none,
           answers.details[index]);
      if (!here) {
        const uint32_t slot = core.worker.exchange().book().slot(request.split, place);
        decided.entries[place].op = core.worker.exchange().book().entry(slot).op;
      }
    }
  }
}

// ... and the origin's book those that other cores decide.
void Oracle::keep_crossing(Core& origin, api::CoreId origin_id, const route::Crossing& crossing,
                           const shard::Answers& answers) {
  const route::SplitBook& book = origin.worker.exchange().book();
  for (size_t index = 0; index < crossing.entries.size(); ++index) {
    const uint32_t split = book.split_of(crossing.slots[index]);
    const auto& [link, request] = origin.splits.at(split);
    const size_t place = crossing.slots[index] - book.slot(split, 0);
    keep(*request, link, place, crossing.entries[index], origin_id, answers.verdicts[index],
         answers.details[index]);
  }
}

void Oracle::keep(DecidedRequest& request, uint32_t link, size_t place, const api::Entry& entry,
                  api::CoreId origin, api::Verdict verdict, const api::Detail& detail) {
  request.entries[place] = {.sequence = sequence_++,
                            .key = std::string(entry.key()),
                            .op = entry.op,
                            .verdict = verdict,
                            .detail = detail,
                            .outcome_detail = {}};
  if (verdict == api::Verdict::queued) {
    waiting_[named(entry.ticket, origin)] = {link, &request, place};
  }
}

// A waiter may be served by an entry behind it, of the same call.
void Oracle::tell_granted(const ShardModel& model) {
  for (const ShardModel::Grant& grant : model.grants()) {
    const auto waiting = waiting_.find(grant.ticket);
    if (waiting == waiting_.end()) continue;
    DecidedEntry& entry = waiting->second.request->entries[waiting->second.entry];
    entry.outcome = grant.verdict;
    entry.outcome_detail = grant.detail;
    waiting_.erase(waiting);
  }
}

bool Oracle::withdraw(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                      api::CoreId origin) {
  Core& core = core_of(shard);
  trace("withdraw ticket " + std::to_string(ticket) + " of core " + std::to_string(origin));
  const bool withdrawn = real::withdraw(shard, waiter, ticket, now, origin);
  if (withdrawn != core.model.withdraw(named(ticket, origin), now)) {
    failure_.report("a withdrawal went another way");
  }
  check_grants(core, shard);
  return withdrawn;
}

bool Oracle::abandon(shard::Shard& shard, api::WaiterId waiter, api::Ticket ticket, base::Now now,
                     api::CoreId origin) {
  Core& core = core_of(shard);
  trace("abandon ticket " + std::to_string(ticket) + " of core " + std::to_string(origin));
  const bool abandoned = real::abandon(shard, waiter, ticket, now, origin);
  if (abandoned != core.model.abandon(named(ticket, origin), now)) {
    failure_.report("an abandonment went another way");
  }
  if (abandoned) waiting_.erase(named(ticket, origin));
  check_grants(core, shard);
  return abandoned;
}

bool Oracle::give_back(shard::Shard& shard, const api::Permit& permit, base::Now now) {
  Core& core = core_of(shard);
  const bool taken = real::give_back(shard, permit, now);
  core.model.run_due(now);
  bool expected = false;
  for (const auto& [name, key] : core.model.keys()) {
    const shard::KeyHash hash = shard::hash_key(name, options_.hash_secret);
    if (hash.tag != permit.key_tag) continue;
    trace(name + " is given back " + std::to_string(permit.cost));
    const std::string given(name);
    expected = core.model.give_back(given, permit.cost, permit.window_end_ms, now);
    if (const auto state = real::inspect(shard, given, now)) check_state(core, *state, given, now);
    break;
  }
  if (taken != expected) failure_.report("a permit that reached nobody went another way");
  ++(taken ? given_back_ : given_back_late_);
  check_grants(core, shard);
  return taken;
}

void Oracle::drain(shard::Shard& shard, base::Now now) {
  Core& core = core_of(shard);
  real::drain(shard, now);
  core.model.drain(now);
  check_grants(core, shard);
}

void Oracle::run_due(shard::Shard& shard, base::Now now) {
  Core& core = core_of(shard);
  real::run_due(shard, now);
  core.model.run_due(now);
  check_grants(core, shard);
}

// A shard matches keys somebody waits for in slices, in its next calls of run_due(). Here they all
// come at once, so that the model can follow.
std::unique_ptr<policy::RuleBook> Oracle::adopt(shard::Shard& shard,
                                                std::unique_ptr<policy::RuleBook> rules,
                                                base::Now now) {
  Core& core = core_of(shard);
  trace("new rules");
  // Those that nobody has looked at since the last rules would pass them over.
  uint64_t cursor = 0;
  do {
    cursor = real::page(shard, cursor, limits::inspect_page_max, now).next_cursor;
  } while (cursor != 0);
  policy::RuleBook* book = rules.get();
  std::unique_ptr<policy::RuleBook> before = real::adopt(shard, std::move(rules), now);
  for (uint32_t slices = 0; slices < adopt_slices; ++slices) real::run_due(shard, now);
  core.model.adopt([book](const std::string& key) { return book->policy_of(key); }, now);
  check_grants(core, shard);
  return before;
}

void Oracle::keep_grants(shard::Shard& shard, size_t count) {
  Core& core = core_of(shard);
  ASSERT(core.grants_checked == shard.grants().size());
  real::keep_grants(shard, count);
  std::set<api::Ticket> kept;
  for (const api::Grant& grant : shard.grants()) kept.insert(named(grant.ticket, grant.origin));
  core.model.keep_grants(kept);
  core.grants_checked = count;
}

void Oracle::check_state(Core& core, const api::KeyState& state, std::string_view name,
                         base::Now now) {
  const ShardModel::Key* key = core.model.find(std::string(name), now);
  if (key == nullptr) return failure_.report("a forgotten key is shown: " + std::string(name));
  const api::KeyState expected = core.model.state(*key, now);
  if (state.window_ms != expected.window_ms || state.reset_ms != expected.reset_ms ||
      state.max_requests != expected.max_requests ||
      state.max_requests_in_queue != expected.max_requests_in_queue ||
      state.approved != expected.approved || state.denied != expected.denied ||
      state.waiting != expected.waiting) {
    failure_.report("key " + std::string(name) + " is shown in another state than the model's");
  }
}

std::optional<api::KeyState> Oracle::inspect(shard::Shard& shard, std::string_view key,
                                             base::Now now) {
  Core& core = core_of(shard);
  const auto state = real::inspect(shard, key, now);
  if (state) {
    check_state(core, *state, key, now);
  } else if (core.model.find(std::string(key), now) != nullptr) {
    failure_.report("a live key is not shown: " + std::string(key));
  }
  return state;
}

shard::Page Oracle::page(shard::Shard& shard, uint64_t cursor, uint32_t keys_max, base::Now now) {
  const shard::Page page = real::page(shard, cursor, keys_max, now);
  Core& core = core_of(shard);
  for (const api::KeyState& state : page.keys) check_state(core, state, state.key, now);
  return page;
}

void Oracle::check_waiters() {
  if (cores_.size() > 1) return;
  for (const auto& [ticket, waiting] : waiting_) {
    if (cores_[0].io.server_closed(waiting.link))
      failure_.report("a waiter outlives its connection");
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
  if (!ids_.insert(request_id).second) failure_.report("two requests got the same id");
  if (cores_.size() > 1) {
    if (request_id == 0) failure_.report("a request got no id");
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
