// Goal:   the client lives through the greatest time-outs and pauses that it takes, to their end
//         and no longer.
// Method: the whole client in simulated time, at its greatest values, against a server that takes
//         no connection, greets nobody, or answers no call.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include <cstring>

#include "clients/cpp/src/client_impl.hpp"
#include "clients/cpp/src/option_bounds.hpp"
#include "sim_platform.hpp"
#include "sluicegate.capnp.h"
#include "tests/unit/client/fake_server.hpp"

namespace sluicegate::simulation {
namespace {

using namespace std::chrono_literals;

constexpr auto year = longest_time;
constexpr auto about_now_late = 21ms;  // deadlines of callbacks
constexpr uint32_t wait_limit_ms = wait_limit_bound.greatest;
constexpr auto wait_limit = std::chrono::milliseconds{wait_limit_ms};

enum class Manners : uint8_t { refuses, ignores, is_mute, greets, answers };

class Server final : public Listener {
 public:
  // The manners of each attempt to connect; the last ones stay.
  Server(SimPlatform& platform, std::vector<Manners> manners)
      : platform_{platform}, manners_{std::move(manners)} {
    platform_.listen(*this);
  }

  Arrival knock() override {
    manner_ = manners_[std::min(attempts.size(), manners_.size() - 1)];
    attempts.push_back(platform_.now());
    if (manner_ == Manners::refuses) return Arrival::refused;
    return manner_ == Manners::ignores ? Arrival::silent : Arrival::accepted;
  }
  void accept(uint32_t) override { inbound_.clear(); }
  void receive(uint32_t connection, std::string_view bytes) override {
    inbound_.append(bytes);
    while (inbound_.size() >= sizeof(uint64_t)) {
      uint64_t table = 0;
      std::memcpy(&table, inbound_.data(), sizeof table);
      const size_t words = 1 + (table >> 32);
      if (inbound_.size() < words * sizeof(uint64_t)) return;
      std::vector<uint64_t> frame(words);
      std::memcpy(frame.data(), inbound_.data(), words * sizeof(uint64_t));
      inbound_.erase(0, words * sizeof(uint64_t));
      take(connection, frame);
    }
  }
  void client_left(uint32_t) override {}

  std::vector<Time> attempts{};

 private:
  void take(uint32_t connection, const std::vector<uint64_t>& frame) {
    capnp::FlatArrayMessageReader message{kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(frame.data()), frame.size())};
    const auto root = message.getRoot<sluice::schema::ClientFrame>();
    if (root.isHello() && manner_ >= Manners::greets) {
      platform_.write(connection, test::welcome(), {});
    } else if (root.isAcquire() && manner_ == Manners::answers) {
      platform_.write(connection, test::verdicts(root.getId(), 1, {1}), {});
    }
  }

  SimPlatform& platform_;
  std::vector<Manners> manners_;
  Manners manner_ = Manners::refuses;
  std::string inbound_;
};

class LongestTimes : public testing::Test {
 protected:
  Client client(ClientOptions options, std::vector<Manners> manners) {
    options.on_failure = OnFailure::closed;  // outcomes instead of exceptions
    server_.emplace(platform_, std::move(manners));
    return Client{std::make_unique<ClientImpl>(Address{"simulated", 1}, options, platform_)};
  }
  // How long it takes, up to this; nothing else happens before.
  template <typename Make>
  Clock::duration length_of(Clock::duration longest, Make make) {
    const Time begin = platform_.now();
    platform_.set_due(begin + longest);
    make();
    return platform_.now() - begin;
  }

  SimPlatform platform_{1};
  std::optional<Server> server_;
};

TEST_F(LongestTimes, an_attempt_to_connect_lasts_a_year) {
  for (const Manners manners : {Manners::ignores, Manners::is_mute}) {
    Client client = this->client({.connect_timeout = year, .call_timeout = year}, {manners});
    Failure failure = Failure::none;
    const auto length = length_of(year, [&] {
      failure = client.acquire("a", {.may_wait = true, .wait_limit_ms = wait_limit_ms}).failure;
    });
    EXPECT_EQ(failure, Failure::unreachable);
    EXPECT_EQ(length, year);
  }
}

TEST_F(LongestTimes, a_call_lasts_a_year) {
  Client client = this->client({.call_timeout = year}, {Manners::greets});
  const std::vector<std::string_view> keys{"a", "b"};
  const std::vector<ReserveEntry> entries{{.subject = "a"}};
  Failure failure = Failure::none;
  const std::vector<std::function<void()>> calls{
      [&] { failure = client.acquire("a").failure; },
      [&] { failure = client.acquire("a", {.timeout = std::chrono::milliseconds::max()}).failure; },
      [&] { failure = client.acquire_batch(keys).failure; },
      [&] { failure = client.reserve("a").outcome().failure; },
      [&] { failure = client.reserve_batch(entries).failure; },
      [&] { EXPECT_THROW(client.ping(), TimedOut); }};
  for (const auto& call : calls) {
    failure = Failure::timed_out;
    EXPECT_EQ(length_of(year, call), year);
    EXPECT_EQ(failure, Failure::timed_out);
  }
}

TEST_F(LongestTimes, a_callback_comes_after_a_year) {
  Client client = this->client({.call_timeout = year}, {Manners::greets});
  std::optional<Outcome> outcome;
  Time end{};
  const Time begin = platform_.now();
  platform_.set_due(begin + year);
  client.acquire_async("a", [&](const Outcome& got) {
    outcome = got;
    end = platform_.now();
  });
  platform_.pause(year + about_now_late);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failure, Failure::timed_out);
  EXPECT_GE(end - begin, year);
}

TEST_F(LongestTimes, a_wait_lasts_its_limit_and_a_year) {
  Client client = this->client({.call_timeout = year}, {Manners::greets});
  const AcquireOptions options{.may_wait = true, .wait_limit_ms = wait_limit_ms};
  const std::vector<std::string_view> keys{"a", "b"};
  const std::vector<std::function<void()>> calls{
      [&] { EXPECT_EQ(client.acquire("a", options).failure, Failure::timed_out); },
      [&] { EXPECT_EQ(client.acquire_batch(keys, options).failure, Failure::timed_out); }};
  for (const auto& call : calls) EXPECT_EQ(length_of(year + wait_limit, call), year + wait_limit);
}

TEST_F(LongestTimes, the_pause_between_attempts_lasts_up_to_a_year) {
  constexpr size_t attempts = 40;  // so that the pause has doubled as often as it may
  std::vector<Manners> manners(attempts, Manners::refuses);
  manners.push_back(Manners::answers);
  Client client = this->client({.requeue = true, .backoff_first = year, .backoff_longest = year},
                               std::move(manners));
  EXPECT_TRUE(client.acquire("a", {.may_wait = true}));
  ASSERT_EQ(server_->attempts.size(), attempts + 1);
  for (size_t i = 1; i < server_->attempts.size(); ++i) {
    const auto pause = server_->attempts[i] - server_->attempts[i - 1];
    EXPECT_GE(pause, year / 2);
    EXPECT_LE(pause, year);
  }
}

TEST_F(LongestTimes, close_waits_a_year_for_kept_settles) {
  Client client = this->client(
      {.call_timeout = 1s, .backoff_first = 1h, .backoff_longest = year, .settle_timeout = year},
      {Manners::refuses});
  client.settle_nowait(7);
  const Time begin = platform_.now();
  client.close();
  EXPECT_GE(platform_.now() - begin, 10min);  // the reservation's lifetime ends before
  EXPECT_LE(platform_.now() - begin, 10min + about_now_late);
  EXPECT_EQ(client.settles().lost, 1U);
}

TEST_F(LongestTimes, calls_fail_during_a_pause_of_a_year) {
  Client client = this->client({.backoff_first = year, .backoff_longest = year},
                               {Manners::refuses, Manners::answers});
  for (int i = 0; i < 3; ++i) {
    Failure failure = Failure::none;
    EXPECT_EQ(length_of(0ms, [&] { failure = client.acquire("a").failure; }), 0ms);
    EXPECT_EQ(failure, Failure::unreachable);
    platform_.pause(year / 8);
  }
  EXPECT_EQ(server_->attempts.size(), 1U);
  platform_.pause(year);
  EXPECT_TRUE(client.acquire("a"));
}

}  // namespace
}  // namespace sluicegate::simulation
