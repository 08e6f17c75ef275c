// Goal: the client settles or cancels each reservation once, whatever its caller does; a denial has
// its cause. Method: a fake server with a script of the frames that it reads and writes.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// --------------------------------------------------------------------------------------- the guard

TEST(QuotaClient, settles_what_it_reserved) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  Reservation call = client.reserve("gpt-4o", {.input_tokens = 900,
                                               .max_output_tokens = 500,
                                               .lifetime_ms = 30'000,
                                               .owner = "worker 3",
                                               .connection_bound = true});
  ASSERT_TRUE(call);
  EXPECT_EQ(call.id(), reservation);
  EXPECT_TRUE(call.is_open());
  EXPECT_EQ(call.settle({.input_tokens = 880, .output_tokens = 312}).code, QuotaCode::ok);
  EXPECT_FALSE(call.is_open());
  const auto received = frames.wait_for(2);
  EXPECT_EQ(received[0].subjects, std::vector<std::string>{"gpt-4o"});
  EXPECT_EQ(received[0].flags, quota_flag::connection_bound);
  EXPECT_EQ(received[0].lifetime_ms, 30'000u);
  EXPECT_EQ(received[0].input_tokens, std::vector<uint64_t>{900});
  EXPECT_EQ(received[0].output_tokens, std::vector<uint64_t>{500});
  EXPECT_TRUE(received[0].requests.empty());
  EXPECT_EQ(received[0].owner, "worker 3");
  EXPECT_EQ(received[1].kind, Which::SETTLE);
  EXPECT_EQ(received[1].reservations, std::vector<uint64_t>{reservation});
  EXPECT_EQ(received[1].input_tokens, std::vector<uint64_t>{880});
  EXPECT_EQ(received[1].output_tokens, std::vector<uint64_t>{312});
  EXPECT_TRUE(received[1].requests.empty());
}

TEST(QuotaClient, guard_cancels_an_open_reservation_without_waiting) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      frames.add(received);
      if (received.kind != Which::CANCEL) peer.write(ok(received));
    }
  });
  Client client{address_of(server), quick()};
  { const Reservation forgotten = client.reserve("gpt-4o"); }  // the cancel is never answered
  const auto received = frames.wait_for(2);
  EXPECT_EQ(received[1].kind, Which::CANCEL);
  EXPECT_EQ(received[1].reservations, std::vector<uint64_t>{reservation});
}

// What the server receives of a guard that reports, and is then destroyed.
ReceivedFrame end_of_guard(OnException on_exception, const std::vector<Used>& reports,
                           bool by_exception) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  try {
    Reservation first = client.reserve("gpt-4o", {.on_exception = on_exception});
    for (const Used& used : reports) first.report(used);
    const Reservation call = std::move(first);
    if (by_exception) throw std::runtime_error("the stream broke");
  } catch (const std::runtime_error&) {
  }
  return frames.wait_for(2)[1];
}

const std::vector<Used> stream{{.input_tokens = 880, .output_tokens = 10},
                               {.output_tokens = 25, .cost = 3, .cached_input_tokens = 80}};

TEST(QuotaClient, a_guard_settles_what_was_reported_last) {
  for (const bool by_exception : {false, true}) {
    const ReceivedFrame end = end_of_guard(OnException::charge_reported, stream, by_exception);
    EXPECT_EQ(end.kind, Which::SETTLE);
    EXPECT_EQ(end.reservations, std::vector<uint64_t>{reservation});
    EXPECT_EQ(end.input_tokens, std::vector<uint64_t>{880});
    EXPECT_EQ(end.output_tokens, std::vector<uint64_t>{25});
    EXPECT_TRUE(end.requests.empty());  // as reserved
    EXPECT_EQ(end_of_guard(OnException::charge_reported, {}, by_exception).kind, Which::CANCEL);
  }
}

TEST(QuotaClient, on_exception_says_what_a_guard_does_that_one_destroys) {
  const ReceivedFrame all = end_of_guard(OnException::charge_all, stream, true);
  EXPECT_EQ(all.kind, Which::SETTLE);
  EXPECT_TRUE(all.input_tokens.empty() && all.output_tokens.empty());
  EXPECT_EQ(end_of_guard(OnException::charge_all, {}, true).kind, Which::SETTLE);
  EXPECT_EQ(end_of_guard(OnException::refund, stream, true).kind, Which::CANCEL);
  for (const OnException each : {OnException::charge_all, OnException::refund}) {
    EXPECT_EQ(end_of_guard(each, stream, false).output_tokens, std::vector<uint64_t>{25});
    EXPECT_EQ(end_of_guard(each, {}, false).kind, Which::CANCEL);
  }
}

// A handler that reserves while another exception is under way is not destroyed by that.
TEST(QuotaClient, a_guard_made_during_an_exception_is_not_ended_by_that) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  struct Cleaner {
    Client& client;
    ~Cleaner() {
      const Reservation call = client.reserve("gpt-4o", {.on_exception = OnException::charge_all});
    }
  };
  try {
    const Cleaner cleaner{client};
    throw std::runtime_error("another one");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(frames.wait_for(2)[1].kind, Which::CANCEL);
}

TEST(QuotaClient, a_wrong_report_changes_nothing) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  {
    Reservation call = client.reserve("gpt-4o");
    call.report({.input_tokens = 100, .output_tokens = 25});
    EXPECT_THROW(call.report({.cached_input_tokens = 101}), std::invalid_argument);
  }
  EXPECT_EQ(frames.wait_for(2)[1].output_tokens, std::vector<uint64_t>{25});
}

TEST(QuotaClient, a_guard_that_was_moved_from_or_detached_cancels_nothing) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  uint64_t kept = 0;
  {
    Reservation first = client.reserve("gpt-4o");
    Reservation second = std::move(first);
    EXPECT_FALSE(first.is_open());
    kept = second.detach();
  }
  EXPECT_EQ(kept, reservation);
  EXPECT_EQ(client.cancel_reservation(kept, true).code, QuotaCode::ok);
  const auto received = frames.wait_for(2);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[1].flags, quota_flag::keep_requests);
}

// The server must not refund used quota because the settle was lost.
TEST(QuotaClient, a_settle_without_an_answer_is_not_followed_by_a_cancel) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      frames.add(received);
      if (received.kind != Which::SETTLE) peer.write(ok(received));
    }
  });
  Client client{address_of(server), quick({.call_timeout = sent_before})};
  {
    Reservation call = client.reserve("gpt-4o");
    EXPECT_THROW((void)call.settle(), TimedOut);
    EXPECT_FALSE(call.is_open());
  }
  EXPECT_EQ(client.extend(7).code, QuotaCode::ok);
  const auto received = frames.wait_for(3);
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[2].kind, Which::EXTEND);
}

TEST(QuotaClient, a_lease_asks_for_no_request) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  Reservation slot = client.lease("gpu", {.owner = "job 7"});
  EXPECT_TRUE(slot);
  EXPECT_EQ(slot.extend(5'000).code, QuotaCode::ok);
  EXPECT_EQ(slot.release().code, QuotaCode::ok);
  const auto received = frames.wait_for(3);
  EXPECT_EQ(received[0].requests, std::vector<uint32_t>{0});
  EXPECT_EQ(received[1].lifetime_ms, 5'000u);
  EXPECT_EQ(received[2].kind, Which::CANCEL);
}

// The first connection is lost when it has received both.
TEST(QuotaClient, requeue_resends_charges_only_under_an_id) {
  Frames frames;
  std::atomic<int> connections{0};
  const FakeServer server = serve([&](Peer& peer) {
    if (connections++ > 0) return answering_ok(frames)(peer);
    while (frames.wait_for(0).size() < 2) frames.add(read_quota(peer));
  });
  ClientOptions options = quick();
  options.requeue = true;
  Client client{address_of(server), options};
  std::promise<QuotaOutcome> unnamed, named;
  client.consume_async({"a"}, {}, [&](const QuotaOutcome& outcome) { unnamed.set_value(outcome); });
  client.consume_async({"a"}, {}, [&](const QuotaOutcome& outcome) { named.set_value(outcome); },
                       {.id = "job"});
  EXPECT_EQ(unnamed.get_future().get().failure, Failure::connection_lost);
  EXPECT_EQ(named.get_future().get().code, QuotaCode::ok);
  const auto received = frames.wait_for(3);
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[2].ids, "job");
}

TEST(QuotaClient, a_consume_has_its_options_and_nothing_to_cancel) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  const QuotaOutcome outcome =
      client.consume({"gpt-4o", "acme"}, {.input_tokens = 880, .output_tokens = 312},
                     {.may_wait = true, .wait_limit_ms = 2'000, .id = "job 7"});
  EXPECT_EQ(outcome.code, QuotaCode::ok);
  EXPECT_EQ(client.record("acme", {.output_tokens = 5}, "job 8").code, QuotaCode::ok);
  const auto received = frames.wait_for(2);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].kind, Which::CONSUME);
  EXPECT_EQ(received[0].flags, quota_flag::may_wait);
  EXPECT_EQ(received[0].wait_limit_ms, 2'000u);
  EXPECT_EQ(received[0].subjects, (std::vector<std::string>{"gpt-4o", "acme"}));
  EXPECT_EQ(received[0].input_tokens, std::vector<uint64_t>{880});
  EXPECT_EQ(received[0].output_tokens, std::vector<uint64_t>{312});
  EXPECT_EQ(received[0].ids, "job 7");
  EXPECT_EQ(received[1].kind, Which::RECORD);
  EXPECT_EQ(received[1].ids, "job 8");
}

TEST(QuotaClient, callbacks_get_a_guard) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  std::promise<uint64_t> id;
  client.reserve_async("a", [&](Reservation call) { id.set_value(call.id()); });
  EXPECT_EQ(id.get_future().get(), reservation);
  EXPECT_EQ(frames.wait_for(2)[1].kind, Which::CANCEL);  // the callback dropped its guard
}

// ----------------------------------------------------------------------------------------- answers

TEST(QuotaClient, denial_is_a_value_with_its_cause) {
  const FakeServer server = serve([](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    EXPECT_EQ(received.flags, quota_flag::wants_violated);
    EXPECT_EQ(received.counts, (std::vector<uint8_t>{2}));
    peer.write(test::answer(received.id, [](auto frame) {
      auto to = frame.initQuotaAnswers();
      to.setCount(1);
      const kj::byte code = 7;
      to.setCodes(kj::arrayPtr(&code, 1));
      to.setRetryAfterMs({12'345});
      auto limits = to.initLimits();
      limits.setEntries({0U});
      limits.setSubjects({uint8_t{1}});
      limits.setNames(kj::arrayPtr(reinterpret_cast<const kj::byte*>("tpm"), 3));
      limits.setNameSizes({uint8_t{3}});
      limits.setMetrics({uint8_t{3}});
      limits.setKinds({uint8_t{2}});
      limits.setCeilings({uint8_t{0}});
      limits.setViolated({uint8_t{1}});
      limits.setAmounts({uint64_t{30'000}});
      limits.setUsed({uint64_t{29'900}});
      limits.setReserved({uint64_t{900}});
      limits.setRemaining({uint64_t{100}});
      limits.setPeriodMs({uint64_t{60'000}});
      limits.setResetMs({uint64_t{20'000}});
    }));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const Reservation denied = client.reserve({"{acme}", "{acme}.gpt-4o"}, {.wants_violated = true});
  EXPECT_FALSE(denied);
  EXPECT_FALSE(denied.is_open());
  const QuotaOutcome& outcome = denied.outcome();
  EXPECT_EQ(outcome.code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(reason(outcome.code), "per-minute token limit reached");
  EXPECT_TRUE(may_retry(outcome.code));
  EXPECT_EQ(outcome.retry_after_ms, 12'345);
  ASSERT_EQ(outcome.limits.size(), 1u);
  EXPECT_EQ(outcome.limits[0].name, "tpm");
  EXPECT_EQ(outcome.limits[0].subject, 1);
  EXPECT_EQ(outcome.limits[0].remaining, 100u);
}

TEST(QuotaClient, throws_for_calls_that_the_server_would_refuse) {
  const FakeServer server = serve([](Peer& peer) { peer.at_end(); });
  Client client{address_of(server), quick()};
  const std::vector<std::string_view> nine(9, "a");
  EXPECT_THROW((void)client.reserve(nine), std::invalid_argument);
  EXPECT_THROW((void)client.reserve("a", {.input_tokens = 1ULL << 63}), std::invalid_argument);
  EXPECT_THROW((void)client.reserve("a", {.cost = unset}), std::invalid_argument);
  EXPECT_THROW((void)client.reserve("a", {.lifetime_ms = 9}), std::invalid_argument);
  EXPECT_THROW((void)client.reserve("a", {.wait_limit_ms = 3'600'001}), std::invalid_argument);
  EXPECT_THROW((void)client.reserve("a", {.owner = std::string_view{std::string(129, 'o')}}),
               std::invalid_argument);
  EXPECT_THROW((void)client.settle(7, {.input_tokens = 5, .cached_input_tokens = 6}),
               std::invalid_argument);
  EXPECT_THROW((void)client.record("a", {.cached_input_tokens = 1}), std::invalid_argument);
  EXPECT_THROW((void)client.extend(7, 2'592'000'001), std::invalid_argument);
  EXPECT_EQ(client.pending(), 0u);
}

// The text of the exception that a call throws.
template <typename Fault, typename Call>
std::string thrown_by(Call call) {
  try {
    call();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "nothing was thrown";
}

template <typename Call>
std::string complaint_about(Call call) {
  return thrown_by<std::invalid_argument>(call);
}

TEST(QuotaClient, names_the_field_that_cannot_be_sent) {
  const FakeServer server = serve([](Peer& peer) { peer.at_end(); });
  Client client{address_of(server), quick()};
  const auto reserve = [&](const Subjects& subjects, const ReserveOptions& options) {
    return complaint_about([&] { (void)client.reserve(subjects, options); });
  };
  EXPECT_EQ(reserve("", {}), "subjects[0]: is empty");
  EXPECT_EQ(reserve({"{a}", "{a}b", "{a}"}, {}), "subjects[2]: \"{a}\" is a duplicate");
  EXPECT_EQ(reserve(std::vector<std::string_view>{}, {}),
            "subjects: must have 1 to 8 names, not 0");
  EXPECT_EQ(reserve("a", {.requests = keep}),
            "requests: must be at most 4294967294, not 4294967295");
  EXPECT_EQ(reserve("a", {.max_output_tokens = 1ULL << 63}),
            "max_output_tokens: must be at most 9223372036854775807, not 9223372036854775808");
  EXPECT_EQ(reserve("a", {.wait_limit_ms = 3'600'001}),
            "wait_limit_ms: must be at most 3600000, not 3600001");
  EXPECT_EQ(reserve("a", {.lifetime_ms = 9}),
            "lifetime_ms: must be 10 to 2592000000, or 0 for the server's default, not 9");
  EXPECT_EQ(reserve("a", {.id = std::string_view{std::string(129, 'i')}}),
            "id: has 129 bytes; at most 128 are allowed");
  EXPECT_EQ(complaint_about([&] { (void)client.record("a", {.cached_input_tokens = 1}); }),
            "cached_input_tokens: must be a part of input_tokens, not more");
  EXPECT_EQ(complaint_about([&] { (void)client.usage(""); }), "subject: is empty");
  EXPECT_EQ(complaint_about([&] { (void)client.put_quota("", {}); }), "subject: is empty");
  EXPECT_EQ(client.pending(), 0u);
}

TEST(QuotaClient, names_the_entry_of_a_batch_that_cannot_be_sent) {
  const FakeServer server = serve([](Peer& peer) { peer.at_end(); });
  Client client{address_of(server), quick()};
  const std::vector<ReserveEntry> entries{{.subject = "a"}, {.subject = "b", .cost = unset}};
  EXPECT_EQ(complaint_about([&] { (void)client.reserve_batch(entries); }),
            "entries[1], cost: must be at most 9223372036854775807, not 18446744073709551615");
  const std::vector<SettleEntry> used{{}, {.used = {.output_tokens = unset}}};
  EXPECT_EQ(complaint_about([&] { (void)client.settle_batch(used); }),
            "entries[1], output_tokens: must be at most 9223372036854775807, not "
            "18446744073709551615");
}

TEST(QuotaClient, names_the_limit_that_cannot_be_sent) {
  const FakeServer server = serve([](Peer& peer) { peer.at_end(); });
  Client client{address_of(server), quick()};
  const auto put = [&](const Quota& quota) {
    return complaint_about([&] { (void)client.put_quota("a", quota); });
  };
  EXPECT_EQ(put({.limits = {{.name = "rpm", .amount = 1, .period_ms = 60'000},
                            {.name = "tpm", .amount = unset, .period_ms = 60'000}}}),
            "limits[1] (\"tpm\"), amount: must be at most 9223372036854775807, not "
            "18446744073709551615");
  EXPECT_EQ(put({.limits = std::vector<Limit>(17)}), "limits: has 17; at most 16 are allowed");
  EXPECT_EQ(put({.limits = {{.name = "rpm", .metric = static_cast<Metric>(9)}}}),
            "limits[0] (\"rpm\"), metric: is no Metric");
}

TEST(QuotaClient, returns_the_code_of_a_change_that_is_not_in_the_state_file) {
  const std::vector<QuotaCode> sent{QuotaCode::not_durable, QuotaCode::memory_only,
                                    QuotaCode::not_durable, QuotaCode::memory_only,
                                    static_cast<QuotaCode>(200)};
  const FakeServer server = serve([&](Peer& peer) {
    for (const QuotaCode code : sent) peer.write(answers(read_quota(peer).id, 1, {code}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const std::vector<QuotaCode> got{client.put_quota("a", {}), client.remove_quota("a"),
                                   client.reset("a"), client.reset_all(), client.reset_all()};
  EXPECT_EQ(got, sent);
  for (const QuotaCode code : got) EXPECT_FALSE(admits(code)) << name(code);
}

// A server that knows the usage of gpt-4o alone, and is asked once.
FakeServer server_of_one_subject() {
  return serve([](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    peer.write(test::answer(received.id, [](auto frame) {
      auto reply = frame.initUsageReply();
      reply.setNames(kj::arrayPtr(reinterpret_cast<const kj::byte*>("gpt-4o"), 6));
      reply.setNameSizes({uint16_t{6}});
      reply.setSources({uint8_t{1}});
      reply.setOpenReservations({3U});
      reply.setWaiting({1U});
      reply.initQuotas(1)[0].initLimits(1)[0].setName("tpm");
    }));
    peer.at_end();
  });
}

TEST(QuotaClient, usage_is_reported_by_subject) {
  const FakeServer server = server_of_one_subject();
  Client client{address_of(server), quick()};
  const SubjectState state = client.usage("gpt-4o");
  EXPECT_EQ(state.source, QuotaSource::run_time);
  EXPECT_EQ(state.open_reservations, 3u);
  EXPECT_EQ(state.quota.limits.at(0).name, "tpm");
}

// No name is too long, so the owner of the one that is left out does not answer.
TEST(QuotaClient, usage_that_is_left_out_names_the_subject) {
  const FakeServer server = server_of_one_subject();
  Client client{address_of(server), quick()};
  try {
    (void)client.usage(std::vector<std::string_view>{"gpt-4o", "acme"});
    FAIL() << "acme is left out";
  } catch (const OwnerUnreachable& error) {
    EXPECT_TRUE(std::string_view{error.what()}.starts_with("acme: owner_unreachable: "))
        << error.what();
  }
}

}  // namespace
}  // namespace sluicegate
