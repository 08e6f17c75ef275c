#include "kept_settles.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace sluicegate {

std::string settle_id(uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text{settle_id_prefix};
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(number >> shift) & 15];
  return text;
}

ReservedCall ReservedCall::of(const Subjects& subjects, const ReserveOptions& options,
                              Clock::time_point now) {
  const auto names = subjects.names();
  return {.subjects = {names.begin(), names.end()},
          .amounts = {.requests = options.requests,
                      .input_tokens = options.input_tokens,
                      .output_tokens = options.max_output_tokens.value_or(0),
                      .cost = options.cost},
          .lifetime = options.lifetime_ms > 0 ? std::chrono::milliseconds{options.lifetime_ms}
                                              : default_lifetime,
          .on_exception = options.on_exception,
          .renew = options.renew,
          .has_lifetime = options.lifetime_ms > 0,
          .since = options.may_wait ? std::nullopt : std::optional{now}};
}

std::string KeptSettle::record_id() const {
  return reservation != 0 ? settle_id(reservation) : own_id;
}

Used KeptSettle::recorded() const {
  Used all = reserved->amounts;
  if (used.requests) all.requests = used.requests;
  if (used.input_tokens) all.input_tokens = used.input_tokens;
  if (used.output_tokens) all.output_tokens = used.output_tokens;
  if (used.cost) all.cost = used.cost;
  all.cached_input_tokens = std::min(used.cached_input_tokens, *all.input_tokens);
  return all;
}

bool KeptSettle::is_to_be_recorded(QuotaCode code, uint64_t answering_instance) const noexcept {
  return reserved != nullptr && is_unknown(code) && !is_the_same_start(answering_instance);
}

bool KeptSettle::was_taken(QuotaCode code, uint64_t answering_instance) const noexcept {
  return may_be_taken && is_unknown(code) && is_the_same_start(answering_instance);
}

bool KeptSettle::may_be_repeated(QuotaCode code) const noexcept {
  if (code == QuotaCode::owner_unreachable || code == QuotaCode::draining) return true;
  return stage == Stage::record && may_retry(code);
}

// ------------------------------------------------------------------------------------- adding

bool KeptSettles::add_fresh(KeptSettle settle) {
  if (!has_room()) return false;
  fresh_.push_back(std::move(settle));
  return true;
}

bool KeptSettles::add_failed(KeptSettle settle, Clock::time_point now) {
  if (!has_room()) return false;
  wait(std::move(settle), now);
  return true;
}

void KeptSettles::wait_or_lose(KeptSettle settle, Clock::time_point now) {
  if (is_closed_ || settle.ends <= now) {
    ++counts_.lost;
  } else {
    wait(std::move(settle), now);
  }
}

// The first one that waits schedules the next attempt, and the others join it.
void KeptSettles::wait(KeptSettle settle, Clock::time_point now) {
  if (settle.attempts > 0) earliest_end_ = std::min(earliest_end_, settle.ends);
  waiting_.push_back(std::move(settle));
  if (next_attempt_ != Clock::time_point::max()) return;
  next_attempt_ = now + backoff_.pause(++failures_);
}

// ------------------------------------------------------------------------------------ attempts

KeptSettles::Clock::time_point KeptSettles::due() const noexcept {
  if (!fresh_.empty()) return {};
  return waiting_.empty() ? Clock::time_point::max() : std::min(next_attempt_, next_sweep());
}

void KeptSettles::drop_ended(Clock::time_point now) {
  counts_.lost += std::erase_if(waiting_, [now](const KeptSettle& settle) {
    return settle.attempts > 0 && settle.ends <= now;
  });
  sweep_after_ = now + sweep_pause;
  earliest_end_ = Clock::time_point::max();
  for (const KeptSettle& settle : waiting_) {
    if (settle.attempts > 0) earliest_end_ = std::min(earliest_end_, settle.ends);
  }
}

std::vector<KeptSettle> KeptSettles::take_due(Clock::time_point now) {
  if (next_sweep() <= now) drop_ended(now);
  std::vector<KeptSettle> due = std::exchange(fresh_, {});
  if (next_attempt_ <= now) {
    std::ranges::move(waiting_, std::back_inserter(due));
    waiting_.clear();
    next_attempt_ = earliest_end_ = Clock::time_point::max();
  }
  for (KeptSettle& settle : due) ++settle.attempts;
  under_way_ += due.size();
  return due;
}

void KeptSettles::answered(KeptSettle settle, QuotaCode code, Clock::time_point now,
                           uint64_t instance_id) {
  --under_way_;
  decide(std::move(settle), code, now, instance_id);
  if (kept() == 0) failures_ = 0;
}

void KeptSettles::decide(KeptSettle settle, QuotaCode code, Clock::time_point now,
                         uint64_t instance_id) {
  using Stage = KeptSettle::Stage;
  if (settle.may_be_repeated(code)) {
    // A node that has lost its connection to the owner does not know either.
    settle.may_be_taken |= code == QuotaCode::owner_unreachable;
    return wait_or_lose(std::move(settle), now);
  }
  const bool is_repeat = settle.attempts > 1;
  if (settle.is_to_be_recorded(code, instance_id) && !is_closed_) {
    settle.stage = Stage::record;
    fresh_.push_back(std::move(settle));
    return;
  }
  if (settle.stage == Stage::record && admits(code)) {
    ++counts_.recorded;
  } else if (admits(code) || code == QuotaCode::already_settled ||
             settle.was_taken(code, instance_id)) {
    ++counts_.settled;
  } else {
    ++counts_.lost;
    return;
  }
  if (is_repeat) failures_ = 0;
}

void KeptSettles::unanswered(std::span<const KeptSettle> settles, Clock::time_point now) {
  under_way_ -= settles.size();
  for (KeptSettle settle : settles) {
    settle.may_be_taken = true;
    wait_or_lose(std::move(settle), now);
  }
}

void KeptSettles::unsent(std::span<const KeptSettle> settles, Clock::time_point now) {
  under_way_ -= settles.size();
  for (const KeptSettle& settle : settles) wait_or_lose(settle, now);
}

void KeptSettles::refused(std::span<const KeptSettle> settles, Clock::time_point now) {
  under_way_ -= settles.size();
  for (KeptSettle settle : settles) {
    if (std::exchange(settle.is_alone, true) || settles.size() == 1) {
      ++counts_.lost;
    } else {
      wait_or_lose(std::move(settle), now);
    }
  }
}

// ----------------------------------------------------------------------------------- the end

void KeptSettles::hurry() noexcept {
  next_attempt_ = waiting_.empty() ? Clock::time_point::max() : Clock::time_point{};
  failures_ = 0;
}

void KeptSettles::close() noexcept {
  is_closed_ = true;
  counts_.lost += fresh_.size() + waiting_.size();
  fresh_.clear();
  waiting_.clear();
}

SettleCounts KeptSettles::counts() const noexcept {
  SettleCounts counts = counts_;
  counts.kept = kept();
  return counts;
}

}  // namespace sluicegate
