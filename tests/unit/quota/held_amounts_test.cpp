// Goal: the holds on a subject are a sum while there are any.
// Method: two subjects, and holds that come and go.
#include "quota/held_amounts.hpp"

#include <gtest/gtest.h>

namespace sluice::quota {
namespace {

TEST(HeldAmounts, are_summed_until_the_last_hold_is_removed) {
  HeldAmounts holds(2);
  Subject first, second;
  const int batches[2]{};
  EXPECT_EQ(holds.of(first), nullptr);
  holds.add(first, {.requests = 1, .input_tokens = 5, .output_tokens = 7, .cost = 9}, true,
            &batches[0]);
  holds.add(first, {.requests = 2, .input_tokens = 1}, false, &batches[1]);
  holds.add(second, {.requests = 3}, true, &batches[0]);
  ASSERT_NE(holds.of(first), nullptr);
  EXPECT_EQ(holds.of(first)->amounts(),
            (api::Amounts{.requests = 3, .input_tokens = 6, .output_tokens = 7, .cost = 9}));
  EXPECT_EQ(holds.of(first)->count, 2U);
  EXPECT_EQ(holds.of(first)->slots, 1U);
  EXPECT_EQ(holds.of(first)->last_batch, &batches[1]);
  EXPECT_EQ(holds.of(second)->amounts(), api::Amounts{.requests = 3});
  holds.remove(first, {.requests = 1, .input_tokens = 5, .output_tokens = 7, .cost = 9}, true);
  EXPECT_EQ(holds.of(first)->amounts(), (api::Amounts{.requests = 2, .input_tokens = 1}));
  EXPECT_EQ(holds.of(first)->slots, 0U);
  EXPECT_EQ(holds.of(first)->last_batch, nullptr);
  holds.remove(first, {.requests = 2, .input_tokens = 1}, false);
  EXPECT_EQ(holds.of(first), nullptr);
  EXPECT_FALSE(first.has_holds);
  holds.add(first, {.requests = 4}, true, &batches[0]);
  EXPECT_EQ(holds.of(first)->amounts(), api::Amounts{.requests = 4});
}

TEST(HeldAmounts, never_wrap_around) {
  constexpr uint64_t most = limits::amount_max;
  HeldAmounts holds(1);
  Subject subject;
  for (int hold = 0; hold < 5; ++hold) {
    holds.add(subject, {.input_tokens = most, .output_tokens = most}, true, nullptr);
    EXPECT_EQ(holds.of(subject)->amounts().output_tokens, most);
  }
  for (int hold = 0; hold < 4; ++hold) {
    holds.remove(subject, {.input_tokens = most, .output_tokens = most}, true);
  }
  EXPECT_EQ(holds.of(subject)->amounts().input_tokens, most);
  EXPECT_EQ(holds.of(subject)->amounts().requests, 1U);
}

}  // namespace
}  // namespace sluice::quota
