// Goal: the C++ client and a real server agree on reserved, used and refunded amounts; nothing
// leaks when clients leave, and callers that reserve first never exceed a limit. Method: the binary
// that SLUICEGATE names, with one, two and four shards.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server_program.hpp"
#include "sluicegate/client.hpp"
#include "sluicegate/go_ratelimit.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using test::ping;
using test::Server;

class CppQuota : public ::testing::TestWithParam<const char*> {
 protected:
  CppQuota() : server_{{"--shards", GetParam()}}, client_{server_.address()} { ping(client_); }

  void put(std::string_view subject, std::vector<Limit> limits) {
    ASSERT_EQ(client_.put_quota(subject, {.limits = std::move(limits)}), QuotaCode::ok);
  }
  LimitState state(std::string_view subject, size_t index = 0) {
    return client_.usage(subject).limits.at(index);
  }
  // Waits until `count` reservations are open.
  void wait_until_open(std::string_view subject, uint32_t count) {
    for (int attempt = 0; client_.usage(subject).open_reservations != count; ++attempt) {
      ASSERT_LT(attempt, 6'000);
      std::this_thread::sleep_for(10ms);
    }
  }

  Server server_;
  Client client_;
};

Limit tokens(uint64_t amount) {
  return {.name = "tokens",
          .metric = Metric::tokens,
          .kind = LimitKind::fixed,
          .amount = amount,
          .period_ms = 3'600'000};
}

Limit slots(uint64_t amount) {
  return {.name = "slots",
          .metric = Metric::concurrency,
          .kind = LimitKind::concurrency,
          .amount = amount};
}

// As in REST and Python, where such a limit has no kind.
TEST_P(CppQuota, a_limit_of_concurrency_needs_no_kind) {
  put("printer", {{.name = "slots", .metric = Metric::concurrency, .amount = 1}});
  EXPECT_EQ(client_.get_quota("printer")->limits.at(0).kind, LimitKind::concurrency);
  const Reservation held = client_.lease("printer");
  EXPECT_TRUE(held);
  EXPECT_EQ(client_.lease("printer").outcome().code, QuotaCode::concurrency_exceeded);
}

// A mistake of the caller is no denial, whatever the failure policy is.
TEST_P(CppQuota, subjects_that_the_server_does_not_take_throw) {
  const std::string longer(2'000, 's');
  for (const OnFailure policy : {OnFailure::error, OnFailure::open, OnFailure::closed}) {
    Client client{server_.address(), {.on_failure = policy}};
    EXPECT_THROW((void)client.reserve(longer, {.may_wait = true}), InvalidSubject);
    EXPECT_THROW((void)client.check(longer), InvalidSubject);
    EXPECT_THROW((void)client.record(longer), InvalidSubject);
    EXPECT_THROW((void)client.put_quota(longer, {}), InvalidSubject);
    EXPECT_THROW((void)client.usage(longer), InvalidSubject);
    EXPECT_THROW((void)client.reserve_future(longer).get(), InvalidSubject);
  }
  try {
    (void)client_.reserve({"gpt-4o", longer}, {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidSubject& error) {
    EXPECT_EQ(std::string(error.what()).find("subjects[1] (2000 bytes): invalid_subject: "), 0u);
  }
  std::promise<QuotaCode> code;
  client_.reserve_async(longer,
                        [&](const Reservation& call) { code.set_value(call.outcome().code); });
  EXPECT_TRUE(is_mistake(code.get_future().get()));
}

TEST_P(CppQuota, settle_refunds_unused_quota) {
  put("gpt-4o", {tokens(1'000)});
  Reservation call = client_.reserve("gpt-4o", {.input_tokens = 300, .max_output_tokens = 500});
  ASSERT_TRUE(call);
  EXPECT_EQ(state("gpt-4o").used, 800u);
  EXPECT_EQ(state("gpt-4o").reserved, 800u);
  const Reservation denied =
      client_.reserve("gpt-4o", {.input_tokens = 300, .wants_violated = true});
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.outcome().code, QuotaCode::tokens_exceeded);
  EXPECT_GT(denied.outcome().retry_after_ms, 0);
  ASSERT_EQ(denied.outcome().limits.size(), 1u);
  EXPECT_EQ(denied.outcome().limits[0].remaining, 200u);
  const uint64_t id = call.id();
  EXPECT_EQ(call.settle({.input_tokens = 280, .output_tokens = 120}).code, QuotaCode::ok);
  EXPECT_EQ(client_.settle(id, {.output_tokens = 9'999}).code, QuotaCode::ok);  // a repeat
  EXPECT_EQ(state("gpt-4o").used, 400u);
  EXPECT_EQ(client_.cancel_reservation(id).code, QuotaCode::already_settled);
  EXPECT_EQ(client_.settle(id ^ 1).code, QuotaCode::unknown_reservation);
}

TEST_P(CppQuota, forgotten_guard_cancels_its_reservation) {
  put("gpt-4o", {tokens(1'000), slots(1)});
  { const Reservation forgotten = client_.reserve("gpt-4o", {.input_tokens = 900}); }
  wait_until_open("gpt-4o", 0);
  EXPECT_EQ(state("gpt-4o").used, 0u);
  EXPECT_TRUE(client_.reserve("gpt-4o", {.input_tokens = 1'000}));
}

TEST_P(CppQuota, released_leases_serve_the_queue) {
  put("gpu", {slots(2)});
  std::atomic<int> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        Reservation slot = client_.lease("gpu", {.may_wait = true});
        ASSERT_TRUE(slot) << name(slot.outcome().code);
        const int now = ++held;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --held;
        EXPECT_TRUE(slot.release());
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_LE(most, 2);
  EXPECT_EQ(client_.usage("gpu").open_reservations, 0u);
}

TEST_P(CppQuota, connection_bound_lease_ends_with_its_client) {
  put("gpu", {slots(1)});
  {
    Client other{server_.address()};
    ping(other);
    EXPECT_NE(other.lease("gpu", {.connection_bound = true}).detach(), 0u);
    EXPECT_FALSE(client_.lease("gpu"));
  }
  wait_until_open("gpu", 0);
  EXPECT_TRUE(client_.lease("gpu"));
}

TEST_P(CppQuota, threads_never_exceed_what_they_reserve) {
  put("gpt-4o", {tokens(10'000)});
  std::atomic<uint64_t> used{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        Reservation call = client_.reserve("gpt-4o", {.max_output_tokens = 50});
        if (!call) return;
        EXPECT_TRUE(call.settle({.output_tokens = 30}));
        used += 30;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(state("gpt-4o").used, used);
  EXPECT_LE(used, 10'000u);
  EXPECT_GT(used, 9'000u);
}

TEST_P(CppQuota, several_subjects_are_charged_together) {
  put("{acme}", {tokens(100)});
  put("{acme}.gpt-4o", {tokens(1'000)});
  const Reservation call = client_.reserve({"{acme}", "{acme}.gpt-4o"}, {.input_tokens = 90});
  EXPECT_TRUE(call);
  const Reservation denied = client_.reserve({"{acme}", "{acme}.gpt-4o"}, {.input_tokens = 90});
  EXPECT_FALSE(denied);
  EXPECT_EQ(state("{acme}.gpt-4o").used, 90u);
}

// ------------------------------------------------------------- names without a tag, on any shards

const std::vector<std::string_view> plain_names{"gpt-4o", "acme", "user-17"};

// Each of them first in turn: its shard is the call's home.
std::vector<std::vector<std::string_view>> orders_of_plain_names() {
  std::vector<std::vector<std::string_view>> orders;
  for (size_t first = 0; first < plain_names.size(); ++first) {
    orders.push_back(plain_names);
    std::rotate(orders.back().begin(), orders.back().begin() + static_cast<ptrdiff_t>(first),
                orders.back().end());
  }
  return orders;
}

TEST_P(CppQuota, a_guard_of_plain_names_settles_or_cancels_them_all) {
  uint64_t used = 0;
  for (std::string_view name : plain_names) put(name, {tokens(1'000), slots(2)});
  const auto expect = [&](uint64_t of_calls, uint64_t reserved) {
    for (std::string_view name : plain_names) {
      EXPECT_EQ(state(name).used, of_calls) << name;
      EXPECT_EQ(state(name).reserved, reserved) << name;
    }
  };
  for (const auto& names : orders_of_plain_names()) {
    Reservation call = client_.reserve(names, {.input_tokens = 50, .max_output_tokens = 40});
    ASSERT_TRUE(call);
    expect(used + 90, 90);
    EXPECT_EQ(call.settle({.input_tokens = 30, .output_tokens = 10}).code, QuotaCode::ok);
    used += 40;
    expect(used, 0);
    { const Reservation forgotten = client_.reserve(names, {.input_tokens = 90}); }
    for (std::string_view name : names) wait_until_open(name, 0);
    expect(used, 0);
    EXPECT_TRUE(client_.consume(names, {.input_tokens = 5}));
    EXPECT_EQ(client_.record(names, {.input_tokens = 5}).code, QuotaCode::ok);
    used += 10;
    expect(used, 0);
  }
}

TEST_P(CppQuota, a_denial_of_plain_names_names_the_subject_and_charges_nothing) {
  for (const auto& names : orders_of_plain_names()) {
    for (uint8_t tight = 0; tight < names.size(); ++tight) {
      for (std::string_view name : names) put(name, {tokens(name == names[tight] ? 100 : 1'000)});
      ASSERT_EQ(client_.record(names[tight], {.input_tokens = 60}).code, QuotaCode::ok);
      const Reservation denied =
          client_.reserve(names, {.input_tokens = 90, .wants_violated = true});
      EXPECT_EQ(denied.outcome().code, QuotaCode::tokens_exceeded);
      ASSERT_EQ(denied.outcome().limits.size(), 1u);
      EXPECT_EQ(denied.outcome().limits[0].subject, tight);
      EXPECT_EQ(denied.outcome().limits[0].remaining, 40u);
      for (std::string_view name : names) {
        EXPECT_EQ(state(name).used, name == names[tight] ? 60u : 0u) << name;
        EXPECT_EQ(client_.reset(name), QuotaCode::ok);
      }
    }
  }
}

TEST_P(CppQuota, a_lease_of_plain_names_holds_a_slot_of_each) {
  for (std::string_view name : plain_names) put(name, {slots(1)});
  for (const auto& names : orders_of_plain_names()) {
    Reservation slot = client_.lease(names);
    ASSERT_TRUE(slot);
    for (std::string_view name : names) {
      EXPECT_EQ(client_.lease(name).outcome().code, QuotaCode::concurrency_exceeded);
    }
    EXPECT_EQ(slot.extend(60'000).code, QuotaCode::ok);
    EXPECT_TRUE(slot.release());
    for (std::string_view name : names) EXPECT_EQ(client_.usage(name).open_reservations, 0u);
  }
}

TEST_P(CppQuota, a_call_of_plain_names_waits_for_all_of_them) {
  for (std::string_view name : plain_names) put(name, {slots(1)});
  for (const auto& names : orders_of_plain_names()) {
    for (std::string_view held : names) {
      Reservation first = client_.lease(held);
      ASSERT_TRUE(first);
      std::future<Reservation> waiting = client_.reserve_future(names, {.may_wait = true});
      for (std::string_view name : names) {
        while (client_.usage(name).waiting == 0) std::this_thread::sleep_for(1ms);
      }
      EXPECT_TRUE(first.release());
      Reservation second = waiting.get();
      EXPECT_TRUE(second) << name(second.outcome().code);
      EXPECT_EQ(second.settle().code, QuotaCode::ok);
    }
  }
}

// Calls of one client that share frames.
TEST_P(CppQuota, many_calls_of_plain_names_never_exceed_the_subject_that_they_share) {
  constexpr uint64_t users_count = 64;
  put("gpt-4o", {tokens(1'000)});
  std::vector<std::string> users;
  for (uint64_t i = 0; i < users_count; ++i) users.push_back("user-" + std::to_string(i));
  for (const std::string& user : users) put(user, {tokens(100)});
  std::vector<std::future<Reservation>> calls;
  for (uint64_t i = 0; i < users_count; ++i) {
    const std::string_view user = users[i];
    const std::string_view model = "gpt-4o";
    const std::vector<std::string_view> names =
        i % 2 == 0 ? std::vector{model, user} : std::vector{user, model};
    calls.push_back(client_.reserve_future(names, {.input_tokens = 50, .max_output_tokens = 0}));
  }
  std::vector<SettleEntry> used;
  for (uint64_t i = 0; i < users_count; ++i) {
    Reservation call = calls[i].get();
    EXPECT_EQ(state(users[i]).used, call ? 50u : 0u);
    if (call) used.push_back({call.detach(), {.input_tokens = 10}});
  }
  EXPECT_EQ(used.size(), 20u);
  EXPECT_TRUE(client_.settle_batch(used).all_admitted());
  EXPECT_EQ(state("gpt-4o").used, 200u);
  EXPECT_EQ(state("gpt-4o").reserved, 0u);
}

TEST_P(CppQuota, batches_reserve_and_settle_over_all_shards) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back("model:" + std::to_string(i));
  for (const std::string& name : names) put(name, {tokens(100)});
  std::vector<ReserveEntry> wanted;
  for (const std::string& name : names) {
    wanted.push_back({.subject = name, .input_tokens = 60});
    wanted.push_back({.subject = name, .input_tokens = 60});
  }
  const auto got = client_.reserve_batch(wanted);
  std::vector<SettleEntry> used;
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got.codes[i], i % 2 == 0 ? QuotaCode::ok : QuotaCode::tokens_exceeded);
    if (got.reservations[i] != 0) used.push_back({got.reservations[i], {.input_tokens = 10}});
  }
  ASSERT_EQ(used.size(), names.size());
  EXPECT_TRUE(client_.settle_batch(used).all_admitted());
  for (const std::string& name : {names.front(), names.back()}) EXPECT_EQ(state(name).used, 10u);
}

TEST_P(CppQuota, check_and_record_and_reset) {
  put("gpt-4o", {tokens(100)});
  EXPECT_TRUE(client_.check("gpt-4o", {.input_tokens = 100}));
  EXPECT_EQ(client_.record("gpt-4o", {.input_tokens = 70, .output_tokens = 50}).code,
            QuotaCode::ok);
  EXPECT_EQ(state("gpt-4o").used, 120u);
  EXPECT_FALSE(client_.check("gpt-4o", {.input_tokens = 1}));
  EXPECT_EQ(client_.reset("gpt-4o"), QuotaCode::ok);
  EXPECT_EQ(state("gpt-4o").used, 0u);
}

TEST_P(CppQuota, quotas_are_put_paged_and_removed) {
  put("gpt-4o", {tokens(100), slots(3)});
  put("claude", {tokens(100)});
  EXPECT_EQ(client_.get_quota("gpt-4o")->limits.at(1).name, "slots");
  try {
    (void)client_.put_quota("bad", {.limits = {tokens(1), tokens(2)}});
    ADD_FAILURE() << "the server took two limits of one name";
  } catch (const InvalidQuota& fault) {
    EXPECT_STREQ(fault.what(),
                 "the quota is not valid: limits[1] (\"tokens\"), name: is also the name of an "
                 "earlier limit: names must differ");
  }
  std::vector<std::string> names;
  uint64_t cursor = 0;
  do {
    const SubjectPage page = client_.usage_page(cursor, 1);
    for (const SubjectState& each : page.subjects) names.push_back(each.name);
    cursor = page.cursor;
  } while (cursor != 0);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"claude", "gpt-4o"}));
  EXPECT_EQ(client_.remove_quota("gpt-4o"), QuotaCode::ok);
  EXPECT_EQ(client_.remove_quota("gpt-4o"), QuotaCode::no_such_quota);
  EXPECT_EQ(client_.reset_all(), QuotaCode::ok);
}

// ------------------------------------------------------------------ by go-ratelimit's names

TEST_P(CppQuota, has_the_calls_of_go_ratelimit) {
  constexpr uint64_t minute_ms = 60'000;
  put("gpt-4o", {{.name = "rpm", .amount = 5, .period_ms = minute_ms},
                 {.name = "tpm", .metric = Metric::tokens, .amount = 100, .period_ms = minute_ms},
                 {.name = "rpd", .amount = 50, .period_ms = 24 * 60 * minute_ms}});
  put("claude", {});
  EXPECT_TRUE(go_ratelimit::can_send(client_, "gpt-4o", 100));
  EXPECT_TRUE(go_ratelimit::record_usage(client_, "gpt-4o", 60, 20));
  EXPECT_FALSE(go_ratelimit::can_send(client_, "gpt-4o", 21));
  const auto denied = go_ratelimit::decide(client_, "gpt-4o", 21);
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.code, "tpm_exceeded");
  EXPECT_EQ(denied.reason, "per-minute token limit reached");
  EXPECT_GT(denied.retry_after_ms, 0);
  EXPECT_EQ(denied.stats, go_ratelimit::stats(client_, "gpt-4o"));
  const go_ratelimit::Stats used{
      .rpm = 1, .max_rpm = 5, .tpm = 80, .max_tpm = 100, .rpd = 1, .max_rpd = 50};
  EXPECT_EQ(denied.stats, used);
  EXPECT_EQ(go_ratelimit::all_stats(client_).at("gpt-4o"), used);
  EXPECT_EQ(go_ratelimit::models(client_).size(), 2u);
  EXPECT_EQ(go_ratelimit::decide(client_, "gpt-4o", -1).code, "invalid_tokens");
  EXPECT_EQ(go_ratelimit::decide(client_, "gpt-4o", 101).retry_after_ms, -1);
  const auto unknown = go_ratelimit::decide(client_, "unknown", 5);
  EXPECT_TRUE(unknown);
  EXPECT_EQ(unknown.reason, "model has no configured quota");
  EXPECT_TRUE(go_ratelimit::wait_for_capacity(client_, "gpt-4o", 20, 1s, 30'000));
  EXPECT_FALSE(go_ratelimit::wait_for_capacity(client_, "gpt-4o", 101, 1s));
  EXPECT_THROW((void)go_ratelimit::wait_for_capacity(client_, "gpt-4o", 1, -1ms),
               std::invalid_argument);
}

// A lease that is renewed outlives its lifetime; a holder that leaves frees its slot.
TEST_P(CppQuota, a_renewed_lease_is_held_beyond_its_lifetime) {
  put("gpu", {slots(1)});
  {
    const Reservation slot = client_.lease("gpu", {.lifetime_ms = 1'500, .renew = true});
    ASSERT_TRUE(slot);
    std::this_thread::sleep_for(3s);
    EXPECT_TRUE(slot.held());
    EXPECT_FALSE(client_.lease("gpu"));
  }
  wait_until_open("gpu", 0);
  EXPECT_TRUE(client_.lease("gpu"));
}

TEST_P(CppQuota, batches_say_when_to_retry) {
  put("gpt-4o", {tokens(100)});
  const std::vector<ReserveEntry> entries{{.subject = "gpt-4o", .input_tokens = 80},
                                          {.subject = "gpt-4o", .input_tokens = 30}};
  const QuotaBatchOutcome batch = client_.reserve_batch(entries);
  EXPECT_TRUE(batch.at(0));
  EXPECT_NE(batch.at(0).reservation, 0u);
  EXPECT_EQ(batch.at(0).retry_after_ms, 0);
  EXPECT_EQ(batch.at(1).code, QuotaCode::tokens_exceeded);
  EXPECT_GT(batch.at(1).retry_after_ms, 0);
  EXPECT_THROW((void)batch.at(2), std::out_of_range);
  const std::vector<SettleEntry> settles{{.reservation = batch.reservations[0]}};
  EXPECT_EQ(client_.settle_batch(settles).at(0).code, QuotaCode::ok);
}

INSTANTIATE_TEST_SUITE_P(Shards, CppQuota, ::testing::Values("1", "2", "4"));

}  // namespace
}  // namespace sluicegate
