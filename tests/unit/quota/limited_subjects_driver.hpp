// LimitedSubjects of a call that no store keeps: each with its own quota, class and words.
// Lives:  limited subjects point into the driver; add them all before they are used.
#pragma once

#include <deque>
#include <vector>

#include "quota/limited_subject_meters.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {

class LimitedSubjectsDriver {
 public:
  // Adds a limited subject without usage, with so many open reservations.
  void add(std::vector<api::Limit> limits, uint32_t open = 0) {
    const CompiledQuota* const quota = classes_.hold(quota_of(std::move(limits)));
    std::vector<uint64_t>& heads = words_.emplace_back(quota->head_words);
    std::vector<uint64_t>& rings = words_.emplace_back(quota->ring_words);
    const auto place = static_cast<uint8_t>(limited.size());
    limited.push_back({.place = place,
                       .index = place,
                       .quota = quota,
                       .words = {.heads = heads.data(), .rings = rings.data()},
                       .open = open});
    begin_meters(*quota, limited.back().words, now);
  }
  uint64_t used(size_t each, size_t limit) {
    limiter::Meter meter(limited[each].quota->shapes[limit], limited[each].words);
    meter.roll(now);
    return meter.used();
  }
  uint64_t open(size_t each, size_t limit) {
    return limiter::Meter(limited[each].quota->shapes[limit], limited[each].words).open();
  }

  LimitedSubjects limited;
  limiter::Moment now{.ns = base::ns_per_s, .wall_ns = base::ns_per_s, .order = 1};

 private:
  CompiledQuotas classes_;
  std::deque<std::vector<uint64_t>> words_;
};

}  // namespace sluice::quota
