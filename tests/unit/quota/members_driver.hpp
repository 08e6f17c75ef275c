// Members of a call that no store keeps: each with its own quota, class and words.
// Lives:  members point into the driver; add them all before they are used.
#pragma once

#include <deque>
#include <vector>

#include "quota/member_meters.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {

class MembersDriver {
 public:
  // Adds a member without usage, with so many open reservations.
  void add(std::vector<api::Limit> limits, uint32_t open = 0) {
    const QuotaClass* const quota = classes_.hold(quota_of(std::move(limits)));
    std::vector<uint64_t>& heads = words_.emplace_back(quota->head_words);
    std::vector<uint64_t>& rings = words_.emplace_back(quota->ring_words);
    const auto place = static_cast<uint8_t>(members.size());
    members.push_back({.place = place,
                       .index = place,
                       .quota = quota,
                       .words = {.heads = heads.data(), .rings = rings.data()},
                       .open = open});
    begin_meters(*quota, members.back().words, now);
  }
  uint64_t used(size_t member, size_t limit) {
    limiter::Meter meter(members[member].quota->shapes[limit], members[member].words);
    meter.roll(now);
    return meter.used();
  }
  uint64_t open(size_t member, size_t limit) {
    return limiter::Meter(members[member].quota->shapes[limit], members[member].words).open();
  }

  Members members;
  limiter::Moment now{.ns = base::ns_per_s, .wall_ns = base::ns_per_s, .order = 1};

 private:
  QuotaClasses classes_;
  std::deque<std::vector<uint64_t>> words_;
};

}  // namespace sluice::quota
