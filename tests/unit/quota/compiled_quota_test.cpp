// Goal:   equal quotas share one class, which ends with its last reference; usage is kept when
//         nothing but the amount changes.
// Method: classes by example; limits that differ in one field each.
#include "quota/compiled_quota.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Limit;
using api::LimitKind;
using api::Metric;
using api::Quota;

Limit tokens(std::string name, uint64_t amount) {
  return {.name = std::move(name),
          .metric = Metric::tokens,
          .kind = LimitKind::fixed,
          .amount = amount,
          .period_ms = 60'000,
          .time_zone = {}};
}

TEST(CompiledQuotas, equal_quotas_share_a_class_until_its_last_reference_is_dropped) {
  CompiledQuotas classes;
  const CompiledQuota* const first = classes.hold(quota_of({tokens("tpm", 5)}));
  EXPECT_EQ(classes.hold(quota_of({tokens("tpm", 5)})), first);
  CompiledQuotas::hold(first);
  EXPECT_EQ(classes.count(), 1U);
  classes.drop_reference(first);
  classes.drop_reference(first);
  EXPECT_EQ(classes.count(), 1U);
  classes.drop_reference(first);
  EXPECT_EQ(classes.count(), 0U);
}

TEST(CompiledQuotas, quotas_that_differ_in_anything_have_classes_of_their_own) {
  CompiledQuotas classes;
  const Quota quota = quota_of({tokens("tpm", 5)});
  Quota refunding = quota;
  refunding.refund_expired = true;
  Quota passing = quota;
  passing.overtakers_max = 1;
  Quota from_profile = quota;
  from_profile.profile = "openai (2026-02)";
  Quota cached = quota;
  cached.limits[0].count_cached = true;
  for (const Quota& other : {quota, refunding, passing, from_profile, cached, quota_of({})}) {
    classes.hold(other);
  }
  EXPECT_EQ(classes.count(), 6U);
}

TEST(CompiledQuotas, the_heads_of_all_limits_lie_together_and_so_do_their_rings) {
  CompiledQuotas classes;
  Limit sliding = tokens("s", 5);
  sliding.kind = LimitKind::sliding;
  Limit bucket = tokens("g", 5);
  bucket.kind = LimitKind::gcra;
  const Limit slots{
      .name = "c", .metric = Metric::concurrency, .kind = LimitKind::concurrency, .time_zone = {}};
  const CompiledQuota& made = *classes.hold(quota_of({tokens("f", 5), sliding, slots, bucket}));
  ASSERT_EQ(made.shapes.size(), 4U);
  uint32_t words = 0;
  for (const limiter::MeterShape& shape : made.shapes) {
    EXPECT_EQ(shape.head_word, words);
    words += limiter::head_words(shape);
  }
  EXPECT_EQ(made.head_words, words);
  words = 0;
  for (const limiter::MeterShape& shape : made.shapes) {
    EXPECT_EQ(shape.ring_word, words);
    words += limiter::ring_words(shape);
  }
  EXPECT_EQ(made.ring_words, words);
}

TEST(CompiledQuotas, a_quota_limits_when_one_of_its_limits_does) {
  CompiledQuotas classes;
  Limit unlimited = tokens("u", 0);
  unlimited.ceiling = api::Ceiling::unlimited;
  Limit blocked = tokens("b", 0);
  blocked.ceiling = api::Ceiling::block;
  EXPECT_FALSE(classes.hold(quota_of({}))->limits_anything);
  EXPECT_FALSE(classes.hold(quota_of({unlimited}))->limits_anything);
  EXPECT_TRUE(classes.hold(quota_of({unlimited, tokens("t", 0)}))->limits_anything);
  EXPECT_TRUE(classes.hold(quota_of({blocked}))->limits_anything);
}

TEST(BookCompiledQuotas, make_a_class_when_it_is_first_asked_for) {
  CompiledQuotas classes;
  BookCompiledQuotas of_book(classes);
  of_book.begin(100'000);
  EXPECT_EQ(classes.count(), 0U);
  const CompiledQuota* const made = of_book.of(99'999, quota_of({tokens("tpm", 5)}));
  EXPECT_EQ(of_book.of(99'999, quota_of({tokens("tpm", 5)})), made);
  EXPECT_EQ(of_book.of(7, quota_of({tokens("tpm", 5)})), made);
  EXPECT_EQ(classes.count(), 1U);
  EXPECT_EQ(made->references, 2U);
}

TEST(BookCompiledQuotas, drop_earlier_ones_piece_by_piece) {
  constexpr uint32_t places = 4 * BookCompiledQuotas::piece_places;
  CompiledQuotas classes;
  BookCompiledQuotas of_book(classes);
  for (uint64_t book = 0; book < 3; ++book) {
    of_book.begin(places);
    for (uint32_t place = 0; place < places; ++place) {
      of_book.of(place, quota_of({tokens("tpm", book * places + place)}));
    }
  }
  EXPECT_EQ(classes.count(), 3U * places);
  for (uint32_t left = 3 * places; left > places;) {
    ASSERT_TRUE(of_book.has_earlier());
    of_book.free_earlier_slice();
    left -= BookCompiledQuotas::piece_places;
    ASSERT_EQ(classes.count(), left);
  }
  EXPECT_FALSE(of_book.has_earlier());
  of_book.free_earlier_slice();
  EXPECT_EQ(classes.count(), places);
}

TEST(BookCompiledQuotas, a_class_with_another_reference_outlives_its_book) {
  CompiledQuotas classes;
  BookCompiledQuotas of_book(classes);
  of_book.begin(1);
  const CompiledQuota* const made = of_book.of(0, quota_of({tokens("tpm", 5)}));
  CompiledQuotas::hold(made);
  of_book.begin(1);
  while (of_book.has_earlier()) of_book.free_earlier_slice();
  EXPECT_EQ(of_book.of(0, quota_of({tokens("tpm", 5)})), made);
}

limiter::MeterShape shape_of(const Limit& limit) {
  limiter::MeterShape shape = limiter::compile(limit);
  shape.id = limit_id(limit.name);
  return shape;
}

TEST(CompiledQuotas, usage_goes_on_when_only_the_amount_or_the_word_for_it_changes) {
  const limiter::MeterShape before = shape_of(tokens("tpm", 5));
  EXPECT_TRUE(continues(before, shape_of(tokens("tpm", 0))));
  Limit limit = tokens("tpm", 5);
  limit.ceiling = api::Ceiling::unlimited;
  EXPECT_TRUE(continues(before, shape_of(limit)));
}

TEST(CompiledQuotas, usage_begins_anew_when_anything_else_changes) {
  const limiter::MeterShape before = shape_of(tokens("tpm", 5));
  EXPECT_FALSE(continues(before, shape_of(tokens("tpn", 5))));
  Limit limit = tokens("tpm", 5);
  limit.metric = Metric::cost;
  EXPECT_FALSE(continues(before, shape_of(limit)));
  limit = tokens("tpm", 5);
  limit.kind = LimitKind::gcra;
  EXPECT_FALSE(continues(before, shape_of(limit)));
  limit = tokens("tpm", 5);
  limit.period_ms = 60'001;
  EXPECT_FALSE(continues(before, shape_of(limit)));
  limit = tokens("tpm", 5);
  limit.count_cached = true;
  EXPECT_FALSE(continues(before, shape_of(limit)));
  Limit calendar = tokens("tpm", 5);
  calendar.kind = LimitKind::calendar;
  calendar.unit = api::CalendarUnit::day;
  calendar.time_zone = "UTC";
  Limit other_shard = calendar;
  other_shard.time_zone = "Europe/Berlin";
  EXPECT_TRUE(continues(shape_of(calendar), shape_of(calendar)));
  EXPECT_FALSE(continues(shape_of(calendar), shape_of(other_shard)));
}

class RulesOutMore : public testing::Test {
 protected:
  ~RulesOutMore() override {
    for (const CompiledQuota* const held : held_) classes_.drop_reference(held);
  }
  const CompiledQuota* quota(std::vector<Limit> limits) {
    held_.push_back(classes_.hold({.limits = std::move(limits), .profile = {}}));
    return held_.back();
  }
  bool rules_out_more(Limit before, Limit now) {
    return quota::rules_out_more(quota({std::move(before)}), *quota({std::move(now)}));
  }
  static Limit tokens(uint64_t amount, api::Ceiling ceiling = api::Ceiling::number) {
    return {.name = "tpm",
            .metric = Metric::tokens,
            .kind = LimitKind::fixed,
            .ceiling = ceiling,
            .amount = amount,
            .period_ms = 60'000,
            .time_zone = {}};
  }
  static Limit slots(uint64_t amount) {
    return {.name = "slots",
            .metric = Metric::concurrency,
            .kind = LimitKind::concurrency,
            .amount = amount,
            .time_zone = {}};
  }

  CompiledQuotas classes_;
  std::vector<const CompiledQuota*> held_;
};

TEST_F(RulesOutMore, a_smaller_amount_does_and_a_larger_one_does_not) {
  EXPECT_TRUE(rules_out_more(tokens(5), tokens(4)));
  EXPECT_FALSE(rules_out_more(tokens(5), tokens(5)));
  EXPECT_FALSE(rules_out_more(tokens(5), tokens(6)));
}

TEST_F(RulesOutMore, a_word_counts_as_the_amount_that_it_stands_for) {
  const Limit all = tokens(0, api::Ceiling::unlimited);
  const Limit none = tokens(0, api::Ceiling::block);
  EXPECT_FALSE(rules_out_more(tokens(5), all));
  EXPECT_TRUE(rules_out_more(all, tokens(5)));
  EXPECT_TRUE(rules_out_more(tokens(5), none));
  EXPECT_FALSE(rules_out_more(none, tokens(5)));
  EXPECT_FALSE(rules_out_more(none, none));
}

TEST_F(RulesOutMore, a_new_limit_does_unless_another_is_as_strict) {
  EXPECT_TRUE(quota::rules_out_more(nullptr, *quota({tokens(5)})));
  Limit input = tokens(5);
  input.metric = Metric::input_tokens;
  EXPECT_TRUE(rules_out_more(tokens(5), input));
  Limit cached = tokens(5);
  cached.count_cached = true;
  EXPECT_TRUE(rules_out_more(tokens(5), cached));
  Limit hourly = tokens(6);
  hourly.period_ms = 3'600'000;
  EXPECT_FALSE(quota::rules_out_more(quota({tokens(5)}), *quota({tokens(5), hourly})));
}

TEST_F(RulesOutMore, slots_do_only_when_there_are_none) {
  EXPECT_FALSE(rules_out_more(slots(5), slots(1)));
  EXPECT_TRUE(rules_out_more(slots(5), slots(0)));
  EXPECT_FALSE(quota::rules_out_more(nullptr, *quota({slots(1)})));
}

}  // namespace
}  // namespace sluice::quota
