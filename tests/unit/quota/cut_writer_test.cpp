// Goal:   a cut has what has changed since the last one, as of its instant, whatever happens while
//         it is written, and in time every lap has everything.
// Method: a store with a list in the place of the builder of parts; calls between two steps of a
//         cut. tests/property/quota_state_test.cpp compares what is restored.
#include "quota/cut_writer.hpp"

#include <gtest/gtest.h>

#include <set>

#include "quota/quota_class.hpp"
#include "unit/quota/list_sink.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using api::ReservationState;

class Cuts : public testing::Test {
 protected:
  static constexpr Options options{.subjects_max = 5'000,
                                   .reservations_max = 5'000,
                                   .waiters_max = 10,
                                   .name_seed = 42,
                                   .id_seed = 42,
                                   .keeps_state = true};

  void SetUp() override {
    for (const char* name : {"a", "b"}) driver_.put(name, {tpm(1'000)});
  }

  void begin(bool begins_lap = false) {
    sink_.clear();
    driver_.store.begin_cut(sink_, {.epoch = ++epoch_, .begins_lap = begins_lap});
  }
  void end() {
    while (driver_.store.hand_over(1'000)) {
    }
  }
  void cut(bool begins_lap = false) {
    begin(begins_lap);
    end();
  }
  uint64_t reserve(const std::string& name, uint64_t tokens, std::string_view id = {}) {
    const api::QuotaAnswer answer = driver_.reserve({name}, with_id(asking_tokens(tokens), id));
    EXPECT_EQ(answer.code, QuotaCode::ok);
    return answer.reservation;
  }
  // Tokens used in the record of the subject, whose only limit is tpm.
  static uint64_t used(const ListSink::Subject& subject) {
    state::ByteReader reader(std::span(subject.meters).subspan(1));  // behind the layout
    reader.varint();                                                 // and since when
    return reader.varint();
  }

  StoreDriver driver_{options};
  ListSink sink_;
  uint64_t epoch_ = 0;
};

TEST_F(Cuts, has_what_changed_since_the_last_one) {
  cut();
  EXPECT_EQ(sink_.names(), (Names{"a", "b"}));
  reserve("a", 10);
  cut();
  EXPECT_EQ(sink_.names(), (Names{"a"}));
  EXPECT_EQ(used(sink_.subjects[0]), 10U);
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_EQ(sink_.reservations[0].amounts.input_tokens, 10U);
  cut();
  EXPECT_EQ(sink_.count(), 0U);
}

TEST_F(Cuts, are_due_when_anything_has_changed) {
  cut();
  EXPECT_FALSE(driver_.store.has_changes());
  const uint64_t id = reserve("a", 10);
  EXPECT_TRUE(driver_.store.has_changes());
  begin();
  EXPECT_FALSE(driver_.store.has_changes()) << "since the cut's instant";
  end();
  driver_.settle(id, 7);
  EXPECT_TRUE(driver_.store.has_changes());
  cut();
  driver_.reset_all();
  EXPECT_TRUE(driver_.store.has_changes()) << "no subject has seen the reset yet";
  cut();
  EXPECT_FALSE(driver_.store.has_changes());
  driver_.store.write_all();
  EXPECT_TRUE(driver_.store.has_changes());
}

// It was never put in this store: an earlier start's state has it.
TEST_F(Cuts, take_a_quota_out_of_the_state_that_its_owner_has_now) {
  cut();
  driver_.store.drop_moved_quota("moved", driver_.now());
  EXPECT_TRUE(driver_.store.has_changes());
  cut();
  EXPECT_EQ(sink_.run_time_quotas, (std::map<std::string, std::string>{{"moved", ""}}));
}

TEST_F(Cuts, keep_a_quota_that_was_put_here_again_meanwhile) {
  cut();
  driver_.store.drop_moved_quota("a", driver_.now());
  EXPECT_FALSE(driver_.store.has_changes());
}

TEST_F(Cuts, have_the_quotas_that_were_put_and_removed) {
  begin();
  EXPECT_EQ(sink_.run_time_quotas.size(), 2U);
  EXPECT_EQ(sink_.run_time_quotas["a"], quota_text({.limits = {tpm(1'000)}}));
  driver_.put("a", {tpm(5)});
  driver_.remove("b");
  driver_.remove("nobody");
  driver_.put("c", {tpm(6)});
  driver_.remove("c");
  end();
  EXPECT_EQ(sink_.run_time_quotas.size(), 2U) << "those since its instant are the next one's";
  cut();
  EXPECT_EQ(sink_.run_time_quotas.size(), 3U);
  EXPECT_EQ(sink_.run_time_quotas["a"], quota_text({.limits = {tpm(5)}}));
  EXPECT_EQ(sink_.run_time_quotas["b"], "");
  EXPECT_EQ(sink_.run_time_quotas["c"], "");
  cut();
  EXPECT_TRUE(sink_.run_time_quotas.empty());
  driver_.store.write_all();
  cut();
  EXPECT_EQ(sink_.run_time_quotas.size(), 1U) << "what is there now";
}

TEST_F(Cuts, what_changes_while_it_is_written_is_written_as_it_was) {
  const uint64_t id = reserve("a", 10);
  begin();
  driver_.settle(id, 7);
  driver_.record({"b"}, {.requests = 1, .input_tokens = 5});
  end();
  ASSERT_EQ(sink_.subjects.size(), 2U);
  for (const ListSink::Subject& subject : sink_.subjects) {
    EXPECT_EQ(used(subject), subject.name == "a" ? 10U : 0U);
  }
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_EQ(sink_.reservations[0].state, ReservationState::open);
  cut();
  EXPECT_EQ(sink_.names(), (Names{"a", "b"}));
  for (const ListSink::Subject& subject : sink_.subjects) {
    EXPECT_EQ(used(subject), subject.name == "a" ? 7U : 5U);
  }
  ASSERT_EQ(sink_.ends.size(), 1U);
  EXPECT_EQ(sink_.ends[0].id, id);
  EXPECT_EQ(sink_.ends[0].amounts.input_tokens, 7U);
}

TEST_F(Cuts, a_denial_changes_nothing) {
  reserve("a", 1'000);
  cut();
  EXPECT_EQ(driver_.reserve({"a"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(driver_.check({"a", "b"}, asking_tokens(1)).code, QuotaCode::tpm_exceeded);
  driver_.advance_ms(1);
  cut();
  EXPECT_EQ(sink_.count(), 0U);
}

TEST_F(Cuts, what_ends_before_the_next_cut_leaves_nothing) {
  cut();
  driver_.settle(reserve("a", 10), 10);
  driver_.cancel(reserve("a", 10));
  cut();
  EXPECT_EQ(sink_.names(), (Names{"a"}));
  EXPECT_EQ(sink_.count(), 1U);
  cut();
  EXPECT_EQ(sink_.count(), 0U);
}

TEST_F(Cuts, an_end_under_a_clients_id_is_a_reservation_until_it_is_forgotten) {
  const uint64_t id = reserve("a", 10, "mine");
  driver_.settle(id, 9);
  cut();
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_EQ(sink_.reservations[0].id, id);
  EXPECT_EQ(sink_.reservations[0].state, ReservationState::settled);
  EXPECT_TRUE(sink_.reservations[0].client_id.is_set());
  EXPECT_TRUE(sink_.ends.empty());
  driver_.advance_ms(60'001);
  cut();
  EXPECT_TRUE(sink_.gone_reservations.empty()) << "its record is over at the same time";
}

// The record says that it is open.
TEST_F(Cuts, one_that_ends_and_is_forgotten_between_two_cuts_is_gone) {
  const uint64_t id = reserve("a", 10, "mine");
  cut();
  driver_.settle(id, 9);
  driver_.advance_ms(60'001);
  cut();
  ASSERT_EQ(sink_.gone_reservations.size(), 1U);
  EXPECT_EQ(sink_.gone_reservations[0], (state::GoneReservation{.id = id}));
}

TEST_F(Cuts, expired_ones_are_written_until_they_are_forgotten) {
  const uint64_t id = reserve("a", 10);
  cut();
  driver_.advance_ms(60'001);
  cut();
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_EQ(sink_.reservations[0].state, ReservationState::expired);
  EXPECT_NE(sink_.reservations[0].expired_order, 0U);
  EXPECT_EQ(driver_.settle(id, 3).late, true);
  cut();
  ASSERT_EQ(sink_.ends.size(), 1U);
  EXPECT_TRUE(sink_.ends[0].late);
}

TEST_F(Cuts, a_repeated_call_and_an_extension_are_written) {
  const uint64_t id = reserve("a", 10, "mine");
  cut();
  reserve("a", 10, "mine");
  cut();
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_TRUE(sink_.reservations[0].is_repeated);
  EXPECT_TRUE(sink_.subjects.empty());
  reserve("a", 10, "mine");
  cut();
  EXPECT_EQ(sink_.count(), 0U);
  driver_.extend(id, 90'000);
  cut();
  ASSERT_EQ(sink_.reservations.size(), 1U);
  EXPECT_EQ(sink_.reservations[0].lifetime_ms, 90'000U);
}

TEST_F(Cuts, a_subject_that_had_a_record_is_gone_when_it_is_forgotten) {
  cut();
  driver_.op(QuotaOp::remove, {}, {"a"});
  driver_.put("c", {tpm(1)});
  driver_.op(QuotaOp::remove, {}, {"c"});
  cut();
  ASSERT_EQ(sink_.gone_subjects.size(), 1U);
  EXPECT_TRUE(sink_.subjects.empty());
  cut();
  EXPECT_EQ(sink_.count(), 0U);
}

TEST_F(Cuts, one_that_is_forgotten_while_the_cut_is_written_is_in_it) {
  begin();
  driver_.op(QuotaOp::remove, {}, {"a"});
  end();
  EXPECT_EQ(sink_.names(), (Names{"a", "b"}));
  EXPECT_TRUE(sink_.gone_subjects.empty());
  cut();
  EXPECT_EQ(sink_.gone_subjects.size(), 1U);
}

// ------------------------------------------------------------------------------------- resets

TEST_F(Cuts, a_reset_of_all_is_in_the_facts_and_in_the_records_that_have_seen_it) {
  reserve("a", 10);
  cut();
  EXPECT_EQ(driver_.store.cut_facts().reset_all_order, 0U);
  driver_.op(QuotaOp::reset_all, {});
  driver_.put("c", {tpm(1)});  // it has seen it, although it was not there
  cut();
  const uint64_t order = driver_.store.cut_facts().reset_all_order;
  EXPECT_NE(order, 0U);
  EXPECT_EQ(sink_.names().back(), "c");
  reserve("a", 10);  // now it sees it, too
  cut();
  EXPECT_EQ(sink_.names().front(), "a");
  for (const ListSink::Subject& subject : sink_.subjects) EXPECT_EQ(subject.reset_order, order);
}

TEST_F(Cuts, a_reset_of_all_behind_the_cut_is_not_in_it) {
  reserve("a", 10);
  begin();
  driver_.op(QuotaOp::reset_all, {});
  reserve("a", 10);
  end();
  EXPECT_EQ(driver_.store.cut_facts().reset_all_order, 0U);
  for (const ListSink::Subject& subject : sink_.subjects) EXPECT_EQ(subject.reset_order, 0U);
}

// ------------------------------------------------------------------------------------- classes

TEST_F(Cuts, names_each_class_once_a_lap) {
  const std::string text = quota_text(quota_of({tpm(1'000)}));
  cut();
  EXPECT_EQ(sink_.classes_added, 1);
  EXPECT_EQ(sink_.classes, (std::map<uint64_t, std::string>{{class_id(text), text}}));
  EXPECT_EQ(sink_.subjects[0].quota_class, class_id(text));
  reserve("a", 1);
  cut();
  EXPECT_EQ(sink_.classes_added, 0);
  cut(true);
  EXPECT_EQ(sink_.classes_added, 1);
}

TEST_F(Cuts, a_subject_without_a_quota_has_no_class) {
  const uint64_t id = reserve("a", 10);
  driver_.op(QuotaOp::remove, {}, {"a"});
  cut();
  EXPECT_EQ(sink_.names(), (Names{"a", "b"}));
  for (const ListSink::Subject& subject : sink_.subjects) {
    EXPECT_EQ(subject.quota_class == 0, subject.name == "a");
  }
  EXPECT_EQ(sink_.reservations[0].id, id);
}

// ---------------------------------------------------------------------------------------- laps

class Laps : public Cuts {
 protected:
  static constexpr int subjects_count = 3'000;

  void SetUp() override {
    for (int number = 0; number < subjects_count; ++number) {
      driver_.ask_unchecked({.op = QuotaOp::put}, {name_of(number)}, quota_of({tpm(1'000)}));
    }
  }
  static std::string name_of(int number) { return numbered("s", number); }
  void use(int number) {
    driver_.ask_unchecked({.op = QuotaOp::record, .amounts = {.input_tokens = 1}},
                          {name_of(number)});
  }
  uint64_t complete_since() const { return driver_.store.cut_facts().complete_since_epoch; }
  // Cuts until a lap that has begun in this epoch is complete.
  std::set<std::string> finish(uint64_t epoch) {
    std::set<std::string> written;
    for (int cuts = 0; complete_since() < epoch && cuts < 100; ++cuts) {
      for (const std::string& name : sink_.names()) written.insert(name);
      cut();
    }
    for (const std::string& name : sink_.names()) written.insert(name);
    EXPECT_EQ(complete_since(), epoch);
    return written;
  }
};

TEST_F(Laps, write_everything_in_shares) {
  cut();
  EXPECT_EQ(sink_.subjects.size(), size_t{subjects_count});
  cut(true);
  EXPECT_GE(sink_.subjects.size(), lap_records_min);
  EXPECT_LE(sink_.subjects.size(), lap_records_min + 16);
  const std::set<std::string> written = finish(2);
  EXPECT_EQ(written.size(), size_t{subjects_count});
  EXPECT_LE(epoch_, 2U + 5U);
  cut();
  EXPECT_EQ(sink_.count(), 0U);
}

// Those that need no record count an eighth.
TEST_F(Laps, have_as_large_a_share_as_changes) {
  cut();
  for (int number = 0; number < 1'200; ++number) use(number);
  cut(true);
  EXPECT_GE(sink_.subjects.size(), 1'200U + 1'050U);
  EXPECT_LE(sink_.subjects.size(), 1'200U + 1'200U);
}

TEST_F(Laps, leave_to_the_next_cut_what_has_changed_since_theirs) {
  cut();
  begin(true);
  for (int number = 0; number < subjects_count; ++number) use(number);
  end();
  EXPECT_EQ(sink_.count(), 0U);
  EXPECT_EQ(complete_since(), 0U);
  cut();
  EXPECT_EQ(sink_.subjects.size(), size_t{subjects_count});
  EXPECT_EQ(complete_since(), 2U);
}

TEST_F(Laps, do_not_write_again_what_the_lap_has) {
  cut();
  for (int number = 0; number < subjects_count; ++number) use(number);
  cut(true);
  EXPECT_EQ(sink_.subjects.size(), size_t{subjects_count}) << "each once";
  cut();
  EXPECT_EQ(complete_since(), 2U);
}

TEST_F(Laps, have_remembered_ends_and_reservations) {
  std::vector<uint64_t> ids;
  for (int number = 0; number < 4; ++number) {
    ids.push_back(reserve(name_of(number), 1, number % 2 == 0 ? "id" : ""));
  }
  const uint64_t never_written = reserve(name_of(9), 1);
  driver_.settle(never_written, 1);
  cut();
  driver_.settle(ids[1], 1);
  driver_.settle(ids[2], 1);
  cut();
  EXPECT_EQ(sink_.ends.size(), 1U);
  driver_.store.write_all();
  cut();
  EXPECT_EQ(sink_.subjects.size(), size_t{subjects_count});
  EXPECT_EQ(sink_.reservations.size(), 3U);
  ASSERT_EQ(sink_.ends.size(), 1U);
  EXPECT_EQ(sink_.ends[0].id, ids[1]);
  EXPECT_EQ(complete_since(), 3U);
}

TEST_F(Laps, everything_at_once_is_complete_whatever_changes_meanwhile) {
  cut();
  driver_.store.write_all();
  begin();
  for (int number = 0; number < subjects_count; number += 2) use(number);
  driver_.op(QuotaOp::remove, {}, {name_of(1)});
  end();
  EXPECT_EQ(std::set<std::string>(), [&] {
    std::set<std::string> missing;
    for (int number = 0; number < subjects_count; ++number) missing.insert(name_of(number));
    for (const std::string& name : sink_.names()) missing.erase(name);
    return missing;
  }());
  EXPECT_EQ(complete_since(), 2U);
}

}  // namespace
}  // namespace sluice::quota
