// Goal:   what is read of a state file is what a server has that starts with it then.
// Method: a store of the test's, whose cuts are committed; read back at later times, with and
//         without a configuration file.
#include "migration/stored_subjects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "migration/model_quota.hpp"
#include "support/migrated_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::migration {
namespace {

constexpr int64_t s = base::ns_per_s;

class StoredSubjectsTest : public testing::Test {
 protected:
  void SetUp() override { server_.wall_ns = test::file_wall_ns; }
  void commit() { file_.commit(server_); }
  StoredSubjects read(policy::QuotaBook* book = nullptr) const {
    return read_stored_subjects(path_, book, [&] { return test::machine_at(server_.wall_ns); });
  }
  static std::string text_of(const StoredSubjects& found) {
    std::string text;
    for (const StoredSubject& each : found.subjects) {
      text += each.name + "=" + std::to_string(each.quota.limits.at(0).amount) + " ";
    }
    return text;
  }
  static uint64_t used(const StoredSubjects& found, size_t subject, size_t limit) {
    return found.subjects.at(subject).meters.meter(limit).used();
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("state");
  test::WrittenState file_{path_};
  quota::StoreDriver server_{test::written_options};
};

TEST_F(StoredSubjectsTest, are_up_to_date) {
  server_.put("b", quota_of({.max_rpm = 10, .max_rpd = 20}));
  server_.put("a", quota_of({.max_rpm = 11}));
  server_.record({"b"}, {.requests = 3, .input_tokens = 5});
  commit();
  server_.advance_ns(40 * s);
  server_.record({"b"}, {.requests = 4});
  commit();
  StoredSubjects found = read();
  ASSERT_EQ(found.subjects.size(), 2U);
  EXPECT_EQ(found.subjects[0].name, "a");
  EXPECT_EQ(found.subjects[1].quota, quota_of({.max_rpm = 10, .max_rpd = 20}));
  EXPECT_EQ(found.now.state_ns, server_.ns);
  EXPECT_EQ(found.now.wall_ns, server_.wall_ns);
  EXPECT_EQ(used(found, 1, 0), 7U);
  EXPECT_EQ(used(found, 1, 1), 5U);
  server_.advance_ns(24 * s);
  found = read();
  EXPECT_EQ(used(found, 1, 0), 4U);
  EXPECT_EQ(used(found, 1, 2), 7U) << "of the day";
}

TEST_F(StoredSubjectsTest, reservations_are_counted_and_end_in_their_time) {
  api::Quota refunds = quota_of({.max_rpm = 10});
  refunds.refund_expired = true;
  server_.put("a", refunds);
  const uint64_t settled = server_.reserve({"a"}, quota::asking_tokens(5)).reservation;
  server_.reserve({"a"}, quota::asking_tokens(5));
  commit();
  server_.settle(settled, 1);
  commit();
  EXPECT_EQ(read().open_reservations, 1U);
  EXPECT_EQ(read().remembered_reservations, 1U);
  EXPECT_EQ(used(read(), 0, 1), 6U);
  server_.wall_ns += 61 * s;
  server_.ns += 61 * s;  // while it is down
  EXPECT_EQ(read().open_reservations, 0U);
  EXPECT_LE(used(read(), 0, 1), 1U);
}

TEST_F(StoredSubjectsTest, a_clock_that_went_back_is_named) {
  server_.put("a", quota_of({.max_rpm = 10}));
  commit();
  EXPECT_EQ(read().clock_warning, "");
  state::MachineTime earlier = test::machine_at(server_.wall_ns - 5 * s);
  earlier.boot.low = 99;
  EXPECT_NE(read_stored_subjects(path_, nullptr, [&] { return earlier; }).clock_warning, "");
}

// It commits again when the file was read, but for the time.
TEST_F(StoredSubjectsTest, a_server_that_goes_on_writing_has_not_turned_the_clock_back) {
  server_.put("a", quota_of({.max_rpm = 10}));
  commit();
  const auto clock = [&] {
    const state::MachineTime present = test::machine_at(server_.wall_ns);
    server_.advance_ns(s);
    commit();
    return present;
  };
  EXPECT_EQ(read_stored_subjects(path_, nullptr, clock).clock_warning, "");
}

TEST_F(StoredSubjectsTest, a_reset_of_all_holds) {
  server_.put("a", quota_of({.max_rpm = 10}));
  server_.record({"a"}, {.requests = 3});
  commit();
  server_.reset_all();
  commit();
  EXPECT_EQ(used(read(), 0, 0), 0U);
}

TEST_F(StoredSubjectsTest, a_configuration_file_has_quotas_of_its_own) {
  policy::QuotaRules rules;
  rules.rules = {{.subject = "filed", .quota = quota_of({.max_rpm = 10})},
                 {.subject = "put", .quota = quota_of({.max_rpm = 11})},
                 {.subject = "never", .quota = quota_of({.max_rpm = 12})},
                 {.subject = "^x", .is_regex = true, .quota = quota_of({.max_rpm = 13})}};
  policy::QuotaBook book(rules);
  server_.store.adopt(book, server_.now());
  server_.put("put", quota_of({.max_rpm = 99}));
  for (const char* name : {"filed", "put", "x1", "unknown"}) {
    server_.record({name}, {.requests = 2});
  }
  commit();
  const StoredSubjects alone = read();
  EXPECT_EQ(text_of(alone), "filed=10 never=12 put=99 x1=13 ");
  EXPECT_EQ(alone.subjects[0].quota, quota_of({.max_rpm = 10})) << "as its record has it";
  EXPECT_EQ(used(alone, 0, 0), 2U);

  rules.rules[0].quota = quota_of({.max_rpm = 20});
  rules.rules.push_back({.subject = "x2", .is_prefix = true, .quota = quota_of({.max_rpm = 14})});
  policy::QuotaBook changed(rules);
  const StoredSubjects found = read(&changed);
  EXPECT_EQ(text_of(found), "filed=20 never=12 put=99 x1=13 x2=14 ");
  EXPECT_EQ(used(found, 0, 0), 2U);
  EXPECT_EQ(used(found, 1, 0), 0U);
}

// More than a store hands over or adopts in one step.
TEST_F(StoredSubjectsTest, are_all_there_however_many) {
  constexpr int many = 20'000;
  transfer::GoRatelimitFile file;
  policy::QuotaRules rules;
  for (int number = 0; number < many; ++number) {
    file.quotas[quota::numbered("used-", number)] = {.max_rpm = 5};
    file.usage[quota::numbered("used-", number)].requests_wall_ns = {test::file_wall_ns};
    rules.rules.push_back(
        {.subject = quota::numbered("named-", number), .quota = quota_of({.max_rpm = 6})});
  }
  const std::string path = folder_.file("many");
  test::import_at(file, path, test::file_wall_ns, false);
  const auto clock = [] { return test::machine_at(test::file_wall_ns); };
  EXPECT_EQ(read_stored_subjects(path, nullptr, clock).subjects.size(), size_t{many});
  rules.rules.push_back({.subject = "^used-", .is_regex = true, .quota = quota_of({.max_rpm = 7})});
  policy::QuotaBook book(rules);
  const StoredSubjects found = read_stored_subjects(path, &book, clock);
  for (const int64_t max_rpm : {6, 7}) {
    EXPECT_EQ(
        std::ranges::count(found.subjects, quota_of({.max_rpm = max_rpm}), &StoredSubject::quota),
        many);
  }
}

TEST_F(StoredSubjectsTest, a_changed_configuration_file_holds_for_all) {
  const auto rules_with = [](const std::string& name, int64_t max_rpm) {
    policy::QuotaRules rules;
    rules.rules = {{.subject = "^x", .is_regex = true, .quota = quota_of({.max_rpm = max_rpm})},
                   {.subject = name, .quota = quota_of({.max_rpm = max_rpm})}};
    return rules;
  };
  policy::QuotaBook book(rules_with("only-before", 10));
  server_.store.adopt(book, server_.now());
  for (const char* name : {"x1", "only-before"}) server_.record({name}, {.requests = 2});
  commit();
  policy::QuotaBook changed(rules_with("only-now", 20));
  StoredSubjects found = read(&changed);
  EXPECT_EQ(text_of(found), "only-now=20 x1=20 ");
  EXPECT_EQ(used(found, 1, 0), 2U) << "only the amount differs";
}

TEST_F(StoredSubjectsTest, a_file_without_a_commit_has_none) {
  EXPECT_TRUE(read().subjects.empty());
  policy::QuotaRules rules;
  rules.rules = {{.subject = "a", .quota = quota_of({.max_rpm = 10})}};
  policy::QuotaBook book(rules);
  EXPECT_EQ(read(&book).subjects.size(), 1U);
}

TEST_F(StoredSubjectsTest, names_a_file_that_cannot_be_read) {
  EXPECT_THROW(read_stored_subjects(folder_.file("no"), nullptr, {}), std::runtime_error);
}

}  // namespace
}  // namespace sluice::migration
