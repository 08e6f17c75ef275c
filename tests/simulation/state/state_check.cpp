#include "state_check.hpp"

#include <algorithm>

#include "proto/key_hash.hpp"
#include "proto/reservation_id.hpp"

namespace sluice::simulation {
namespace {

std::string name_of(uint64_t id) {
  return "reservation " + std::to_string(id);
}

// Whether it does not end within a run, so that time changes nothing of it.
bool is_lasting(const std::string& limit) {
  return limit == "mark" || limit == "calls" || limit == "slots";
}

}  // namespace

void StateCheck::expect_equal(uint64_t expected, uint64_t found, const std::string& what) {
  ++compared_;
  if (expected == found) return;
  failure_.report(what + " is " + std::to_string(found) + " after the restart, and was " +
                  std::to_string(expected) + " at the cut");
}

void StateCheck::compare(const CutCopies& cut, const StateCopy& loaded, bool has_other_shards) {
  size_t reservations = 0;
  busy_.clear();
  for (const auto& [shard, copy] : cut) busy_.insert(copy.busy.begin(), copy.busy.end());
  for (const auto& [shard, copy] : cut) {
    reservations += copy.reservations.size();
    for (const auto& [name, subject] : copy.subjects) {
      compare_subject(name, copy, loaded);
    }
    for (const auto& [id, reservation] : copy.reservations) {
      compare_reservation(id, reservation, loaded, has_other_shards);
    }
  }
  expect_equal(reservations, loaded.reservations.size(), "the number of reservations");
  check_whole(loaded);
}

void StateCheck::compare_subject(const std::string& name, const StateCopy& cut,
                                 const StateCopy& all_loaded) {
  const SubjectCopy& before = cut.subjects.at(name);
  const SubjectCopy& loaded = all_loaded.subjects.at(name);
  expect_equal(static_cast<uint64_t>(before.source), static_cast<uint64_t>(loaded.source),
               "the source of the quota of " + name);
  expect_equal(before.limits.size(), loaded.limits.size(), "the number of limits of " + name);
  if (loaded.open > before.open) expect_equal(before.open, loaded.open, "open at " + name);
  const bool is_complete = loaded.open == before.open && !cut.has_claims && !busy_.contains(name);
  if (!is_complete) ++incomplete_;
  const bool is_later = all_loaded.at.monotonic_ns > cut.at.monotonic_ns;
  for (const auto& [limit, state] : before.limits) {
    const auto found = loaded.limits.find(limit);
    if (found == loaded.limits.end()) return failure_.report(name + " has lost a limit: " + limit);
    expect_equal(state.amount, found->second.amount, limit + " of " + name);
    if (!is_complete) continue;
    compare_limit(limit + " of " + name, state, found->second, is_lasting(limit) || !is_later);
  }
}

void StateCheck::compare_limit(const std::string& name, const LimitCopy& cut,
                               const LimitCopy& loaded, bool is_exact) {
  const bool may_be_less = !is_exact;
  if (!may_be_less || loaded.used > cut.used) expect_equal(cut.used, loaded.used, "use of " + name);
  if (!may_be_less || loaded.reserved > cut.reserved) {
    expect_equal(cut.reserved, loaded.reserved, "reserved of " + name);
  }
}

void StateCheck::compare_reservation(uint64_t id, const ReservationCopy& cut,
                                     const StateCopy& loaded, bool has_other_shards) {
  const auto found = loaded.reservations.find(id);
  if (found == loaded.reservations.end()) return failure_.report(name_of(id) + " is lost");
  const ReservationCopy& now = found->second;
  const std::string name = name_of(id);
  expect_equal(cut.amounts.requests, now.amounts.requests, "requests of " + name);
  expect_equal(cut.amounts.input_tokens, now.amounts.input_tokens, "input tokens of " + name);
  expect_equal(cut.amounts.output_tokens, now.amounts.output_tokens, "output tokens of " + name);
  if (cut.owner != now.owner) failure_.report(name + " has another owner");
  // Parts that come together take the earliest.
  const bool is_earlier = now.since_ms < cut.since_ms - 1;
  if (now.since_ms > cut.since_ms + 1 || (is_earlier && !has_other_shards)) {
    failure_.report(name + " has another lifetime");
  }
  check_subjects(id, now.subjects, loaded.shards);
}

void StateCheck::check_subjects(uint64_t id, std::vector<std::string> found, uint32_t shards) {
  std::vector<std::string> asked = books_.subjects_of(id);
  if (asked.empty()) return;
  std::ranges::sort(asked);
  std::ranges::sort(found);
  if (asked != found) failure_.report(name_of(id) + " has other subjects");
  if (asked.size() > 1) ++of_several_subjects_;
  const auto is_away = [&](const std::string& name) {
    return proto::owner_shard(proto::routing_hash(name, 0), shards) !=
           proto::reservation_shard(id, shards);
  };
  const bool is_apart = std::ranges::any_of(asked, is_away);
  if (is_apart && !proto::reservation_id::has_several_shards(id)) ++came_apart_;
}

// What subjects have open is what the reservations have.
void StateCheck::check_whole(const StateCopy& loaded) {
  std::map<std::string, uint64_t> open;
  for (const auto& [id, reservation] : loaded.reservations) {
    for (const std::string& subject : reservation.subjects) ++open[subject];
  }
  for (const auto& [name, subject] : loaded.subjects) {
    ++compared_;
    if (subject.open == open[name]) continue;
    failure_.report(name + " has " + std::to_string(subject.open) + " open, and is a subject of " +
                    std::to_string(open[name]) + " reservations");
  }
}

}  // namespace sluice::simulation
