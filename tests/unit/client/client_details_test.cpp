// Goal: a call that wants details gets those of its own entry, in each way to make it; the others
// send no wish for them and get none.
// Method: a fake server whose details differ for each key and window.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client_scripts.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {
namespace {

using namespace test;

constexpr uint8_t wanted =
    detail::limit | detail::window | detail::remaining | detail::reset | detail::retry;

// Of key "k7": limit 7, remaining 17, window 27, reset 37, retry 47.
Outcome details_of(const std::string& key) {
  const auto number = static_cast<uint32_t>(std::stoul(key.substr(1)));
  return {.verdict = Verdict::denied,
          .failure = Failure::none,
          .limit = number,
          .remaining = number + 10,
          .window_ms = number + 20,
          .reset_ms = number + 30,
          .retry_after_ms = number + 40};
}

template <typename To>
void fill(To to, const std::vector<std::string>& keys, uint8_t details) {
  if (details == 0) return;
  const auto count = static_cast<unsigned>(keys.size());
  auto columns = to.initDetails();
  auto limit = columns.initLimit(count);
  auto remaining = columns.initRemaining(count);
  auto window = columns.initWindowMs(count);
  auto reset = columns.initResetMs(count);
  auto retry = columns.initRetryAfterMs(count);
  for (unsigned i = 0; i < count; ++i) {
    const Outcome of = details_of(keys[i]);
    limit.set(i, of.limit);
    remaining.set(i, of.remaining);
    window.set(i, of.window_ms);
    reset.set(i, of.reset_ms);
    retry.set(i, of.retry_after_ms);
  }
}

// Denies at once what may not wait; the rest is queued, and denied in another frame.
class DetailingServer {
 public:
  std::string address() const { return address_of(server_); }
  // The wishes of each frame so far.
  std::vector<uint8_t> wishes() {
    const std::lock_guard lock{mutex_};
    return wishes_;
  }

 private:
  void script(Peer& peer) {
    std::vector<std::string> keys_of_handles;
    for (;;) {
      const auto frame = peer.read();
      const Question question = question_of(frame);
      if (frame.isPing()) {
        peer.write(pong(question.id));
      } else if (frame.isIntern()) {
        keys_of_handles = question.keys;
        peer.write(interned_from(question, 0));
      } else if (frame.isAcquireByHandle()) {
        std::vector<std::string> keys;
        for (const uint32_t handle : question.numbers) keys.push_back(keys_of_handles.at(handle));
        answer_keys(peer, question.id, keys, frame.getAcquireByHandle().getDetails(), false);
      } else {
        const auto acquire = frame.getAcquire();
        answer_keys(peer, question.id, question.keys, acquire.getDetails(),
                    (acquire.getFlags() & 1) != 0);
      }
    }
  }
  void answer_keys(Peer& peer, uint64_t id, const std::vector<std::string>& keys, uint8_t details,
                   bool may_wait) {
    {
      const std::lock_guard lock{mutex_};
      wishes_.push_back(details);
    }
    const uint8_t verdict = may_wait ? queued : denied;
    peer.write(test::answer(id, [&](auto frame) {
      auto to = frame.initVerdicts();
      to.setCount(static_cast<uint32_t>(keys.size()));
      to.setVerdicts(kj::arrayPtr(&verdict, 1));
      fill(to, keys, details);
    }));
    for (uint32_t i = 0; may_wait && i < keys.size(); ++i) {
      peer.write(test::answer(id, [&](auto frame) {
        auto to = frame.initGranted();
        to.setEntries({i});
        to.setVerdicts(kj::arrayPtr(&denied, 1));
        fill(to, {keys[i]}, details);
      }));
    }
  }

  std::mutex mutex_;
  std::vector<uint8_t> wishes_;
  FakeServer server_{serve([this](Peer& peer) { script(peer); })};
};

void expect_details(const Outcome& got, const Outcome& expected) {
  EXPECT_EQ(got.verdict, expected.verdict);
  EXPECT_EQ(got.failure, expected.failure);
  EXPECT_EQ(got.limit, expected.limit);
  EXPECT_EQ(got.remaining, expected.remaining);
  EXPECT_EQ(got.window_ms, expected.window_ms);
  EXPECT_EQ(got.reset_ms, expected.reset_ms);
  EXPECT_EQ(got.retry_after_ms, expected.retry_after_ms);
}

constexpr AcquireOptions with_details{.wants_details = true};
constexpr AcquireOptions waiting{.may_wait = true, .wait_limit_ms = 60'000, .wants_details = true};

TEST(ClientDetails, of_single_calls) {
  DetailingServer server;
  Client client{server.address(), quick()};
  for (const AcquireOptions& options : {with_details, waiting}) {
    expect_details(client.acquire("k7", options), details_of("k7"));
    Outcomes outcomes;
    client.acquire_async("k8", outcomes.next(), options);
    expect_details(outcomes.wait_for(1).at(0), details_of("k8"));
    expect_details(client.acquire_future("k9", options).get(), details_of("k9"));
  }
  EXPECT_EQ(server.wishes(), std::vector<uint8_t>(6, wanted));
}

TEST(ClientDetails, a_call_that_wants_none_sends_no_wish) {
  DetailingServer server;
  Client client{server.address(), quick()};
  const std::vector<std::string_view> keys{"k1", "k2"};
  expect_details(client.acquire("k7"), {.verdict = Verdict::denied});
  expect_details(client.acquire_future("k7").get(), {.verdict = Verdict::denied});
  const BatchOutcome batch = client.acquire_batch(keys);
  EXPECT_TRUE(batch.limit.empty() && batch.remaining.empty() && batch.window_ms.empty() &&
              batch.reset_ms.empty() && batch.retry_after_ms.empty());
  expect_details(batch[1], {.verdict = Verdict::denied});
  EXPECT_EQ(server.wishes(), std::vector<uint8_t>(3, 0));
}

// Calls with and without details have different frames.
TEST(ClientDetails, calls_that_want_none_share_no_frame_with_those_that_do) {
  DetailingServer server;
  Client client{server.address(), quick()};
  std::vector<std::future<Outcome>> with, without;
  for (int i = 0; i < 100; ++i) {
    with.push_back(client.acquire_future("k" + std::to_string(i), with_details));
    without.push_back(client.acquire_future("k" + std::to_string(i)));
  }
  for (int i = 0; i < 100; ++i) {
    expect_details(with[i].get(), details_of("k" + std::to_string(i)));
    expect_details(without[i].get(), {.verdict = Verdict::denied});
  }
}

TEST(ClientDetails, of_batches) {
  DetailingServer server;
  Client client{server.address(), quick()};
  std::vector<std::string> keys;
  for (int i = 0; i < 3'000; ++i) keys.push_back("k" + std::to_string(i));
  const std::vector<std::string_view> views{keys.begin(), keys.end()};
  const std::vector<std::string_view> few{views.begin() + 5, views.begin() + 8};
  const auto handles = client.intern(few);
  const auto expect_all = [](const BatchOutcome& batch, const auto& asked) {
    ASSERT_EQ(batch.verdicts.size(), asked.size());
    for (size_t i = 0; i < asked.size(); ++i) {
      expect_details(batch.at(i), details_of(std::string{asked[i]}));
    }
  };
  expect_all(client.acquire_batch(views, with_details), views);
  expect_all(client.acquire_batch(few, waiting), few);
  expect_all(client.acquire_batch(handles, with_details), few);
}

// ------------------------------------------------------------------------ outcomes of an entry

TEST(BatchOutcome, an_entry_says_whether_it_has_failed) {
  std::atomic<int> frames{0};
  const FakeServer server = serve([&](Peer& peer) {
    for (;;) {
      const Question question = read(peer);
      if (++frames == 2) return;  // the other frame is answered
      peer.write(verdict_for_all(question, denied));
    }
  });
  std::vector<std::string> keys(1'025);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = "k" + std::to_string(i);
  const std::vector<std::string_view> views{keys.begin(), keys.end()};
  Client client{address_of(server), quick({.on_failure = OnFailure::open})};
  const BatchOutcome batch = client.acquire_batch(views);
  EXPECT_EQ(batch.failed, 1u);
  expect_details(batch.at(0), {.verdict = Verdict::denied});
  expect_details(batch.at(1'024),
                 {.verdict = Verdict::approved, .failure = Failure::connection_lost});
  EXPECT_THROW((void)batch.at(1'025), std::out_of_range);
}

TEST(BatchOutcome, of_waiting_entries_says_which_have_failed) {
  const FakeServer server = serve([](Peer& peer) {
    for (bool has_queued = false; !has_queued;) {  // each has a frame of its own, or one has both
      const Question question = read(peer);
      std::vector<uint8_t> column;
      for (const std::string& key : question.keys) column.push_back(key == "a" ? denied : queued);
      has_queued = column.back() == queued;
      peer.write(test::verdicts(question.id, static_cast<unsigned>(column.size()), column));
    }
  });
  const std::vector<std::string_view> keys{"a", "b"};
  Client client{address_of(server), quick({.on_failure = OnFailure::closed})};
  const BatchOutcome batch = client.acquire_batch(keys, waiting);
  EXPECT_EQ(batch.at(0).failure, Failure::none);
  EXPECT_EQ(batch.at(1).failure, Failure::connection_lost);
  EXPECT_EQ(batch.at(1).verdict, Verdict::denied);
}

TEST(QuotaOutcome, names_the_limit_that_denies_longest) {
  QuotaOutcome outcome;
  EXPECT_EQ(outcome.violated(), nullptr);
  EXPECT_FALSE(outcome.remaining());
  EXPECT_FALSE(outcome.reset());
  outcome.limits = {{.name = "rpm", .violated = true, .remaining = 3, .reset_ms = 500},
                    {.name = "rpd", .violated = true, .remaining = 2, .reset_ms = 9'000},
                    {.name = "month", .violated = false, .remaining = 1, .reset_ms = 90'000}};
  ASSERT_NE(outcome.violated(), nullptr);
  EXPECT_EQ(outcome.violated()->name, "rpd");
  EXPECT_EQ(outcome.remaining(), 2u);
  EXPECT_EQ(outcome.reset(), std::chrono::milliseconds{9'000});
}

}  // namespace
}  // namespace sluicegate
