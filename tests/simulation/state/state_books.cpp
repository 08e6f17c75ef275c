#include "state_books.hpp"

#include <algorithm>
#include <array>

namespace sluice::simulation {
namespace {

constexpr int64_t year_ms = int64_t{365} * 24 * 3'600 * 1'000;
constexpr int64_t day_ms = int64_t{24} * 3'600 * 1'000;

using api::LimitKind;
using api::Metric;

}  // namespace

uint64_t QuotaHistory::asked(uint64_t mark) {
  Change change{.mark = mark, .is_answered = false, .before = {}};
  for (const auto& [number, before] : changes_) {
    if (before.is_answered) change.before.push_back(number);
  }
  changes_[++last_] = std::move(change);
  return last_;
}

void QuotaHistory::done(uint64_t number) {
  const auto found = changes_.find(number);
  if (found == changes_.end()) return;  // a later one was done first
  found->second.is_answered = true;
  for (const uint64_t before : std::exchange(found->second.before, {})) changes_.erase(before);
}

bool QuotaHistory::may_be(uint64_t mark) const {
  return std::ranges::any_of(changes_, [&](const auto& each) { return each.second.mark == mark; });
}

void QuotaHistory::is_now(uint64_t mark) {
  changes_.clear();
  changes_[++last_] = {.mark = mark, .before = {}};
}

StateBooks::StateBooks(io::Random& random) : random_(random) {
  for (const char* const name : {"{a}0", "{a}1", "{a}2", "{b}0", "{b}1"}) subjects_.push_back(name);
  for (int i = 0; i < 7; ++i) subjects_.push_back("lone" + std::to_string(i));
  for (const std::string& subject : subjects_) {
    histories_.emplace(subject, QuotaHistory(first_mark));
    api::Quota quota = draw_quota();
    for (api::Limit& limit : quota.limits) {
      if (limit.name == "mark") limit.amount = first_mark;
    }
    rules_.rules.push_back({.subject = subject, .quota = std::move(quota)});
  }
}

std::vector<std::string> StateBooks::draw_call() {
  std::vector<std::string> names{draw_subject()};
  for (uint64_t more = random_.chance(0.5) ? 0 : random_.below(4); more > 0; --more) {
    const std::string& name = draw_subject();
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// Two limits never end, so that what they show is known exactly; others may refuse.
api::Quota StateBooks::draw_quota() {
  api::Quota quota{.limits = {}, .refund_expired = random_.chance(0.5), .profile = {}};
  const auto add = [&](const char* name, Metric metric, LimitKind kind, uint64_t amount,
                       int64_t period_ms) {
    quota.limits.push_back({.name = name,
                            .metric = metric,
                            .kind = kind,
                            .amount = amount,
                            .period_ms = period_ms,
                            .time_zone = {}});
  };
  add("mark", Metric::tokens, LimitKind::fixed, ++next_mark_, year_ms);
  add("calls", Metric::requests, LimitKind::sliding, 1'000'000, year_ms);
  const auto some = [&] { return 20 + random_.below(500); };
  const auto period_ms = [&] { return random_.between(50, 100'000); };
  if (random_.chance(0.5)) add("fixed", Metric::requests, LimitKind::fixed, some(), period_ms());
  if (random_.chance(0.5)) add("slid", Metric::tokens, LimitKind::sliding, some(), period_ms());
  if (random_.chance(0.3)) add("burst", Metric::requests, LimitKind::gcra, some(), period_ms());
  if (random_.chance(0.3)) add("day", Metric::tokens, LimitKind::rolling_day, 40 * some(), day_ms);
  if (random_.chance(0.4)) add("slots", Metric::concurrency, LimitKind::concurrency, some(), 0);
  return quota;
}

uint64_t StateBooks::mark_of(const api::Quota& quota) {
  return std::ranges::find(quota.limits, "mark", &api::Limit::name)->amount;
}

void StateBooks::reserved(uint64_t id, const std::vector<std::string>& subjects) {
  if (reservations_.emplace(id, subjects).second) ids_.push_back(id);
}

uint64_t StateBooks::draw_reservation() {
  if (ids_.empty()) return 0;
  const uint64_t last = random_.chance(0.8) ? std::min<uint64_t>(ids_.size(), 16) : ids_.size();
  return ids_[ids_.size() - 1 - random_.below(last)];
}

std::vector<std::string> StateBooks::subjects_of(uint64_t id) const {
  const auto found = reservations_.find(id);
  return found == reservations_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace sluice::simulation
