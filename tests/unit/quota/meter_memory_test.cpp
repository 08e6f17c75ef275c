// Goal: every subject has words for any quota, and they lie apart.
// Method: as many quotas of the largest size as there may be subjects, filled and read again.
#include "quota/meter_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

// As many words as a quota can have.
const CompiledQuota* largest(CompiledQuotas& classes) {
  std::vector<api::Limit> limits;
  for (size_t limit = 0; limit < limits::quota_limits_max; ++limit) {
    limits.push_back(limit_of(numbered("day", static_cast<int>(limit)), api::Metric::tokens, 5,
                              api::LimitKind::rolling_day, 86'400'000));
  }
  return classes.hold(quota_of(std::move(limits)));
}

TEST(MeterMemory, has_room_for_every_subject_and_one_more) {
  CompiledQuotas classes;
  const CompiledQuota* const quota = largest(classes);
  MeterMemory memory(3);
  std::vector<limiter::Words> taken;
  for (uint64_t mark = 0; mark < 4; ++mark) {
    taken.push_back(memory.take(*quota));
    std::fill_n(taken.back().heads, quota->head_words, mark);
    std::fill_n(taken.back().rings, quota->ring_words, mark);
  }
  memory.check_invariants();
  for (uint64_t mark = 0; mark < 4; ++mark) {
    const limiter::Words& words = taken[mark];
    EXPECT_EQ(std::count(words.heads, words.heads + quota->head_words, mark), quota->head_words);
    EXPECT_EQ(std::count(words.rings, words.rings + quota->ring_words, mark), quota->ring_words);
    memory.free(*quota, words);
  }
  memory.check_invariants();
}

TEST(MeterMemory, a_quota_without_meters_has_no_words) {
  CompiledQuotas classes;
  MeterMemory memory(1);
  const limiter::Words words = memory.take(*classes.hold(quota_of({slots(3)})));
  EXPECT_EQ(words.heads, nullptr);
  EXPECT_EQ(words.rings, nullptr);
}

TEST(MeterMemory, scratch_words_of_two_places_lie_apart) {
  CompiledQuotas classes;
  const CompiledQuota* const quota = largest(classes);
  MeterMemory memory(1);
  for (uint8_t place = 0; place + 1 < static_cast<int>(limits::call_subjects_max); ++place) {
    const limiter::Words words = memory.scratch(place);
    const limiter::Words next = memory.scratch(place + 1);
    EXPECT_GE(words.rings, words.heads + quota->head_words);
    EXPECT_GE(next.heads, words.rings + quota->ring_words);
  }
}

}  // namespace
}  // namespace sluice::quota
