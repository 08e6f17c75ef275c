// A bucket gives back what was put into its packed words, at their extremes.
#include "shard/bucket.hpp"

#include <gtest/gtest.h>

namespace sluice::shard {
namespace {

TEST(Bucket, keeps_windows_at_their_extremes) {
  Bucket bucket{};
  for (uint32_t slot = 0; slot < Bucket::slots_count; ++slot) {
    for (const int64_t end_ms : {int64_t{0}, int64_t{1}, (int64_t{1} << 33) - 1, int64_t{1} << 33,
                                 (int64_t{1} << 41) - 1}) {
      for (const uint32_t approved : {0U, 1U, limits::permits_max}) {
        for (const uint32_t denied : {0U, 1U, Bucket::denied_max}) {
          const limiter::FixedWindow window{end_ms, approved, denied};
          for (const uint32_t policy : {0U, 1U, Bucket::policies_count - 1}) {
            bucket.set_window(slot, window, policy);
            EXPECT_FALSE(bucket.has_extra(slot));
            EXPECT_EQ(bucket.window(slot), window);
            EXPECT_EQ(bucket.policy(slot), policy);
            bucket.set_window(slot, {.end_ms = 5});
            EXPECT_EQ(bucket.policy(slot), policy);
          }
        }
      }
    }
  }
}

// In place as FixedWindow does it.
TEST(Bucket, takes_and_denies_in_place) {
  constexpr uint32_t limit = limits::permits_max;
  for (const uint32_t approved : {0U, limit - 1, limit}) {
    for (const uint32_t denied : {0U, Bucket::denied_max - 1, Bucket::denied_max}) {
      limiter::FixedWindow window{(int64_t{1} << 41) - 1, approved, denied};
      Bucket bucket{};
      bucket.set_window(2, window, 63);
      EXPECT_EQ(bucket.end_ms(2), window.end_ms);
      for (const uint32_t cost : {1U, 2U, limit}) {
        EXPECT_EQ(bucket.take(2, cost, limit), window.take(cost, limit));
        EXPECT_EQ(bucket.window(2), window);
      }
      EXPECT_EQ(bucket.deny(2), denied < Bucket::denied_max);
      if (denied < Bucket::denied_max) window.deny();
      EXPECT_EQ(bucket.window(2), window);
      EXPECT_EQ(bucket.policy(2), 63U);
    }
  }
}

TEST(Bucket, keeps_the_index_of_an_extra) {
  Bucket bucket{};
  bucket.set_window(1, {.end_ms = 77, .approved = 5, .denied = 6}, 3);
  bucket.set_extra(1, 0xFFFF'FFFE);
  EXPECT_TRUE(bucket.has_extra(1));
  EXPECT_EQ(bucket.extra(1), 0xFFFF'FFFEU);
  EXPECT_FALSE(bucket.has_extra(0));
  bucket.set_window(1, {.end_ms = 78}, 4);
  EXPECT_FALSE(bucket.has_extra(1));
}

TEST(Bucket, matches_tags) {
  Bucket bucket{};
  bucket.tags[0] = 7;
  bucket.tags[2] = 9;
  EXPECT_EQ(bucket.match(7), 1U);
  EXPECT_EQ(bucket.match(9), 4U);
  EXPECT_EQ(bucket.match(0), 2U);
  EXPECT_EQ(bucket.match(8), 0U);
}

}  // namespace
}  // namespace sluice::shard
