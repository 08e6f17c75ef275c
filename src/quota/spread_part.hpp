// One shard's part of a call that several shards decide: what SpreadDecider works on.
// Lives:  while the shard has its share of one pass; the call's SpreadCall outlives it.
#pragma once

#include <algorithm>

#include "api/quota.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/request.hpp"
#include "quota/reservation_book.hpp"
#include "quota/spread_round.hpp"

namespace sluice::quota {

struct SpreadPart {
  api::QuotaBatch& batch;
  const uint32_t index;
  const api::ShardId shard;
  const api::QuotaCall& call = batch.calls[index];
  api::SpreadCall& spread = batch.spread[index];
  LimitedSubjects limited{};
  Request request{};

  const uint8_t place = first_place(call, spread, shard);  // of its subjects

  uint32_t hold() const noexcept { return spread.holds[place]; }
  void set_hold(uint32_t number) noexcept { spread.holds[place] = number; }
  bool is_held() const noexcept {
    return hold() != api::SpreadCall::no_hold && hold() != api::SpreadCall::without_hold;
  }
  bool has_waiter() const noexcept { return spread.waiters[place] != api::no_waiter; }
  api::WaiterId waiter() const noexcept { return spread.waiters[place]; }
  uint8_t bit() const noexcept { return static_cast<uint8_t>(1U << place); }
  bool is_home() const noexcept { return spread.home() == shard; }
  Home home() const noexcept {
    if (is_home()) return Home::here;
    return api::is_node_stop(spread.home()) ? Home::other_node : Home::other_shard;
  }
  // Whether a fitting part is held; records without an id, and checks, leave nothing to be found.
  bool needs_hold() const noexcept { return api::leaves_trace(call); }
  // Whether all its subjects are kept alive. Those of a part that was refused, or is only here to
  // report its limits, may be gone.
  bool is_kept() const noexcept {
    return std::ranges::all_of(limited, [this](const LimitedSubject& each) {
      return (spread.kept_bits & 1U << each.place) != 0;
    });
  }
  bool is_charged() const noexcept { return (spread.charged_bits & bit()) != 0; }
  bool wants_all() const noexcept { return (call.flags & api::quota_flag::wants_limits) != 0; }
  bool wants_violated() const noexcept {
    return (call.flags & api::quota_flag::wants_violated) != 0;
  }
};

}  // namespace sluice::quota
