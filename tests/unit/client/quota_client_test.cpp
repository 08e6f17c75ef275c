// Goal: a reservation is settled once or given back, whatever its caller and its server do; calls
// about quotas travel together. Method: a fake server whose script says frame by frame what it
// reads and what it writes.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fake_server.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using test::FakeServer;
using test::Peer;
namespace schema = sluice::schema;
using Which = schema::ClientFrame::Which;

constexpr uint64_t reservation = 0x0000'0011'89AB'CDEF;

FakeServer serve(FakeServer::Script script) {
  return FakeServer{FakeServer::welcoming(std::move(script)), 100};
}

std::string address_of(const FakeServer& server) {
  return "127.0.0.1:" + std::to_string(server.port());
}

ClientOptions quick(ClientOptions options = {}) {
  options.backoff_first = 1ms;
  options.backoff_longest = 5ms;
  return options;
}

// A frame, out of its lifetime.
struct Asked {
  uint64_t id = 0;
  Which kind{};
  uint8_t flags = 0;
  uint32_t wait_limit_ms = 0;
  uint32_t lifetime_ms = 0;
  std::vector<std::string> subjects;
  std::vector<uint8_t> counts;
  std::vector<uint64_t> reservations;
  std::vector<uint64_t> input_tokens;
  std::vector<uint64_t> output_tokens;
  std::vector<uint32_t> requests;
  std::vector<uint32_t> withdrawn;
  std::string owner;

  size_t entries() const {
    if (!reservations.empty()) return reservations.size();
    return counts.empty() ? subjects.size() : counts.size();
  }
};

template <typename To, typename List>
std::vector<To> values(const List& list) {
  std::vector<To> to;
  for (const auto value : list) to.push_back(static_cast<To>(value));
  return to;
}

template <typename Reader>
void read_subjects(Reader from, Asked& asked) {
  const auto bytes = from.getSubjects().asChars();
  size_t at = 0;
  for (const uint16_t size : from.getSubjectSizes()) {
    asked.subjects.emplace_back(bytes.begin() + at, size);
    at += size;
  }
}

void read_reserve(schema::Reserve::Reader from, Asked& asked) {
  read_subjects(from, asked);
  asked.counts = values<uint8_t>(from.getSubjectCounts());
  asked.flags = from.getFlags();
  asked.wait_limit_ms = from.getWaitLimitMs();
  asked.lifetime_ms = from.getLifetimeMs();
  asked.requests = values<uint32_t>(from.getRequests());
  asked.input_tokens = values<uint64_t>(from.getInputTokens());
  asked.output_tokens = values<uint64_t>(from.getMaxOutputTokens());
  asked.owner = from.getOwner().cStr();
}

Asked read(Peer& peer) {
  const auto frame = peer.read();
  Asked asked{.id = frame.getId(), .kind = frame.which()};
  if (frame.isReserve()) {
    read_reserve(frame.getReserve(), asked);
  } else if (frame.isCheck()) {
    read_reserve(frame.getCheck(), asked);
  } else if (frame.isSettle()) {
    const auto settle = frame.getSettle();
    asked.reservations = values<uint64_t>(settle.getReservations());
    asked.requests = values<uint32_t>(settle.getRequests());
    asked.input_tokens = values<uint64_t>(settle.getInputTokens());
    asked.output_tokens = values<uint64_t>(settle.getOutputTokens());
  } else if (frame.isCancel()) {
    asked.flags = frame.getCancel().getFlags();
    asked.reservations = values<uint64_t>(frame.getCancel().getReservations());
  } else if (frame.isExtend()) {
    asked.lifetime_ms = frame.getExtend().getLifetimeMs();
    asked.reservations = values<uint64_t>(frame.getExtend().getReservations());
  } else if (frame.isRecord()) {
    read_subjects(frame.getRecord(), asked);
    asked.output_tokens = values<uint64_t>(frame.getRecord().getOutputTokens());
  } else if (frame.isUsage()) {
    read_subjects(frame.getUsage(), asked);
  } else if (frame.isWithdraw()) {
    asked.withdrawn = values<uint32_t>(frame.getWithdraw().getEntries());
  }
  return asked;
}

std::string answers(uint64_t id, size_t count, const std::vector<QuotaCode>& codes,
                    const std::vector<uint64_t>& reservations = {},
                    const std::vector<int64_t>& retry_ms = {}) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initQuotaAnswers();
    to.setCount(static_cast<uint32_t>(count));
    const auto bytes = values<uint8_t>(codes);
    to.setCodes(kj::arrayPtr(bytes.data(), bytes.size()));
    if (!reservations.empty()) {
      to.setReservations(kj::arrayPtr(reservations.data(), reservations.size()));
    }
    if (!retry_ms.empty()) to.setRetryMs(kj::arrayPtr(retry_ms.data(), retry_ms.size()));
  });
}

std::string ok(const Asked& asked) {
  std::vector<uint64_t> given;
  if (asked.kind == Which::RESERVE) {
    for (size_t i = 0; i < asked.entries(); ++i) given.push_back(reservation + i);
  }
  return answers(asked.id, asked.entries(), {QuotaCode::ok}, given);
}

std::string done(uint64_t id) {
  return test::answer(id, [](auto frame) { frame.setDone(); });
}

std::string granted(uint64_t id, Verdict verdict, uint64_t given) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initGranted();
    to.setEntries({0U});
    const auto byte = static_cast<kj::byte>(verdict);
    to.setVerdicts(kj::arrayPtr(&byte, 1));
    if (given != 0) to.setReservations({given});
  });
}

// Frames as the script reads them, for the test to look at.
class Frames {
 public:
  void add(Asked asked) {
    const std::lock_guard lock{mutex_};
    all_.push_back(std::move(asked));
    changed_.notify_all();
  }
  std::vector<Asked> wait_for(size_t count) {
    std::unique_lock lock{mutex_};
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; }));
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Asked> all_;
};

// Says ok to all, and keeps what it was asked.
FakeServer::Script agreeing(Frames& frames) {
  return [&frames](Peer& peer) {
    for (;;) {
      const Asked asked = read(peer);
      frames.add(asked);
      peer.write(asked.kind == Which::WITHDRAW ? done(asked.id) : ok(asked));
    }
  };
}

// --------------------------------------------------------------------------------- the guard

TEST(QuotaClient, settles_what_it_reserved) {
  Frames frames;
  const FakeServer server = serve(agreeing(frames));
  Client client{address_of(server), quick()};
  Reservation call = client.reserve("gpt-4o", {.input_tokens = 900,
                                               .max_output_tokens = 500,
                                               .lifetime_ms = 30'000,
                                               .owner = "worker 3",
                                               .tied = true});
  ASSERT_TRUE(call);
  EXPECT_EQ(call.id(), reservation);
  EXPECT_TRUE(call.is_open());
  EXPECT_EQ(call.settle({.input_tokens = 880, .output_tokens = 312}).code, QuotaCode::ok);
  EXPECT_FALSE(call.is_open());
  const auto asked = frames.wait_for(2);
  EXPECT_EQ(asked[0].subjects, std::vector<std::string>{"gpt-4o"});
  EXPECT_EQ(asked[0].flags, quota_flag::tied);
  EXPECT_EQ(asked[0].lifetime_ms, 30'000u);
  EXPECT_EQ(asked[0].input_tokens, std::vector<uint64_t>{900});
  EXPECT_EQ(asked[0].output_tokens, std::vector<uint64_t>{500});
  EXPECT_TRUE(asked[0].requests.empty());
  EXPECT_EQ(asked[0].owner, "worker 3");
  EXPECT_EQ(asked[1].kind, Which::SETTLE);
  EXPECT_EQ(asked[1].reservations, std::vector<uint64_t>{reservation});
  EXPECT_EQ(asked[1].input_tokens, std::vector<uint64_t>{880});
  EXPECT_EQ(asked[1].output_tokens, std::vector<uint64_t>{312});
  EXPECT_TRUE(asked[1].requests.empty());
}

TEST(QuotaClient, a_guard_cancels_what_is_open_without_waiting) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const Asked asked = read(peer);
      frames.add(asked);
      if (asked.kind != Which::CANCEL) peer.write(ok(asked));
    }
  });
  Client client{address_of(server), quick()};
  { const Reservation forgotten = client.reserve("gpt-4o"); }  // the cancel is never answered
  const auto asked = frames.wait_for(2);
  EXPECT_EQ(asked[1].kind, Which::CANCEL);
  EXPECT_EQ(asked[1].reservations, std::vector<uint64_t>{reservation});
}

TEST(QuotaClient, a_guard_that_was_moved_from_or_detached_cancels_nothing) {
  Frames frames;
  const FakeServer server = serve(agreeing(frames));
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
  const auto asked = frames.wait_for(2);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[1].flags, quota_flag::keep_requests);
}

// What was used must not come back because its settle was lost.
TEST(QuotaClient, a_settle_without_an_answer_is_not_followed_by_a_cancel) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const Asked asked = read(peer);
      frames.add(asked);
      if (asked.kind != Which::SETTLE) peer.write(ok(asked));
    }
  });
  Client client{address_of(server), quick({.call_timeout = 100ms})};
  {
    Reservation call = client.reserve("gpt-4o");
    EXPECT_THROW(call.settle(), TimedOut);
    EXPECT_FALSE(call.is_open());
  }
  EXPECT_EQ(client.extend(7).code, QuotaCode::ok);
  const auto asked = frames.wait_for(3);
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[2].kind, Which::EXTEND);
}

TEST(QuotaClient, a_lease_asks_for_no_request) {
  Frames frames;
  const FakeServer server = serve(agreeing(frames));
  Client client{address_of(server), quick()};
  Reservation slot = client.lease("gpu", {.owner = "job 7"});
  EXPECT_TRUE(slot);
  EXPECT_EQ(slot.extend(5'000).code, QuotaCode::ok);
  EXPECT_EQ(slot.release().code, QuotaCode::ok);
  const auto asked = frames.wait_for(3);
  EXPECT_EQ(asked[0].requests, std::vector<uint32_t>{0});
  EXPECT_EQ(asked[1].lifetime_ms, 5'000u);
  EXPECT_EQ(asked[2].kind, Which::CANCEL);
}

// ------------------------------------------------------------------------------------ denials

TEST(QuotaClient, a_denial_is_a_value_that_tells_why) {
  const FakeServer server = serve([](Peer& peer) {
    const Asked asked = read(peer);
    EXPECT_EQ(asked.flags, quota_flag::wants_violated);
    EXPECT_EQ(asked.counts, (std::vector<uint8_t>{2}));
    peer.write(test::answer(asked.id, [](auto frame) {
      auto to = frame.initQuotaAnswers();
      to.setCount(1);
      const kj::byte code = 7;
      to.setCodes(kj::arrayPtr(&code, 1));
      to.setRetryMs({12'345});
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
  const Reservation denied = client.reserve({"{acme}", "{acme}.gpt-4o"}, {.tell_violated = true});
  EXPECT_FALSE(denied);
  EXPECT_FALSE(denied.is_open());
  const QuotaOutcome& outcome = denied.outcome();
  EXPECT_EQ(outcome.code, QuotaCode::tpm_exceeded);
  EXPECT_EQ(reason(outcome.code), "per-minute token limit reached");
  EXPECT_TRUE(may_retry(outcome.code));
  EXPECT_EQ(outcome.retry_ms, 12'345);
  ASSERT_EQ(outcome.limits.size(), 1u);
  EXPECT_EQ(outcome.limits[0].name, "tpm");
  EXPECT_EQ(outcome.limits[0].subject, 1);
  EXPECT_EQ(outcome.limits[0].remaining, 100u);
}

TEST(QuotaClient, what_the_server_would_refuse_a_frame_for_is_thrown_before) {
  const FakeServer server = serve([](Peer& peer) { peer.at_end(); });
  Client client{address_of(server), quick()};
  const std::vector<std::string_view> nine(9, "a");
  EXPECT_THROW(client.reserve(nine), std::invalid_argument);
  EXPECT_THROW(client.reserve("a", {.input_tokens = 1ULL << 63}), std::invalid_argument);
  EXPECT_THROW(client.reserve("a", {.cost = untold}), std::invalid_argument);
  EXPECT_THROW(client.reserve("a", {.lifetime_ms = 9}), std::invalid_argument);
  EXPECT_THROW(client.reserve("a", {.wait_limit_ms = 3'600'001}), std::invalid_argument);
  EXPECT_THROW(client.reserve("a", {.owner = std::string_view{std::string(129, 'o')}}),
               std::invalid_argument);
  EXPECT_THROW(client.settle(7, {.input_tokens = 5, .cached_input_tokens = 6}),
               std::invalid_argument);
  EXPECT_THROW(client.record("a", {.cached_input_tokens = 1}), std::invalid_argument);
  EXPECT_THROW(client.extend(7, 2'592'000'001), std::invalid_argument);
  EXPECT_EQ(client.pending(), 0u);
}

// ----------------------------------------------------------------------------- natural batching

// The first frame is held back; what comes meanwhile travels together.
TEST(QuotaClient, calls_that_agree_gather_and_ends_overtake_beginnings) {
  Frames frames;
  std::promise<void> all_asked;
  const FakeServer server = serve([&](Peer& peer) {
    const Asked first = read(peer);
    frames.add(first);
    all_asked.get_future().wait();
    peer.write(ok(first));
    for (;;) {
      const Asked asked = read(peer);
      frames.add(asked);
      peer.write(ok(asked));
    }
  });
  Client client{address_of(server), quick({.frames_in_flight = 1})};
  std::vector<std::future<Reservation>> reserved;
  reserved.push_back(client.reserve_future("first"));
  frames.wait_for(1);
  for (int i = 0; i < 3; ++i) {
    reserved.push_back(client.reserve_future("a", {.input_tokens = i == 2 ? 5U : 0U}));
    client.settle_async(7, {.output_tokens = 1});
  }
  reserved.push_back(client.reserve_future("b", {.lifetime_ms = 1'000}));
  all_asked.set_value();
  std::vector<uint64_t> ids;
  for (auto& each : reserved) ids.push_back(each.get().detach());
  const auto asked = frames.wait_for(5);
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_EQ(asked[1].subjects.size(), 1u);  // then a settle, which a reserve must not overtake
  EXPECT_EQ(asked[2].reservations.size(), 3u);
  EXPECT_EQ(asked[3].subjects.size(), 2u);
  EXPECT_EQ(asked[3].input_tokens, (std::vector<uint64_t>{untold, 5}));
  EXPECT_EQ(asked[4].lifetime_ms, 1'000u);
  EXPECT_EQ(ids[3], reservation + 1);
}

TEST(QuotaClient, batches_are_frames_of_many_entries) {
  Frames frames;
  const FakeServer server = serve(agreeing(frames));
  Client client{address_of(server), quick()};
  std::vector<ReserveEntry> wanted(1'500, {.subject = "gpt-4o", .input_tokens = 10});
  wanted[0].max_output_tokens = 7;
  const auto got = client.reserve_batch(wanted, {.lifetime_ms = 1'000});
  EXPECT_TRUE(got.all_admitted());
  ASSERT_EQ(got.reservations.size(), 1'500u);
  EXPECT_EQ(got.reservations[1'023], reservation + 1'023);
  EXPECT_EQ(got.reservations[1'024], reservation);
  std::vector<SettleEntry> used;
  for (const uint64_t id : got.reservations) used.push_back({id, {.output_tokens = 3}});
  EXPECT_TRUE(client.settle_batch(used).all_admitted());
  const auto asked = frames.wait_for(4);
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[0].entries(), 1'024u);
  EXPECT_EQ(asked[0].lifetime_ms, 1'000u);
  EXPECT_EQ(asked[0].output_tokens[0], 7u);
  EXPECT_EQ(asked[0].output_tokens[1], untold);
  EXPECT_EQ(asked[3].output_tokens, std::vector<uint64_t>(476, 3));
}

TEST(QuotaClient, a_batch_tells_each_entry_its_code) {
  const FakeServer server = serve([](Peer& peer) {
    const Asked asked = read(peer);
    peer.write(answers(asked.id, 3, {QuotaCode::ok, QuotaCode::rpm_exceeded, QuotaCode::draining},
                       {reservation, 0, 0}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const std::vector<ReserveEntry> wanted{{.subject = "a"}, {.subject = "b"}, {.subject = "c"}};
  try {
    client.reserve_batch(wanted);
    FAIL() << "a server that drains has not decided";
  } catch (const QuotaIncomplete& incomplete) {
    EXPECT_EQ(incomplete.outcome().codes,
              (std::vector<QuotaCode>{QuotaCode::ok, QuotaCode::rpm_exceeded, QuotaCode::none}));
    EXPECT_EQ(incomplete.outcome().reservations, (std::vector<uint64_t>{reservation, 0, 0}));
    EXPECT_EQ(incomplete.outcome().failed, 1u);
    EXPECT_EQ(incomplete.outcome().failure, Failure::draining);
  }
}

// ------------------------------------------------------------------------------------- waiting

TEST(QuotaClient, waits_for_its_turn) {
  const FakeServer server = serve([](Peer& peer) {
    const Asked asked = read(peer);
    EXPECT_EQ(asked.flags, quota_flag::may_wait);
    EXPECT_EQ(asked.wait_limit_ms, 60'000u);
    peer.write(answers(asked.id, 1, {QuotaCode::queued}));
    peer.write(granted(asked.id, Verdict::approved, reservation));
    const Asked settled = read(peer);
    peer.write(ok(settled));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  Reservation call = client.reserve("gpt-4o", {.may_wait = true, .wait_limit_ms = 60'000});
  EXPECT_TRUE(call);
  EXPECT_EQ(call.id(), reservation);
  EXPECT_EQ(call.settle().code, QuotaCode::ok);
}

TEST(QuotaClient, ends_of_a_wait_are_codes) {
  const std::map<Verdict, QuotaCode> ends{{Verdict::wait_limit, QuotaCode::wait_limit},
                                          {Verdict::withdrawn, QuotaCode::withdrawn},
                                          {Verdict::never_fits, QuotaCode::exceeds_limit}};
  const FakeServer server = serve([&](Peer& peer) {
    for (const auto& [verdict, code] : ends) {
      const Asked asked = read(peer);
      peer.write(answers(asked.id, 1, {QuotaCode::queued}));
      peer.write(granted(asked.id, verdict, 0));
    }
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  for (const auto& [verdict, code] : ends) {
    EXPECT_EQ(client.reserve("a", {.may_wait = true}).outcome().code, code);
  }
}

TEST(QuotaClient, a_stop_token_withdraws_it) {
  std::stop_source stop;
  const FakeServer server = serve([&](Peer& peer) {
    const Asked asked = read(peer);
    peer.write(answers(asked.id, 1, {QuotaCode::queued}));
    stop.request_stop();
    const Asked withdraw = read(peer);
    EXPECT_EQ(withdraw.kind, Which::WITHDRAW);
    EXPECT_EQ(withdraw.withdrawn, std::vector<uint32_t>{0});
    peer.write(granted(asked.id, Verdict::withdrawn, 0));
    peer.write(done(withdraw.id));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const Reservation call = client.reserve("a", {.may_wait = true}, stop.get_token());
  EXPECT_EQ(call.outcome().code, QuotaCode::withdrawn);
}

// Nobody holds the guard of what came too late.
TEST(QuotaClient, what_comes_for_who_has_left_is_cancelled) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    const Asked asked = read(peer);
    frames.wait_for(1);
    peer.write(answers(asked.id, 1, {QuotaCode::ok}, {reservation}));
    for (;;) frames.add(read(peer));
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW(client.reserve("a", {.timeout = 50ms}), TimedOut);
  frames.add({});
  const auto asked = frames.wait_for(2);
  EXPECT_EQ(asked[1].kind, Which::CANCEL);
  EXPECT_EQ(asked[1].reservations, std::vector<uint64_t>{reservation});
}

TEST(QuotaClient, what_has_an_id_of_its_callers_is_left_to_be_found_by_it) {
  Frames frames;
  const FakeServer server = serve([&](Peer& peer) {
    const Asked asked = read(peer);
    frames.wait_for(1);
    peer.write(answers(asked.id, 1, {QuotaCode::ok}, {reservation}));
    for (;;) {
      const Asked next = read(peer);
      frames.add(next);
      peer.write(ok(next));
    }
  });
  Client client{address_of(server), quick()};
  EXPECT_THROW(client.reserve("a", {.id = "call-1", .timeout = 50ms}), TimedOut);
  frames.add({});
  EXPECT_EQ(client.reserve("a", {.id = "call-1"}).detach(), reservation);
  EXPECT_EQ(frames.wait_for(2)[1].kind, Which::RESERVE);
}

// ------------------------------------------------------------------------------------ failures

TEST(QuotaClient, a_lost_connection_is_a_failure_by_the_policy) {
  const auto lose = [](Peer& peer) { read(peer); };
  const FakeServer server = serve(lose);
  Client strict{address_of(server), quick()};
  EXPECT_THROW(strict.reserve("a"), ConnectionLost);
  Client open{address_of(server), quick({.on_failure = OnFailure::open})};
  Reservation call = open.reserve("a");
  EXPECT_TRUE(call);
  EXPECT_EQ(call.outcome().failure, Failure::connection_lost);
  EXPECT_EQ(call.id(), 0u);
  EXPECT_EQ(call.settle().code, QuotaCode::ok);  // there is nothing to be settled
  Client closed{address_of(server), quick({.on_failure = OnFailure::closed})};
  const Reservation denied = closed.reserve("a");
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.outcome().code, QuotaCode::none);
}

TEST(QuotaClient, a_server_that_drains_has_not_denied) {
  const FakeServer server = serve([](Peer& peer) {
    const Asked asked = read(peer);
    peer.write(answers(asked.id, 1, {QuotaCode::draining}));
    peer.at_end();
  });
  Client client{address_of(server), quick({.on_failure = OnFailure::open})};
  const Reservation call = client.reserve("a");
  EXPECT_TRUE(call);
  EXPECT_EQ(call.outcome().failure, Failure::draining);
}

TEST(QuotaClient, callbacks_get_a_guard) {
  Frames frames;
  const FakeServer server = serve(agreeing(frames));
  Client client{address_of(server), quick()};
  std::promise<uint64_t> id;
  client.reserve_async("a", [&](Reservation call) { id.set_value(call.id()); });
  EXPECT_EQ(id.get_future().get(), reservation);
  EXPECT_EQ(frames.wait_for(2)[1].kind, Which::CANCEL);  // the callback let go of it
}

TEST(QuotaClient, close_completes_what_waits) {
  std::promise<void> is_queued;
  const FakeServer server = serve([&](Peer& peer) {
    const Asked asked = read(peer);
    peer.write(answers(asked.id, 1, {QuotaCode::queued}));
    is_queued.set_value();
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  auto call = client.reserve_future("a", {.may_wait = true});
  is_queued.get_future().wait();
  client.close();
  const Reservation closed = call.get();
  EXPECT_EQ(closed.outcome().failure, Failure::closed);
  EXPECT_FALSE(closed);
}

// ------------------------------------------------------------------------------------- shards

// The upper 8 bits of a reservation's id name the shard that holds it.
TEST(QuotaClient, reservations_go_to_their_shard) {
  Frames frames;
  std::mutex mutex;
  std::map<uint64_t, uint32_t> shard_of_frame;  // by reservation
  const FakeServer server{
      [&](Peer& peer) {
        const auto hello = peer.read().getHello();
        const uint32_t wanted = hello.getWantedShard();
        const uint32_t own = wanted == 0 ? 0 : wanted - 1;
        peer.write(test::welcome(4, {.own = own, .count = 2}));
        for (;;) {
          const auto frame = peer.read();
          if (frame.isPing()) {
            peer.write(test::answer(frame.getId(), [](auto answer) { answer.setPong(); }));
            continue;
          }
          const auto named = values<uint64_t>(frame.getSettle().getReservations());
          {
            const std::lock_guard lock{mutex};
            for (const uint64_t id : named) shard_of_frame[id] = own;
          }
          peer.write(answers(frame.getId(), named.size(), {QuotaCode::ok}));
        }
      },
      100};
  Client client{address_of(server), quick()};
  while (client.connections() < 2) std::this_thread::sleep_for(1ms);
  const uint64_t of_first = 5, of_second = uint64_t{1} << 56 | 5;
  client.settle(of_first);
  client.settle(of_second);
  const std::vector<SettleEntry> both{{of_first + 1, {}}, {of_second + 1, {}}};
  EXPECT_TRUE(client.settle_batch(both).all_admitted());
  const std::lock_guard lock{mutex};
  EXPECT_EQ(shard_of_frame,
            (std::map<uint64_t, uint32_t>{
                {of_first, 0}, {of_second, 1}, {of_first + 1, 0}, {of_second + 1, 1}}));
}

TEST(QuotaClient, usage_is_told_by_subject) {
  const FakeServer server = serve([](Peer& peer) {
    const Asked asked = read(peer);
    peer.write(test::answer(asked.id, [](auto frame) {
      auto told = frame.initUsageTold();
      told.setNames(kj::arrayPtr(reinterpret_cast<const kj::byte*>("gpt-4o"), 6));
      told.setNameSizes({uint16_t{6}});
      told.setSources({uint8_t{1}});
      told.setOpenReservations({3U});
      told.setWaiting({1U});
      told.initQuotas(1)[0].initLimits(1)[0].setName("tpm");
    }));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const SubjectState state = client.usage("gpt-4o");
  EXPECT_EQ(state.source, QuotaSource::run_time);
  EXPECT_EQ(state.open_reservations, 3u);
  EXPECT_EQ(state.quota.limits.at(0).name, "tpm");
}

TEST(QuotaNames, codes_have_the_servers_names) {
  EXPECT_EQ(name(QuotaCode::tpm_exceeded), "tpm_exceeded");
  EXPECT_EQ(name(QuotaCode::no_such_quota), "no_such_quota");
  EXPECT_EQ(name(static_cast<QuotaCode>(200)), "unknown");
  EXPECT_FALSE(may_retry(QuotaCode::exceeds_limit));
}

}  // namespace
}  // namespace sluicegate
