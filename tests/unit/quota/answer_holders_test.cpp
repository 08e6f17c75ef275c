// Goal:   a list of holders has every open reservation once, with its owner, and no other; a call
//         checks a bounded number of places.
// Method: cases by hand; pages of all sizes while reservations come and go.
#include "quota/answer_holders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::HolderRow;
using api::QuotaAnswer;
using api::QuotaCall;
using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

QuotaCall owned(QuotaCall call, std::string_view owner) {
  call.owner = owner;
  return call;
}

class Holders : public testing::Test {
 protected:
  Holders() { driver_.put("m", {slots(900)}); }

  uint64_t reserve(std::string_view owner = {}, const Names& names = {"m"}) {
    return driver_.reserve(names, owned(asking_tokens(1), owner)).reservation;
  }
  QuotaAnswer page(const Names& names = {}, uint64_t cursor = 0, uint32_t limit = 0) {
    return driver_.ask({.op = QuotaOp::holders, .limit = limit, .cursor = cursor}, names);
  }
  // Those of the first page.
  std::vector<HolderRow> rows(const Names& names = {}) {
    const QuotaAnswer answer = page(names);
    EXPECT_EQ(answer.code, QuotaCode::ok);
    EXPECT_EQ(answer.next_cursor, 0U);
    EXPECT_EQ(driver_.batch.holders.size(), answer.rows_count);
    return driver_.batch.holders;
  }
  std::set<uint64_t> ids(const Names& names = {}) {
    std::set<uint64_t> reported;
    for (const HolderRow& row : rows(names)) reported.insert(row.reservation);
    return reported;
  }
  HolderRow shown(uint64_t reservation) {
    const QuotaAnswer answer = driver_.ask({.op = QuotaOp::show, .reservation = reservation});
    if (answer.first_holder >= driver_.batch.holders.size()) return {};
    return driver_.batch.holders[answer.first_holder];
  }
  std::string owner_of(const HolderRow& row) const {
    return std::string(driver_.batch.text_of(row.owner));
  }
  Names subjects_of(const HolderRow& row) const {
    Names names;
    for (uint8_t at = 0; at < row.subjects_count; ++at) {
      names.emplace_back(driver_.batch.text_of(row.subjects[at]));
    }
    return names;
  }

  StoreDriver driver_;
};

TEST_F(Holders, have_every_field) {
  driver_.put("{t}a", {tpm(100)});
  driver_.put("{t}b", {slots(1)});
  const api::Amounts amounts{.requests = 2, .input_tokens = 20, .output_tokens = 3, .cost = 7};
  QuotaCall call = owned(asking(amounts), "job 7");
  call.binding = 5;
  const uint64_t id = driver_.reserve({"{t}a", "{t}unknown", "{t}b"}, call).reservation;
  driver_.advance_ms(1'500);
  ASSERT_EQ(rows().size(), 1U);
  const HolderRow row = rows()[0];
  EXPECT_EQ(row.reservation, id);
  EXPECT_EQ(owner_of(row), "job 7");
  EXPECT_EQ(subjects_of(row), (Names{"{t}a", "{t}b"}));
  EXPECT_EQ(row.subjects_left_out, 0U);
  EXPECT_EQ(row.amounts, amounts);
  EXPECT_EQ(row.admission, QuotaCode::ok);
  EXPECT_EQ(row.state, ReservationState::open);
  EXPECT_EQ(row.held_ms, 1'500);
  EXPECT_EQ(row.lifetime_ms, 58'500U);
  EXPECT_TRUE(row.connection_bound);
}

TEST_F(Holders, may_have_no_owner_and_no_known_subject) {
  const uint64_t plain = reserve();
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_EQ(owner_of(rows()[0]), "");
  EXPECT_FALSE(rows()[0].connection_bound);
  driver_.cancel(plain);
  reserve("someone", {"unknown model"});
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_EQ(rows()[0].admission, QuotaCode::unknown_subject_allowed);
  EXPECT_EQ(rows()[0].subjects_count, 0U);
  EXPECT_EQ(owner_of(rows()[0]), "someone");
}

TEST_F(Holders, are_none_without_open_reservations) {
  EXPECT_EQ(ids(), std::set<uint64_t>{});
  EXPECT_EQ(ids({"m"}), std::set<uint64_t>{});
  EXPECT_EQ(ids({"unknown model"}), std::set<uint64_t>{});
  EXPECT_EQ(page({""}).code, QuotaCode::invalid_subject);
  EXPECT_EQ(page({std::string(1'025, 'x')}).code, QuotaCode::invalid_subject);
}

TEST_F(Holders, of_one_subject_are_those_that_name_it) {
  for (const char* name : {"{t}a", "{t}b", "other"}) driver_.put(name, {slots(9)});
  const uint64_t first = reserve("1", {"{t}a"});
  const uint64_t both = reserve("2", {"{t}b", "{t}a"});
  const uint64_t second = reserve("3", {"{t}b"});
  const uint64_t other = reserve("4", {"other"});
  EXPECT_EQ(ids({"{t}a"}), (std::set{first, both}));
  EXPECT_EQ(ids({"{t}b"}), (std::set{second, both}));
  EXPECT_EQ(ids({"other"}), std::set{other});
  EXPECT_EQ(ids(), (std::set{first, both, second, other}));
  driver_.op(QuotaOp::remove, {}, {"{t}a"});  // they hold it all the same
  EXPECT_EQ(ids({"{t}a"}), (std::set{first, both}));
}

TEST_F(Holders, that_have_ended_are_left_out) {
  const uint64_t open = reserve("open");
  driver_.settle(reserve("settled"), 1);
  driver_.cancel(reserve("cancelled"));
  // These stay in their places when they have ended.
  driver_.settle(
      driver_.reserve({"m"}, with_id(owned(asking_tokens(1), "by id"), "mine")).reservation, 1);
  QuotaCall brief = owned(asking_tokens(1), "expired");
  brief.lifetime_ms = 100;
  driver_.reserve({"m"}, brief);
  driver_.advance_ms(100);
  EXPECT_EQ(ids(), std::set{open});
  EXPECT_EQ(ids({"m"}), std::set{open});
}

TEST_F(Holders, that_waited_hold_it_since_they_were_served) {
  driver_.put("m", {slots(1)});
  const uint64_t first = reserve("first");
  driver_.reserve({"m"}, waiting(owned(asking_tokens(1), "second"), 7));
  driver_.advance_ms(1'000);
  EXPECT_EQ(ids(), std::set{first}) << "a waiter holds nothing";
  driver_.settle(first, 1);
  ASSERT_EQ(driver_.served(), std::vector<api::Ticket>{7});
  driver_.advance_ms(250);
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_EQ(rows()[0].reservation, driver_.granted);
  EXPECT_EQ(owner_of(rows()[0]), "second");
  EXPECT_EQ(rows()[0].held_ms, 250);
}

TEST_F(Holders, are_shown_by_their_ids_also_when_they_have_ended) {
  const uint64_t id = reserve("job 7");
  driver_.advance_ms(40);
  HolderRow row = shown(id);
  EXPECT_EQ(row.reservation, id);
  EXPECT_EQ(owner_of(row), "job 7");
  EXPECT_EQ(subjects_of(row), Names{"m"});
  EXPECT_EQ(row.held_ms, 40);
  EXPECT_EQ(driver_.batch.rows.size(), 1U) << "its subject, as ever";
  driver_.settle(id, 5);
  row = shown(id);
  EXPECT_EQ(row.state, ReservationState::settled);
  EXPECT_EQ(row.amounts.input_tokens, 5U);
  EXPECT_EQ(owner_of(row), "") << "forgotten";
  EXPECT_EQ(row.subjects_count, 0U);
  EXPECT_EQ(row.held_ms, 0);
  EXPECT_EQ(driver_.ask({.op = QuotaOp::show, .reservation = id + 1}).code,
            QuotaCode::unknown_reservation);
  EXPECT_TRUE(driver_.batch.holders.empty());
}

// An operator may ask which holder let it expire.
TEST_F(Holders, that_expired_are_shown_with_their_owners) {
  const uint64_t id = reserve("job 7");
  driver_.advance_ms(60'000);
  const HolderRow row = shown(id);
  EXPECT_EQ(row.state, ReservationState::expired);
  EXPECT_EQ(owner_of(row), "job 7");
  EXPECT_EQ(row.lifetime_ms, 0U);
  EXPECT_EQ(row.held_ms, 0);
}

// ---------------------------------------------------------------------------------------- pages

TEST_F(Holders, are_listed_once_whatever_the_size_of_pages) {
  std::set<uint64_t> all;
  for (int number = 0; number < 23; ++number) all.insert(reserve(numbered("o", number)));
  for (const uint32_t rows_max : {1U, 2U, 7U, 22U, 23U, 24U, 256U, 1'000U}) {
    std::multiset<uint64_t> reported;
    uint64_t cursor = 0;
    do {
      const QuotaAnswer answer = page({}, cursor, rows_max);
      EXPECT_LE(answer.rows_count, rows_max);
      EXPECT_GT(answer.rows_count, 0U) << rows_max;
      for (const HolderRow& row : driver_.batch.holders) reported.insert(row.reservation);
      cursor = answer.next_cursor;
    } while (cursor != 0);
    EXPECT_EQ(reported, std::multiset(all.begin(), all.end())) << rows_max;
  }
}

TEST_F(Holders, that_stay_are_listed_once_while_others_come_and_go) {
  std::vector<uint64_t> all;
  for (int number = 0; number < 40; ++number) all.push_back(reserve());
  std::map<uint64_t, int> reported;
  uint64_t cursor = 0;
  size_t step = 0;
  do {
    const QuotaAnswer answer = page({"m"}, cursor, 3);
    for (const HolderRow& row : driver_.batch.holders) ++reported[row.reservation];
    cursor = answer.next_cursor;
    driver_.cancel(all[step]);
    driver_.cancel(all[39 - step]);
    ++step;
    reserve();
  } while (cursor != 0);
  for (size_t number = step; number < 40 - step; ++number) EXPECT_EQ(reported[all[number]], 1);
}

TEST_F(Holders, have_pages_of_bounded_size) {
  for (int number = 0; number < 300; ++number) reserve();
  for (const uint32_t limit : {0U, 257U, 4'000'000'000U}) {
    EXPECT_EQ(page({}, 0, limit).rows_count, limits::subjects_page_max);
  }
  EXPECT_EQ(page({}, ~uint64_t{0}).rows_count, 0U);
  EXPECT_EQ(page({}, uint64_t{1} << 40).next_cursor, 0U);
}

// Asked without the check of all invariants that the driver does after each call.
class ManyHolders : public testing::Test {
 protected:
  std::vector<QuotaAnswer> ask(const QuotaCall& call, size_t calls, std::string_view name = {}) {
    batch_.clear();
    batch_.calls.assign(calls, call);
    if (!name.empty()) batch_.subjects.push_back(name);
    for (QuotaCall& each : batch_.calls) each.subjects_count = name.empty() ? 0 : 1;
    batch_.new_quotas.assign(calls, quota_of({slots(100'000)}));
    batch_.make_answers();
    store_.decide(batch_, now_);
    return batch_.answers;
  }
  QuotaStore store_{{.reservations_max = 30'000, .name_seed = 1, .id_seed = 1}};
  api::QuotaBatch batch_;
  const base::Now now_{.monotonic_ns = base::ns_per_s, .wall_ns = base::ns_per_s};
};

TEST_F(ManyHolders, are_searched_in_a_bounded_number_of_places) {
  constexpr uint32_t most = limits::holders_scan_max;
  ask({.op = QuotaOp::put}, 1, "crowd");
  ask({.op = QuotaOp::put}, 1, "rare");
  ask(asking_tokens(1), 2 * most + 10, "crowd");
  const uint64_t last = ask(asking_tokens(1), 1, "rare")[0].reservation;
  std::vector<uint32_t> rows;
  uint64_t cursor = 0;
  do {
    const QuotaAnswer answer = ask({.op = QuotaOp::holders, .cursor = cursor}, 1, "rare")[0];
    rows.push_back(answer.rows_count);
    cursor = answer.next_cursor;
  } while (cursor != 0 && rows.size() < 10);
  EXPECT_EQ(rows, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(batch_.holders.back().reservation, last);
  // Places that are free again are searched, too.
  const QuotaAnswer some = ask({.op = QuotaOp::holders}, 1)[0];
  EXPECT_EQ(some.rows_count, limits::subjects_page_max);
  QuotaCall cancel{.op = QuotaOp::cancel};
  std::vector<uint64_t> all;
  for (cursor = 0;;) {
    const QuotaAnswer answer = ask({.op = QuotaOp::holders, .cursor = cursor}, 1)[0];
    for (const HolderRow& row : batch_.holders) all.push_back(row.reservation);
    cursor = answer.next_cursor;
    if (cursor == 0) break;
  }
  EXPECT_EQ(all.size(), 2 * most + 11);
  for (const uint64_t id : all) {
    if (id != last) ask(named(cancel, id), 1);
  }
  const QuotaAnswer none = ask({.op = QuotaOp::holders}, 1)[0];
  EXPECT_EQ(none.rows_count, 0U);
  EXPECT_EQ(none.next_cursor, most + 1);
}

// Names may be as long as a key: eight of them are more than an answer has room for.
TEST(HoldersOfLongNames, are_listed_as_far_as_there_is_room) {
  StoreDriver driver({.reservations_max = 100, .name_bytes_max = limits::key_bytes_max});
  Names names;
  for (int number = 0; number < 8; ++number) {
    names.push_back(numbered("{t}", number) + std::string(30'000, 'x'));
    driver.put(names.back(), {slots(9)});
  }
  std::vector<uint64_t> ids;
  for (int number = 0; number < 3; ++number) {
    ids.push_back(driver.reserve(names, asking_tokens(0)).reservation);
  }
  QuotaAnswer answer = driver.ask({.op = QuotaOp::holders});
  ASSERT_EQ(answer.rows_count, 2U) << "two such rows are a page";
  const HolderRow row = driver.batch.holders[0];
  EXPECT_EQ(row.reservation, ids[0]);
  EXPECT_EQ(row.subjects_count, 2U);
  EXPECT_EQ(row.subjects_left_out, 6U);
  EXPECT_EQ(driver.batch.text_of(row.subjects[1]), names[1]);
  answer = driver.ask({.op = QuotaOp::holders, .cursor = answer.next_cursor});
  ASSERT_EQ(answer.rows_count, 1U);
  EXPECT_EQ(driver.batch.holders[0].reservation, ids[2]);
  EXPECT_EQ(answer.next_cursor, 0U);
}

TEST(HoldersOfLongNames, have_one_name_at_least) {
  StoreDriver driver({.reservations_max = 100, .name_bytes_max = limits::key_bytes_max});
  const std::string name(limits::key_bytes_max, 'x');
  driver.put(name, {slots(9)});
  driver.reserve({name}, owned(asking_tokens(0), "someone"));
  const QuotaAnswer answer = driver.ask({.op = QuotaOp::holders});
  ASSERT_EQ(answer.rows_count, 1U);
  EXPECT_EQ(driver.batch.text_of(driver.batch.holders[0].subjects[0]), name);
  EXPECT_EQ(driver.batch.holders[0].subjects_left_out, 0U);
}

TEST(AnswerReservation, has_a_row_for_each_of_its_subjects) {
  StoreDriver driver;
  driver.put("{t}a", {tpm(100)});
  driver.put("{t}b", {rpm(10)});
  const api::Amounts amounts{.requests = 2, .input_tokens = 20, .output_tokens = 3, .cost = 7};
  const uint64_t id = driver.reserve({"{t}a", "{t}x", "{t}b"}, asking(amounts)).reservation;
  driver.advance_ms(1'000);
  const QuotaAnswer answer = driver.ask({.op = QuotaOp::show, .reservation = id});
  EXPECT_EQ(answer.code, QuotaCode::ok);
  EXPECT_EQ(answer.state, ReservationState::open);
  EXPECT_EQ(answer.amounts, amounts);
  EXPECT_EQ(answer.lifetime_ms, 59'000U);
  ASSERT_EQ(answer.rows_count, 2U);
  EXPECT_EQ(driver.batch.name_of(driver.batch.rows[0]), "{t}a");
  EXPECT_EQ(driver.batch.name_of(driver.batch.rows[1]), "{t}b");
  EXPECT_EQ(driver.batch.rows[1].open_reservations, 1U);
}

}  // namespace
}  // namespace sluice::quota
