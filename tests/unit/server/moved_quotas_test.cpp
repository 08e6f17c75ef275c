// Goal: each quota of another node's subject is handed to its owner, again and again until that has
//       it, and only then leaves the state.
// Method: one worker of three nodes; parcels for the others are kept, and the test answers them.
#include "server/moved_quotas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/log_lines.hpp"
#include "tests/unit/server/keeping_sender.hpp"
#include "tests/unit/server/task_side.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::server {
namespace {

using api::QuotaCode;
using peer::QuotaParcel;
using quota::MovedQuota;

class MovedQuotasTest : public ::testing::Test {
 protected:
  static peer::FleetOptions fleet(std::string secret) {
    peer::FleetOptions options{.timeout_ms = 2'000, .secret = std::move(secret)};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080},
                         {"http://10.0.0.3:8080", "10.0.0.3", 8080}};
    return options;
  }
  explicit MovedQuotasTest(const std::string& secret = "shared")
      : side_(worker_group_, 0, fleet(secret)),
        moved_(side_.context, side_.mailboxes, side_.quotas, fleet(secret), log_) {
    moved_.attach(sender_);
    pass(1'000);
  }
  void pass(int64_t ms) { side_.context.now.monotonic_ns += ms * base::ns_per_ms; }

  std::vector<std::string> subjects_of(uint32_t node, size_t count) {
    std::vector<std::string> names;
    for (int number = 0; names.size() < count; ++number) {
      std::string name = "model" + std::to_string(number);
      if (side_.mailboxes.nodes().node_of_subject(name) == node) names.push_back(std::move(name));
    }
    return names;
  }
  static api::Quota quota(uint64_t amount) {
    return {.limits = {{.name = "tpm", .amount = amount, .period_ms = 60'000}}, .profile = {}};
  }
  void begin(const std::vector<std::string>& names) {
    std::vector<MovedQuota> moved;
    for (const std::string& name : names) moved.push_back({.name = name, .quota = quota(7)});
    moved_.begin(std::move(moved));
  }
  QuotaParcel& parcel() { return *sender_.parcels.back(); }
  static std::vector<std::string> names_in(const QuotaParcel& parcel) {
    return {parcel.batch.subjects.begin(), parcel.batch.subjects.end()};
  }
  // As Peers does.
  void answer(QuotaParcel& parcel, const std::vector<QuotaCode>& codes) {
    parcel.batch.answers.clear();
    for (const QuotaCode code : codes) parcel.batch.answers.push_back({.code = code});
    parcel.is_answered = true;
    moved_.on_parcel(parcel);
  }
  void answer_ok(QuotaParcel& parcel) {
    answer(parcel, std::vector(parcel.batch.calls.size(), QuotaCode::ok));
  }
  void lose(QuotaParcel& parcel) {
    parcel.is_answered = false;
    moved_.on_parcel(parcel);
  }
  int64_t due_in_ms() const { return moved_.due_ms() - side_.context.now_ms(); }
  const std::vector<std::string>& dropped() const { return side_.asked.dropped; }

  WorkerGroup worker_group_{{.shards = 1}};
  MovedQuotaLog log_;
  KeepingSender sender_;
  TaskSide side_;
  MovedQuotas moved_;
};

TEST_F(MovedQuotasTest, is_never_due_without_any) {
  EXPECT_EQ(moved_.due_ms(), base::never_ms);
  moved_.send();
  EXPECT_TRUE(sender_.parcels.empty());
}

TEST_F(MovedQuotasTest, hands_each_over_to_its_owner) {
  std::vector<std::string> names = subjects_of(1, 2);
  names.push_back(subjects_of(2, 1)[0]);
  begin(names);
  EXPECT_LE(due_in_ms(), 0);
  moved_.send();
  ASSERT_EQ(sender_.parcels.size(), 2U);
  QuotaParcel& first = *sender_.parcels[0];
  QuotaParcel& second = *sender_.parcels[1];
  EXPECT_EQ(names_in(first), subjects_of(1, 2));
  EXPECT_EQ(names_in(second), subjects_of(2, 1));
  EXPECT_EQ(first.target, side_.mailboxes.nodes().first_target(1));
  EXPECT_EQ(second.target, side_.mailboxes.nodes().first_target(2));
  EXPECT_EQ(first.of, QuotaParcel::Of::moved_quotas);
  EXPECT_EQ(first.timeout_ms, 12'000) << "the owner may write them to its disk first";
  for (const api::QuotaCall& call : first.batch.calls) {
    EXPECT_EQ(call.op, api::QuotaOp::put);
    EXPECT_EQ(call.flags, api::quota_flag::handed_over);
  }
  EXPECT_EQ(first.batch.new_quotas, std::vector(2, quota(7)));
}

TEST_F(MovedQuotasTest, keeps_them_in_the_state_until_the_owner_has_them) {
  const std::vector<std::string> names = subjects_of(1, 2);
  begin(names);
  moved_.send();
  EXPECT_EQ(moved_.due_ms(), base::never_ms) << "one parcel at a time";
  moved_.send();
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_TRUE(dropped().empty());
  EXPECT_EQ(log_.left(), 2U);
  answer_ok(parcel());
  EXPECT_EQ(dropped(), names);
  EXPECT_EQ(log_.left(), 0U);
  EXPECT_EQ(moved_.due_ms(), base::never_ms);
}

TEST_F(MovedQuotasTest, asks_a_node_that_does_not_answer_again_and_less_and_less_often) {
  begin(subjects_of(1, 1));
  int64_t pause_ms = MovedQuotas::pause_ms_min;
  for (int i = 0; i < 10; ++i) {
    moved_.send();
    lose(parcel());
    EXPECT_EQ(due_in_ms(), pause_ms);
    moved_.send();
    EXPECT_EQ(sender_.parcels.size(), size_t(i + 1)) << "it is not due yet";
    pass(pause_ms);
    pause_ms = std::min(pause_ms * 2, MovedQuotas::pause_ms_max);
  }
  EXPECT_TRUE(dropped().empty());
  moved_.send();
  answer_ok(parcel());
  EXPECT_EQ(dropped(), subjects_of(1, 1));
}

TEST_F(MovedQuotasTest, asks_again_for_those_that_the_owner_has_not_taken) {
  const std::vector<std::string> names = subjects_of(1, 4);
  begin(names);
  moved_.send();
  answer(parcel(), {QuotaCode::subjects_full, QuotaCode::ok, QuotaCode::memory_only,
                    QuotaCode::owner_unreachable});
  EXPECT_EQ(dropped(), std::vector{names[1]});
  EXPECT_EQ(log_.left(), 3U);
  EXPECT_EQ(due_in_ms(), MovedQuotas::pause_ms_min);
  pass(MovedQuotas::pause_ms_min);
  moved_.send();
  EXPECT_EQ(names_in(parcel()), (std::vector{names[0], names[2], names[3]}));
  answer_ok(parcel());
  EXPECT_EQ(log_.left(), 0U);
}

TEST_F(MovedQuotasTest, those_behind_a_refused_one_have_their_turn) {
  const size_t count = wire::forwarded_calls_max + 1;
  const std::vector<std::string> names = subjects_of(1, count);
  begin(names);
  moved_.send();
  EXPECT_EQ(parcel().batch.calls.size(), wire::forwarded_calls_max);
  std::vector<QuotaCode> codes(wire::forwarded_calls_max, QuotaCode::ok);
  codes[0] = QuotaCode::invalid_subject;
  answer(parcel(), codes);
  pass(MovedQuotas::pause_ms_min);
  moved_.send();
  EXPECT_EQ(names_in(parcel()), (std::vector{names.back(), names.front()}));
}

TEST_F(MovedQuotasTest, those_that_the_owner_calls_invalid_keep_no_others_waiting) {
  const size_t count = wire::forwarded_calls_max + 2;
  const std::vector<std::string> names = subjects_of(1, count);
  begin(names);
  moved_.send();
  std::vector<QuotaCode> codes(wire::forwarded_calls_max, QuotaCode::ok);
  codes[0] = codes[3] = QuotaCode::invalid_quota;
  answer(parcel(), codes);
  EXPECT_EQ(dropped().size(), wire::forwarded_calls_max - 2);
  EXPECT_EQ(log_.left(), 4U);
  EXPECT_LE(due_in_ms(), 0) << "the owner answers: the others follow at once";
  moved_.send();
  EXPECT_EQ(names_in(parcel()), (std::vector{names[count - 2], names[count - 1]}));
  answer_ok(parcel());
  EXPECT_EQ(log_.left(), 2U);
  EXPECT_EQ(due_in_ms(), MovedQuotas::invalid_pause_ms);
  pass(MovedQuotas::invalid_pause_ms - 1);
  moved_.send();
  EXPECT_EQ(sender_.parcels.size(), 2U) << "they are not due yet";
  pass(1);
  moved_.send();
  ASSERT_EQ(sender_.parcels.size(), 3U);
  EXPECT_EQ(names_in(parcel()), (std::vector{names[0], names[3]}));
  answer(parcel(), {QuotaCode::invalid_quota, QuotaCode::ok});
  EXPECT_EQ(dropped().back(), names[3]);
  pass(MovedQuotas::invalid_pause_ms);
  moved_.send();
  EXPECT_EQ(names_in(parcel()), std::vector{names[0]});
  answer_ok(parcel());  // the node has started again, with the time zone
  EXPECT_EQ(log_.left(), 0U);
  EXPECT_EQ(moved_.due_ms(), base::never_ms);
}

TEST_F(MovedQuotasTest, invalid_ones_leave_the_pause_of_refused_ones_alone) {
  const std::vector<std::string> names = subjects_of(1, 2);
  begin(names);
  moved_.send();
  answer(parcel(), {QuotaCode::invalid_quota, QuotaCode::not_durable});
  EXPECT_EQ(due_in_ms(), MovedQuotas::pause_ms_min);
  pass(MovedQuotas::invalid_pause_ms);
  moved_.send();
  EXPECT_EQ(names_in(parcel()), (std::vector{names[1], names[0]}));
}

TEST_F(MovedQuotasTest, an_invalid_one_is_logged_once) {
  support::LogLines log;
  log.start();
  const std::vector<std::string> names = subjects_of(1, 3);
  begin(names);
  for (int minute = 0; minute < 3; ++minute) {
    moved_.send();
    ASSERT_EQ(parcel().batch.calls.size(), 3U);
    answer(parcel(), std::vector(3, QuotaCode::invalid_quota));
    pass(MovedQuotas::invalid_pause_ms);
  }
  std::vector<log::Fields> logged = log.lines();
  ASSERT_EQ(logged.size(), 1U);
  EXPECT_EQ(logged[0]["level"], "WARN");
  EXPECT_EQ(logged[0]["node"], "10.0.0.2:8080");
  EXPECT_EQ(logged[0]["reason"], "invalid_quota");
  EXPECT_EQ(logged[0]["quotas"], 3);
  EXPECT_EQ(logged[0]["subject"], names[0]);
  EXPECT_EQ(logged[0]["quota"]["limits"][0]["name"], "tpm");
}

TEST_F(MovedQuotasTest, the_rest_follows_at_once) {
  begin(subjects_of(1, wire::forwarded_calls_max + 1));
  moved_.send();
  answer_ok(parcel());
  EXPECT_LE(due_in_ms(), 0);
  moved_.send();
  EXPECT_EQ(parcel().batch.calls.size(), 1U);
}

TEST_F(MovedQuotasTest, a_parcel_is_a_frame_at_most) {
  std::vector<std::string> names;
  for (const std::string& name : subjects_of(1, 5)) {
    names.push_back("{" + name + "}" + std::string(60'000, 'x'));  // of the node of the tag
  }
  begin(names);
  moved_.send();
  ASSERT_EQ(sender_.parcels.size(), 1U);
  EXPECT_EQ(parcel().batch.calls.size(), 4U);
  EXPECT_EQ(parcel().batch.new_quotas.size(), 4U);
  const auto frame = wire::encode_forward_quota(1, 1, parcel().batch);
  EXPECT_LE(std::span(frame).size_bytes(), limits::frame_bytes_max);
  answer_ok(parcel());
  EXPECT_EQ(dropped().size(), 4U);
  moved_.send();
  EXPECT_EQ(names_in(parcel()), std::vector{names[4]});
}

TEST_F(MovedQuotasTest, a_node_that_drains_leaves_them_to_its_next_start) {
  begin(subjects_of(1, 1));
  side_.context.draining = true;
  EXPECT_EQ(moved_.due_ms(), base::never_ms);
  moved_.send();
  EXPECT_TRUE(sender_.parcels.empty());
}

class MovedQuotasWithoutSecret : public MovedQuotasTest {
 protected:
  MovedQuotasWithoutSecret() : MovedQuotasTest("") {}
};

TEST_F(MovedQuotasWithoutSecret, nothing_is_sent) {
  begin(subjects_of(1, 1));
  EXPECT_EQ(moved_.due_ms(), base::never_ms);
  moved_.send();
  EXPECT_TRUE(sender_.parcels.empty());
  EXPECT_EQ(log_.left(), 1U);
}

}  // namespace
}  // namespace sluice::server
