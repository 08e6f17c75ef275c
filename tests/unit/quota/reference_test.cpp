// Goal: what go-ratelimit decides is decided here too, except where
//       docs/adr/0012-where-go-ratelimit-is-not-followed.md says otherwise.
// Method: its tables and examples as cases, with its limits: requests and tokens per minute, and
//         requests per day. Each row of the document has a test of its name below, and the other
//         way round.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <type_traits>

#include "tests/support/source_folder.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::Ceiling;
using api::LimitKind;
using api::Metric;
using api::Quota;
using api::QuotaAnswer;
using api::QuotaCode;
using api::QuotaOp;
using api::Ticket;

// Zero is no limit, as in the reference.
struct ModelQuota {
  uint64_t rpm = 0;
  uint64_t tpm = 0;
  uint64_t rpd = 0;
};

constexpr int64_t sub_window_ms = 4'000;  // how much later than in the reference a minute may end

class Reference : public testing::Test {
 protected:
  void set_quota(const std::string& model, const ModelQuota& quota) {
    const auto limit = [](const char* name, Metric metric, uint64_t amount, LimitKind kind,
                          int64_t period_ms) {
      return with(limit_of(name, metric, amount, kind, period_ms),
                  amount == 0 ? Ceiling::unlimited : Ceiling::number);
    };
    driver_.put(model,
                {limit("rpm", Metric::requests, quota.rpm, LimitKind::sliding, 60'000),
                 limit("tpm", Metric::tokens, quota.tpm, LimitKind::sliding, 60'000),
                 limit("rpd", Metric::requests, quota.rpd, LimitKind::anchored_day, 86'400'000)});
  }
  QuotaAnswer decide(const std::string& model, uint64_t tokens) {
    return driver_.check({model}, asking_tokens(tokens));
  }
  bool can_send(const std::string& model, uint64_t tokens) {
    return api::admits(decide(model, tokens).code);
  }
  void record_usage(const std::string& model, uint64_t prompt, uint64_t output) {
    driver_.ask(
        {.op = QuotaOp::record, .amounts = {.input_tokens = prompt, .output_tokens = output}},
        {model});
  }
  void record(const std::string& model, int calls, uint64_t tokens_each = 0) {
    for (int call = 0; call < calls; ++call) record_usage(model, tokens_each, 0);
  }
  struct Stats {
    uint64_t rpm = 0;
    uint64_t tpm = 0;
    uint64_t rpd = 0;
    bool operator==(const Stats&) const = default;
  };
  Stats stats(const std::string& model) {
    return {driver_.used(model, "rpm"), driver_.used(model, "tpm"), driver_.used(model, "rpd")};
  }
  // The reference's time, or at most a sub-window later.
  static void expect_retry(const QuotaAnswer& answer, int64_t reference_ms) {
    EXPECT_GE(answer.retry_after_ms, reference_ms);
    EXPECT_LE(answer.retry_after_ms, reference_ms + sub_window_ms);
  }

  StoreDriver driver_;
};

// ------------------------------------------------------------------------- tables of decisions

struct Case {
  const char* name;
  ModelQuota quota;
  int requests;     // made a second ago
  uint64_t tokens;  // of all of them
  uint64_t estimate;
  QuotaCode expected;
};

class Decides : public Reference, public testing::WithParamInterface<Case> {};

TEST_P(Decides, as_the_reference) {
  const Case& its = GetParam();
  set_quota("m", its.quota);
  if (its.requests > 0) record_usage("m", its.tokens, 0);
  record("m", its.requests - 1);
  driver_.advance_ms(1'000);
  EXPECT_EQ(decide("m", its.estimate).code, its.expected);
  EXPECT_EQ(driver_.reserve({"m"}, asking_tokens(its.estimate)).code, its.expected);
}

constexpr uint64_t most = limits::amount_max;

INSTANTIATE_TEST_SUITE_P(
    Reference, Decides,
    testing::Values(
        Case{"fresh", {10, 1'000, 100}, 0, 0, 50, QuotaCode::ok},
        Case{"nothing_asked_at_full_tokens", {0, 100, 0}, 1, 100, 0, QuotaCode::ok},
        Case{"nothing_asked_above_full_tokens", {0, 100, 0}, 1, 101, 0, QuotaCode::tpm_exceeded},
        Case{"tokens_to_the_limit", {0, 100, 0}, 1, 90, 10, QuotaCode::ok},
        Case{"tokens_one_above", {0, 100, 0}, 1, 90, 11, QuotaCode::tpm_exceeded},
        Case{"tokens_ten_above", {0, 100, 0}, 1, 90, 20, QuotaCode::tpm_exceeded},
        Case{"requests_one_below", {3, 0, 0}, 2, 0, 1, QuotaCode::ok},
        Case{"requests_at", {3, 0, 0}, 3, 0, 1, QuotaCode::rpm_exceeded},
        Case{"requests_above", {3, 0, 0}, 4, 0, 1, QuotaCode::rpm_exceeded},
        Case{"day_one_below", {0, 0, 3}, 2, 0, 1, QuotaCode::ok},
        Case{"day_at", {0, 0, 3}, 3, 0, 1, QuotaCode::rpd_exceeded},
        Case{"day_above", {0, 0, 3}, 4, 0, 1, QuotaCode::rpd_exceeded},
        Case{"day_without_limit", {1'000, 0, 0}, 100, 0, 1, QuotaCode::ok},
        Case{"only_requests_are_limited", {2, 0, 0}, 1, 0, 999'999, QuotaCode::ok},
        Case{"only_tokens_are_limited", {0, 100, 0}, 50, 0, 100, QuotaCode::ok},
        Case{"all_unlimited", {0, 0, 0}, 1'000, 0, 999'999, QuotaCode::unlimited},
        Case{"day_comes_before_requests", {1, 1, 1}, 1, 1, 1, QuotaCode::rpd_exceeded},
        Case{"requests_come_before_tokens", {1, 1, 9}, 1, 1, 1, QuotaCode::rpm_exceeded},
        Case{"greatest_limit", {0, most, 0}, 1, most - 1, 1, QuotaCode::ok},
        Case{"greatest_usage", {0, most, 0}, 1, most, 1, QuotaCode::tpm_exceeded},
        Case{"sums_stop_at_the_greatest", {0, 100, 0}, 1, most, 1, QuotaCode::tpm_exceeded}),
    [](const auto& of) { return std::string(of.param.name); });

TEST_F(Reference, unknown_models_are_allowed) {
  EXPECT_EQ(decide("unknown", 999'999).code, QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(decide("a name/with spaces", 1).code, QuotaCode::unknown_subject_allowed);
}

TEST_F(Reference, names_with_spaces_and_slashes_are_ordinary) {
  set_quota("models/a b", {1, 0, 0});
  record("models/a b", 1);
  EXPECT_EQ(decide("models/a b", 1).code, QuotaCode::rpm_exceeded);
}

TEST_F(Reference, checks_at_the_same_time_all_see_the_same_capacity) {
  set_quota("m", {1, 100, 1});
  for (int caller = 0; caller < 32; ++caller) EXPECT_TRUE(can_send("m", 100));
  EXPECT_EQ(stats("m"), Stats{});
}

TEST_F(Reference, a_full_model_does_not_affect_another) {
  set_quota("a", {1, 0, 0});
  set_quota("b", {1, 0, 0});
  record("a", 1);
  EXPECT_FALSE(can_send("a", 1));
  EXPECT_TRUE(can_send("b", 1));
}

// -------------------------------------------------------------------------------- retry and time

TEST_F(Reference, retry_of_a_day_is_an_hour_after_23) {
  set_quota("m", {0, 0, 2});
  record("m", 2);
  driver_.advance_ms(23 * 3'600'000LL);
  const QuotaAnswer answer = decide("m", 1);
  EXPECT_EQ(answer.code, QuotaCode::rpd_exceeded);
  EXPECT_EQ(answer.retry_after_ms, 3'600'000);
  EXPECT_EQ(stats("m").rpd, 2U);
}

TEST_F(Reference, retry_of_requests_is_50_seconds_after_10) {
  set_quota("m", {1, 0, 0});
  record("m", 1);
  driver_.advance_ms(10'000);
  expect_retry(decide("m", 1), 50'000);
}

TEST_F(Reference, retry_of_tokens_is_when_enough_of_them_leave) {
  set_quota("m", {0, 100, 0});
  record_usage("m", 70, 0);
  driver_.advance_ms(40'000);
  record_usage("m", 20, 0);
  driver_.advance_ms(10'000);
  expect_retry(decide("m", 20), 10'000);
  expect_retry(decide("m", 90), 50'000);
}

TEST_F(Reference, retry_behind_the_greatest_usage_is_a_minute) {
  set_quota("m", {0, 100, 0});
  record_usage("m", most, most);
  expect_retry(decide("m", 1), 60'000);
  EXPECT_EQ(stats("m").tpm, most);
}

TEST_F(Reference, waiting_for_retry_is_enough) {
  set_quota("m", {2, 100, 0});
  record_usage("m", 60, 0);
  driver_.advance_ms(1'234);
  record_usage("m", 40, 0);
  const int64_t retry_after_ms = decide("m", 50).retry_after_ms;
  driver_.advance_ms(retry_after_ms);
  EXPECT_TRUE(can_send("m", 50));
}

TEST_F(Reference, an_event_of_59_seconds_counts) {
  set_quota("m", {1, 0, 0});
  record("m", 1);
  driver_.advance_ms(59'999);
  EXPECT_FALSE(can_send("m", 1));
}

TEST_F(Reference, only_what_is_recent_is_kept) {
  set_quota("m", {10, 1'000, 100});
  record("m", 3, 500);
  driver_.advance_ms(120'000);
  record("m", 2, 100);
  EXPECT_EQ(stats("m"), (Stats{2, 200, 5}));
}

TEST_F(Reference, a_day_is_kept_for_23_hours_and_gone_after_25) {
  set_quota("m", {0, 0, 5});
  record("m", 5);
  driver_.advance_ms(23 * 3'600'000LL);
  EXPECT_FALSE(can_send("m", 1));
  driver_.advance_ms(2 * 3'600'000LL);
  EXPECT_TRUE(can_send("m", 1));
  EXPECT_EQ(stats("m").rpd, 0U);
}

// --------------------------------------------------------------------- recording, stats and reset

TEST_F(Reference, usage_is_the_sum_of_prompt_and_output) {
  set_quota("m", {10, 1'000, 100});
  record_usage("m", 100, 50);
  EXPECT_EQ(stats("m"), (Stats{1, 150, 1}));
  record_usage("m", 0, 0);
  record_usage("m", 40, 20);
  EXPECT_EQ(stats("m"), (Stats{3, 210, 3}));
}

TEST_F(Reference, a_hundred_records_are_a_hundred) {
  set_quota("m", {10, 1'000, 10});
  record("m", 100, 2);
  EXPECT_EQ(stats("m"), (Stats{100, 200, 100}));
}

TEST_F(Reference, requests_stop_at_the_greatest_number) {
  set_quota("m", {0, 0, 5});
  driver_.record({"m"}, {.requests = most});
  record("m", 1);
  EXPECT_EQ(stats("m").rpd, most);
}

TEST_F(Reference, stats_of_a_model_with_a_quota_alone_are_its_limits) {
  set_quota("m", {10, 1'000, 100});
  EXPECT_EQ(stats("m"), Stats{});
  EXPECT_EQ(driver_.limit("m", "tpm").amount, 1'000U);
}

TEST_F(Reference, stats_of_an_unknown_model_are_empty_and_create_none) {
  EXPECT_EQ(stats("unknown"), Stats{});
  EXPECT_EQ(driver_.row("unknown").limits_count, 0U);
  EXPECT_EQ(driver_.store.subjects_count(), 0U);
}

TEST_F(Reference, reset_is_of_one_model) {
  set_quota("a", {10, 0, 0});
  set_quota("b", {10, 0, 0});
  record("a", 3);
  record("b", 3);
  driver_.reset("a");
  driver_.reset("unknown");
  EXPECT_EQ(stats("a").rpm, 0U);
  EXPECT_EQ(stats("b").rpm, 3U);
}

// -------------------------------------------------------------------------------------- set_quota

TEST_F(Reference, a_quota_holds_at_once_in_both_directions) {
  set_quota("m", {10, 0, 0});
  record("m", 5);
  set_quota("m", {5, 0, 0});
  EXPECT_FALSE(can_send("m", 1));
  set_quota("m", {6, 0, 0});
  EXPECT_TRUE(can_send("m", 1));
  set_quota("m", {0, 0, 0});
  EXPECT_EQ(decide("m", 1).code, QuotaCode::unlimited);
}

TEST_F(Reference, a_quota_replaces_the_whole_one) {
  set_quota("m", {1, 100, 5});
  set_quota("m", {0, 50, 0});
  record("m", 10);
  EXPECT_TRUE(can_send("m", 50));
  EXPECT_EQ(decide("m", 51).code, QuotaCode::exceeds_limit);
}

// --------------------------------------------------------------------------------
// wait_for_capacity

TEST_F(Reference, a_call_that_may_wait_passes_at_once_where_there_is_capacity) {
  set_quota("m", {1, 100, 0});
  EXPECT_EQ(driver_.reserve({"m"}, waiting(asking_tokens(100), 1, 1)).code, QuotaCode::ok);
  EXPECT_EQ(driver_.reserve({"unknown"}, waiting(asking_tokens(100), 2, 1)).code,
            QuotaCode::unknown_subject_allowed);
}

TEST_F(Reference, capacity_at_the_very_deadline_comes_in_time) {
  driver_.put("m", {rpm(1)});
  record("m", 1);
  driver_.reserve({"m"}, waiting(asking_tokens(1), 1, 60'000));
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), std::vector<Ticket>{1});
}

// --------------------------------------------------------------------- what is done otherwise here

using NotFollowed = Reference;

TEST_F(NotFollowed, amounts_are_never_negative) {
  static_assert(std::is_unsigned_v<decltype(api::Amounts::input_tokens)>);
  static_assert(std::is_unsigned_v<decltype(api::Limit::amount)>);
  for (uint32_t code = 0; code < api::quota_codes_count; ++code) {
    EXPECT_NE(api::code_name(static_cast<QuotaCode>(code)), "invalid_tokens");
  }
}

TEST_F(NotFollowed, zero_is_a_number) {
  driver_.put("m", {limit_of("rpm", Metric::requests, 0, LimitKind::sliding)});
  EXPECT_EQ(decide("m", 0).code, QuotaCode::exceeds_limit);
}

TEST_F(NotFollowed, what_never_fits_is_told_apart) {
  set_quota("m", {0, 100, 0});
  const QuotaAnswer answer = decide("m", 101);
  EXPECT_EQ(answer.code, QuotaCode::exceeds_limit);
  EXPECT_EQ(answer.retry_after_ms, api::retry_never);
  EXPECT_FALSE(api::may_retry(answer.code));
}

TEST_F(NotFollowed, a_minute_may_end_a_sub_window_late) {
  set_quota("m", {1, 0, 0});
  driver_.advance_ms(1'000);
  record("m", 1);
  driver_.advance_ms(60'000);
  EXPECT_FALSE(can_send("m", 1));
  driver_.advance_ms(sub_window_ms);
  EXPECT_TRUE(can_send("m", 1));
}

TEST_F(NotFollowed, retry_is_of_all_limits) {
  set_quota("m", {1, 0, 1});
  record("m", 1);
  EXPECT_EQ(decide("m", 1).code, QuotaCode::rpd_exceeded);
  EXPECT_EQ(decide("m", 1).retry_after_ms, 86'400'000);
  set_quota("m", {1, 10, 0});
  driver_.advance_ms(30'000);
  record_usage("m", 10, 0);
  const QuotaAnswer answer = decide("m", 1);
  EXPECT_EQ(answer.code, QuotaCode::rpm_exceeded);
  driver_.advance_ms(answer.retry_after_ms);
  EXPECT_TRUE(can_send("m", 1));
}

TEST_F(NotFollowed, retry_is_right_above_the_limit) {
  set_quota("m", {1, 0, 0});
  record("m", 1);
  driver_.advance_ms(20'000);
  record("m", 1);
  const QuotaAnswer answer = decide("m", 1);
  expect_retry(answer, 60'000);
  driver_.advance_ms(answer.retry_after_ms);
  EXPECT_TRUE(can_send("m", 1));
}

TEST_F(NotFollowed, callers_at_once_do_not_overshoot) {
  set_quota("m", {1, 0, 0});
  int admitted = 0;
  for (int caller = 0; caller < 32; ++caller) {
    admitted += api::admits(driver_.reserve({"m"}, asking_tokens(1)).code) ? 1 : 0;
  }
  EXPECT_EQ(admitted, 1);
}

TEST_F(NotFollowed, asking_creates_nothing) {
  policy::QuotaBook book(
      {.rules = {{.subject = "^gpt", .is_regex = true, .quota = quota_of({rpm(5)})}}});
  driver_.store.adopt(book, driver_.now());
  decide("gpt-4o", 1);
  decide("unknown", 1);
  record("unknown", 3);
  EXPECT_EQ(driver_.store.subjects_count(), 0U);
  EXPECT_EQ(stats("unknown"), Stats{});
}

TEST_F(NotFollowed, the_empty_name_is_no_name) {
  set_quota("m", {10, 0, 0});
  record("m", 3);
  EXPECT_EQ(decide("", 1).code, QuotaCode::invalid_subject);
  EXPECT_EQ(driver_.reset("").code, QuotaCode::invalid_subject);
  EXPECT_EQ(stats("m").rpm, 3U);
  driver_.ask({.op = QuotaOp::reset_all});
  EXPECT_EQ(stats("m").rpm, 0U);
}

TEST_F(NotFollowed, a_reset_keeps_what_is_open) {
  set_quota("m", {10, 100, 0});
  record("m", 3, 10);
  driver_.reserve({"m"}, asking_tokens(5));
  driver_.reset("m");
  EXPECT_EQ(stats("m"), (Stats{1, 5, 1}));
}

TEST_F(NotFollowed, a_reset_begins_no_other_day) {
  set_quota("m", {0, 0, 5});
  record("m", 5);
  driver_.advance_ms(10 * 3'600'000LL);
  driver_.reset("m");
  record("m", 5);
  EXPECT_EQ(decide("m", 1).retry_after_ms, 14 * 3'600'000LL);
}

TEST_F(NotFollowed, waiters_hold_what_they_waited_for) {
  driver_.put("m", {rpm(1)});
  record("m", 1);
  for (Ticket ticket = 0; ticket < 5; ++ticket) {
    driver_.reserve({"m"}, waiting(asking_tokens(0), ticket));
  }
  driver_.advance_ms(60'000);
  EXPECT_EQ(driver_.served(), std::vector<Ticket>{0});
  EXPECT_EQ(driver_.used("m", "rpm"), 1U);
  EXPECT_EQ(driver_.settle(driver_.granted, 0).code, QuotaCode::ok);
}

TEST_F(NotFollowed, waiting_ends_as_soon_as_it_is_hopeless) {
  set_quota("m", {1, 100, 0});
  record("m", 1);
  EXPECT_EQ(driver_.reserve({"m"}, waiting(asking_tokens(101), 1)).code, QuotaCode::exceeds_limit);
  EXPECT_EQ(driver_.reserve({"m"}, waiting(asking_tokens(1), 2, 50'000)).code,
            QuotaCode::deadline_unmeetable);
}

TEST_F(NotFollowed, reset_and_new_limits_wake) {
  set_quota("m", {1, 0, 1});
  record("m", 1);
  driver_.reserve({"m"}, waiting(asking_tokens(1), 1));
  driver_.reserve({"m"}, waiting(asking_tokens(1), 2));
  driver_.reset("m");
  EXPECT_EQ(driver_.served(), std::vector<Ticket>{1});
  set_quota("m", {2, 0, 2});
  EXPECT_EQ(driver_.served(), std::vector<Ticket>{2});
}

TEST_F(NotFollowed, times_are_the_servers) {
  set_quota("m", {1, 0, 0});
  record("m", 1);
  driver_.ns -= 600 * base::ns_per_s;  // its time stands still until the clock has caught up
  EXPECT_FALSE(can_send("m", 1));
  driver_.advance_ms(600'000 + 59'999);
  EXPECT_FALSE(can_send("m", 1));
  driver_.advance_ms(1 + sub_window_ms);
  EXPECT_TRUE(can_send("m", 1));
}

TEST_F(NotFollowed, pages_are_not_sorted) {
  for (const char* name : {"b", "c", "a"}) set_quota(name, {1, 0, 0});
  driver_.ask({.op = QuotaOp::page});
  Names names;
  for (const api::SubjectRow& row : driver_.batch.rows) {
    names.emplace_back(driver_.batch.name_of(row));
  }
  EXPECT_EQ(names, (Names{"b", "c", "a"}));
}

TEST_F(NotFollowed, providers_come_with_the_file) {
  set_quota("mine", {1, 0, 0});
  const auto profile = [](const char* model) {
    return policy::QuotaRule{
        .subject = model, .quota = quota_of({rpm(5)}), .source = api::QuotaSource::profile};
  };
  policy::QuotaBook book({.rules = {profile("mine"), profile("theirs")}});
  driver_.store.adopt(book, driver_.now());
  EXPECT_EQ(driver_.limit("mine", "rpm").amount, 1U);  // and is not loosened
  EXPECT_EQ(driver_.limit("theirs", "rpm").amount, 5U);
  EXPECT_EQ(driver_.row("theirs").source, api::QuotaSource::profile);
  policy::QuotaBook without{{}};
  driver_.store.adopt(without, driver_.now());
  EXPECT_EQ(driver_.row("theirs").source, api::QuotaSource::none);
  EXPECT_EQ(driver_.limit("mine", "rpm").amount, 1U);
}

TEST_F(NotFollowed, denials_are_counted_by_code) {
  for (const char* name : {"one", "another"}) {
    driver_.put(name, {limit_of(name, Metric::requests, 1, LimitKind::sliding, 60'000)});
    record(name, 1);
    EXPECT_EQ(driver_.reserve({name}, asking_tokens(1)).code, QuotaCode::rpm_exceeded);
  }
  const auto& reserves = driver_.store.statistics().reserves;
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(reserves)>> ==
                api::quota_codes_count);
  EXPECT_EQ(reserves[static_cast<size_t>(QuotaCode::rpm_exceeded)], 2U);
}

// The first column of the document's table.
std::set<std::string> rows_of_the_document() {
  std::ifstream file(test::source_folder() / "docs" / "adr" /
                     "0012-where-go-ratelimit-is-not-followed.md");
  std::set<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) rows.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return rows;
}

TEST(ReferenceDocument, has_a_row_for_each_difference_that_is_tested) {
  std::set<std::string> tested;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int at = 0; at < all.total_test_suite_count(); ++at) {
    const testing::TestSuite& suite = *all.GetTestSuite(at);
    if (suite.name() != std::string("NotFollowed")) continue;
    for (int test = 0; test < suite.total_test_count(); ++test) {
      tested.insert(suite.GetTestInfo(test)->name());
    }
  }
  EXPECT_FALSE(tested.empty());
  EXPECT_EQ(tested, rows_of_the_document());
}

}  // namespace
}  // namespace sluice::quota
