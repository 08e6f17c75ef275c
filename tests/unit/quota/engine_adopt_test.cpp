// Goal:   a large book delays no call: it holds at once for every name that is asked for, and its
//         work on all subjects is done in slices, whatever happens between them.
// Method: books of a thousand names; the number of subjects that one call makes shows its work.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using api::QuotaSource;

constexpr int names_count = 1'000;
// The names that one call makes subjects of, with the work that it does at once by default.
constexpr uint32_t slice_names_max = 64;

policy::QuotaRules rules_of(const std::string& prefix, int count, uint64_t amount = 10) {
  policy::QuotaRules rules;
  for (int name = 0; name < count; ++name) {
    rules.rules.push_back({.subject = numbered(prefix, name), .quota = quota_of({tpm(amount)})});
  }
  return rules;
}

// A store with room for some subjects, and what it takes to adopt a book.
class Adopting {
 public:
  explicit Adopting(uint32_t subjects_max = 10'000)
      : driver({.subjects_max = subjects_max, .reservations_max = 100, .waiters_max = 10}) {}

  void adopt(policy::QuotaBook& book) { driver.store.adopt(book, driver.now()); }
  void run_due() { driver.store.run_due(driver.now()); }
  bool under_way() const { return driver.store.next_due_ns() == 0; }
  // In how many slices.
  int finish() {
    int slices = 0;
    for (; under_way() && slices < 10'000; ++slices) run_due();
    EXPECT_FALSE(under_way());
    return slices;
  }
  // Every batch checks whether one subject can be forgotten.
  uint32_t count_after_forgetting() {
    for (int batch = 0; batch < 3'000; ++batch) driver.check({"x"}, asking_tokens(1));
    return driver.store.subjects_count();
  }

  StoreDriver driver;
};

TEST(Adopting, a_large_book_takes_many_slices_of_a_bounded_size) {
  Adopting adopting;
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  uint32_t made = adopting.driver.store.subjects_count();
  EXPECT_LE(made, slice_names_max);
  int slices = 0;
  for (; adopting.under_way(); ++slices) {
    adopting.run_due();
    const uint32_t count = adopting.driver.store.subjects_count();
    ASSERT_LE(count - made, slice_names_max);
    made = count;
  }
  EXPECT_EQ(made, uint32_t{names_count});
  EXPECT_GE(slices, 10);
  adopting.driver.store.check_invariants(adopting.driver.now());
}

TEST(Adopting, checks_existing_subjects_in_slices_too) {
  Adopting adopting;
  policy::QuotaBook any(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({slots(1)})}}});
  adopting.adopt(any);
  constexpr int subjects = 3'000;
  for (int name = 0; name < subjects; ++name) adopting.driver.put(numbered("p", name), {tpm(1)});
  policy::QuotaBook book(rules_of("n", 1));
  adopting.adopt(book);
  EXPECT_TRUE(adopting.under_way());
  EXPECT_GE(adopting.finish(), 1);
  EXPECT_EQ(adopting.driver.row("n0").source, QuotaSource::file);
}

TEST(Adopting, a_subject_has_its_new_quota_before_its_slice) {
  Adopting adopting;
  policy::QuotaBook book(rules_of("n", names_count, 10));
  adopting.adopt(book);
  adopting.finish();
  const std::string last = numbered("n", names_count - 1);
  adopting.driver.record({last}, {.input_tokens = 10});
  policy::QuotaBook looser(rules_of("n", names_count, 15));
  adopting.adopt(looser);
  ASSERT_TRUE(adopting.under_way());
  EXPECT_EQ(adopting.driver.reserve({last}, asking_tokens(5)).code, QuotaCode::ok);
  EXPECT_EQ(adopting.driver.reserve({last}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
  adopting.finish();
  EXPECT_EQ(adopting.driver.limit(last, "tpm").amount, 15U);
  EXPECT_EQ(adopting.driver.used(last, "tpm"), 15U);
}

TEST(Adopting, a_subject_that_was_used_before_its_slice_stays_when_it_is_idle) {
  Adopting adopting;
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  ASSERT_TRUE(adopting.under_way());
  const std::string last = numbered("n", names_count - 1);
  adopting.driver.record({last}, {.input_tokens = 10});
  adopting.finish();
  EXPECT_EQ(adopting.driver.used(last, "tpm"), 10U);
  adopting.driver.advance_ms(60'000);
  EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count});
}

TEST(Adopting, a_waiter_is_served_though_its_name_comes_last) {
  Adopting adopting;
  policy::QuotaBook book(rules_of("n", names_count, 10));
  adopting.adopt(book);
  adopting.finish();
  const std::string last = numbered("n", names_count - 1);
  adopting.driver.record({last}, {.input_tokens = 10});
  adopting.driver.reserve({last}, waiting(asking_tokens(5), 7));
  policy::QuotaBook looser(rules_of("n", names_count, 15));
  adopting.adopt(looser);
  adopting.run_due();
  ASSERT_TRUE(adopting.under_way());
  EXPECT_EQ(adopting.driver.served(), std::vector<api::Ticket>{7});
}

TEST(Adopting, names_that_are_gone_may_be_forgotten_afterwards) {
  Adopting adopting;
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  adopting.finish();
  EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count});
  policy::QuotaBook fewer(rules_of("n", 10));
  adopting.adopt(fewer);
  adopting.finish();
  EXPECT_EQ(adopting.count_after_forgetting(), 10U);
}

TEST(Adopting, a_second_book_in_the_middle_begins_anew) {
  for (const int slices : {0, 1, 5, 12}) {
    Adopting adopting;
    policy::QuotaBook old(rules_of("old", names_count));
    adopting.adopt(old);
    adopting.finish();
    policy::QuotaBook passed_over(rules_of("n", names_count));
    adopting.adopt(passed_over);
    for (int slice = 0; slice < slices; ++slice) adopting.run_due();
    ASSERT_TRUE(adopting.under_way());
    policy::QuotaRules rules = rules_of("new", names_count / 2);
    rules.rules.push_back({.subject = "old5", .quota = quota_of({tpm(5)})});
    rules.rules.push_back({.subject = "n5", .quota = quota_of({tpm(5)})});
    policy::QuotaBook last(rules);
    adopting.adopt(last);
    EXPECT_EQ(adopting.driver.row("n6").source, QuotaSource::none);
    adopting.finish();
    EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count / 2 + 2}) << slices;
    for (const char* name : {"new0", "old5", "n5"}) {
      EXPECT_EQ(adopting.driver.row(name).source, QuotaSource::file) << name;
    }
  }
}

// The book before is gone: nothing refers to it.
TEST(Adopting, the_book_before_may_end_while_a_book_is_adopted) {
  Adopting adopting;
  auto book = std::make_unique<policy::QuotaBook>(rules_of("n", names_count, 1));
  for (uint64_t amount = 2; amount < 6; ++amount) {
    adopting.adopt(*book);
    adopting.run_due();
    auto next = std::make_unique<policy::QuotaBook>(rules_of("n", names_count, amount));
    adopting.adopt(*next);
    book = std::move(next);
    adopting.driver.record({"n5"}, {.input_tokens = 1});
  }
  adopting.finish();
  EXPECT_EQ(adopting.driver.limit("n5", "tpm").amount, 5U);
}

// ------------------------------------------------------------------------------- put and removed

TEST(Adopting, a_quota_put_and_removed_meanwhile_is_named_if_the_file_names_it) {
  for (const bool before_it_comes : {true, false}) {
    Adopting adopting;
    policy::QuotaBook book(rules_of("n", names_count));
    adopting.adopt(book);
    const std::string name = numbered("n", before_it_comes ? names_count - 1 : 0);
    for (const std::string& put : {name, std::string("other")}) {
      adopting.driver.put(put, {tpm(99)});
      adopting.driver.op(QuotaOp::remove, {}, {put});
    }
    ASSERT_TRUE(adopting.under_way());
    adopting.finish();
    EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count});
    EXPECT_EQ(adopting.driver.row(name).source, QuotaSource::file);
  }
}

TEST(Adopting, a_put_quota_stays_through_all_of_it) {
  Adopting adopting;
  adopting.driver.put("n5", {tpm(99)});
  adopting.driver.put("other", {tpm(99)});
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  adopting.finish();
  EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count + 1});
  EXPECT_EQ(adopting.driver.row("n5").source, QuotaSource::run_time);
  EXPECT_EQ(adopting.driver.row("other").source, QuotaSource::run_time);
}

// A profile's name has a pattern's quota when one matches; it is there and stays for its name.
TEST(Adopting, a_name_of_a_profile_that_a_pattern_hides_is_named) {
  Adopting adopting;
  policy::QuotaBook book(
      {.rules = {{.subject = "^gpt", .is_regex = true, .quota = quota_of({tpm(30)})},
                 {.subject = "gpt-4o",
                  .is_regex = false,
                  .quota = quota_of({tpm(40)}),
                  .source = QuotaSource::profile}}});
  adopting.adopt(book);
  EXPECT_EQ(adopting.driver.store.subjects_count(), 1U);
  EXPECT_EQ(adopting.driver.limit("gpt-4o", "tpm").amount, 30U);
  adopting.driver.put("gpt-4o", {tpm(99)});
  adopting.driver.op(QuotaOp::remove, {}, {"gpt-4o"});
  EXPECT_EQ(adopting.count_after_forgetting(), 1U);
}

// ---------------------------------------------------------------------------------------- no room

TEST(Adopting, ends_though_not_all_names_find_room) {
  Adopting adopting(100);
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  EXPECT_LE(adopting.finish(), 40);
  EXPECT_EQ(adopting.driver.store.subjects_count(), 100U);
  EXPECT_EQ(adopting.driver.record({"n500"}, {.input_tokens = 1}).code, QuotaCode::subjects_full);
  EXPECT_EQ(adopting.driver.record({"n5"}, {.input_tokens = 1}).code, QuotaCode::ok);
}

TEST(Adopting, a_name_that_found_no_room_has_its_quota_when_it_is_asked_for_later) {
  Adopting adopting(4);
  policy::QuotaBook any(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({tpm(10)})}}});
  adopting.adopt(any);
  for (int name = 0; name < 4; ++name) {
    adopting.driver.record({numbered("s", name)}, {.input_tokens = 10});
  }
  policy::QuotaRules rules = rules_of("n", 3);
  rules.rules.push_back({.subject = "^s", .is_regex = true, .quota = quota_of({tpm(10)})});
  policy::QuotaBook book(rules);
  adopting.adopt(book);
  adopting.finish();
  EXPECT_EQ(adopting.driver.record({"n0"}, {.input_tokens = 1}).code, QuotaCode::subjects_full);
  adopting.driver.advance_ms(60'000);
  EXPECT_EQ(adopting.driver.record({"n0"}, {.input_tokens = 1}).code, QuotaCode::ok);
  EXPECT_EQ(adopting.driver.row("n0").source, QuotaSource::file);
}

TEST(Adopting, names_use_room_freed_after_the_search_ended) {
  Adopting adopting(4);
  policy::QuotaBook any(
      {.rules = {{.subject = ".", .is_regex = true, .quota = quota_of({tpm(10)})}}});
  adopting.adopt(any);
  adopting.finish();
  for (int name = 0; name < 4; ++name) {
    adopting.driver.record({numbered("s", name)}, {.input_tokens = 10});
  }
  policy::QuotaRules rules = rules_of("n", 3);
  rules.rules.push_back({.subject = "^s", .is_regex = true, .quota = quota_of({tpm(10)})});
  policy::QuotaBook book(rules);
  adopting.adopt(book);  // has searched for room once, for the first name
  ASSERT_TRUE(adopting.under_way());
  adopting.driver.ns += 120'000 * base::ns_per_ms;  // they are idle
  EXPECT_EQ(adopting.count_after_forgetting(), 0U);
  adopting.finish();
  EXPECT_GE(adopting.driver.store.subjects_count(), 1U);
}

TEST(Adopting, names_take_the_places_of_those_that_are_gone) {
  Adopting adopting(names_count);
  policy::QuotaBook book(rules_of("n", names_count));
  adopting.adopt(book);
  adopting.finish();
  policy::QuotaBook others(rules_of("m", names_count));
  adopting.adopt(others);
  adopting.finish();
  EXPECT_EQ(adopting.count_after_forgetting(), uint32_t{names_count});
  for (int name = 0; name < names_count; name += 111) {
    EXPECT_EQ(adopting.driver.row(numbered("m", name)).source, QuotaSource::file);
    EXPECT_EQ(adopting.driver.row(numbered("n", name)).source, QuotaSource::none);
  }
}

}  // namespace
}  // namespace sluice::quota
