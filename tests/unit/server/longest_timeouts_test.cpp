// Goal: the greatest time-outs that the flags take, and the longest lease, last their whole life:
//       the worker ends a connection, a wait or a lease at the last millisecond, and not before.
// Method: a worker over the simulated kernel with a clock that only the test moves: minute by
//         minute, so that timers move through the levels of the wheel; and in one step.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "sluicegate/frames.hpp"
#include "tests/support/greatest_flag.hpp"
#include "tests/unit/server/clock_steps.hpp"

namespace sluice::server {
namespace {

constexpr int64_t minute_ms = 60'000;

using test::greatest;

const int64_t header_ms = greatest("header-timeout-millis");
const int64_t idle_ms = greatest("idle-timeout-millis");
const int64_t drain_ms = greatest("drain-millis");
const int64_t wait_ms = greatest("max-wait-millis");
const std::string lease =
    R"({"subjects": ["m"], "lifetime_ms": )" + std::to_string(limits::lifetime_ms_max) + "}";

class LongestTimeouts : public ::testing::TestWithParam<int64_t> {
 protected:
  LongestTimeouts() {
    WorkerOptions options{
        .shard = {.keys_max = 100,
                  .waiters_max = 100,
                  .policy = {.window_ms = limits::window_ms_max, .max_requests = 1}},
        .connections_max = 3,
        .drain_ms = drain_ms};
    options.sessions.header_timeout_ms = header_ms;
    options.sessions.idle_timeout_ms = idle_ms;
    options.sessions.wait_ms_max = static_cast<uint32_t>(wait_ms);
    worker_ = std::make_unique<Worker>(io_, options, worker_group_, make_deciders(options));
    worker_->start();
  }

  io::SimClient connect(uint32_t listener, const std::string& text) {
    io::SimClient client = io_.connect(listener);
    client.write(text);
    turns();
    EXPECT_TRUE(client.accepted());
    return client;
  }
  void turns() {
    for (int turn = 0; turn < 100; ++turn) worker_->turn(0);
  }
  // Goes on in steps of the parameter.
  void pass_ms(int64_t ms) {
    pass_in_steps(network_, *worker_, ms, GetParam());
    turns();
  }
  static std::string received(io::SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  uint32_t open() const { return worker_->sessions_count(); }

  static std::string request(const std::string& line, const std::string& body = {}) {
    return line + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  // Of a connection of its own.
  std::string answer(const std::string& line, const std::string& body = {}) {
    io::SimClient client = connect(http_listener, request(line, body));
    std::string text = received(client);
    client.close();
    turns();
    return text;
  }
  void put_one_slot() {
    const std::string quota =
        R"({"limits": [{"name": "s", "metric": "concurrency", "amount": 1}]})";
    EXPECT_TRUE(answer("PUT /v1/subjects/m", quota).starts_with("HTTP/1.1 200"));
  }

  template <typename Request>
  static std::string frame(const Request& asked) {
    std::vector<uint64_t> words;
    sluicegate::encode(1, asked, words);
    return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
  }
  static std::string hello() { return frame(sluicegate::Hello{.client_name = "test"}); }
  // The only frame that has come; until the next call.
  sluicegate::Answer frame_received(io::SimClient& client) {
    const std::string bytes = received(client);
    words_.resize(bytes.size() / sizeof(uint64_t));
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    EXPECT_EQ(sluicegate::frame_words(words_), words_.size());
    return sluicegate::decode(words_);
  }

  io::Random random_{1};
  io::SimNetwork network_{random_};
  WorkerGroup worker_group_{{.shards = 1}};
  io::SimIo io_{io::SimOptions{}, network_};
  std::unique_ptr<Worker> worker_;
  std::vector<uint64_t> words_;
};

TEST_P(LongestTimeouts, an_idle_connection_lives_a_day) {
  io::SimClient client = connect(http_listener, "POST /rate/k HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(received(client).starts_with("HTTP/1.1 200"));
  pass_ms(idle_ms - 1);
  EXPECT_FALSE(client.end_of_stream());
  pass_ms(1);
  EXPECT_TRUE(client.end_of_stream());
}

TEST_P(LongestTimeouts, half_a_head_is_waited_for) {
  io::SimClient client = connect(http_listener, "POST /rate/k HTTP/1.1\r\nHost");
  pass_ms(header_ms - 1);
  EXPECT_FALSE(client.end_of_stream());
  pass_ms(1);
  EXPECT_TRUE(client.end_of_stream());
}

TEST_P(LongestTimeouts, a_hello_is_waited_for) {
  io::SimClient client = connect(native_listener, std::string(4, '\0'));
  pass_ms(header_ms - 1);
  EXPECT_EQ(received(client), "");
  EXPECT_FALSE(client.end_of_stream());
  pass_ms(1);
  EXPECT_NE(received(client), "");  // the error
  EXPECT_TRUE(client.end_of_stream());
}

TEST_P(LongestTimeouts, a_drain_waits_for_half_a_head) {
  io::SimClient client = connect(http_listener, "");
  worker_->begin_drain();
  pass_ms(1);
  client.write("POST /rate/k HTTP/1.1\r\nHost");  // its own time-out is later
  turns();
  pass_ms(drain_ms - 2);
  EXPECT_EQ(open(), 1U);
  EXPECT_FALSE(worker_->drained());
  pass_ms(1);
  EXPECT_EQ(open(), 0U);
  EXPECT_TRUE(worker_->drained());
}

TEST_P(LongestTimeouts, half_a_frame_behind_hello_is_waited_for) {
  io::SimClient client = connect(native_listener, hello());
  EXPECT_TRUE(std::holds_alternative<sluicegate::Welcome>(frame_received(client)));
  const std::string ping = frame(sluicegate::Ping{});
  client.write(ping.substr(0, ping.size() - 8));
  turns();
  pass_ms(header_ms - 1);
  EXPECT_EQ(received(client), "");
  EXPECT_FALSE(client.end_of_stream());
  pass_ms(1);
  EXPECT_EQ(std::get<sluicegate::Refusal>(frame_received(client)).code,
            sluicegate::ErrorCode::frame_timeout);
  EXPECT_TRUE(client.end_of_stream());
}

TEST_P(LongestTimeouts, a_rest_request_waits_for_a_permit) {
  EXPECT_TRUE(answer("POST /rate/k").starts_with("HTTP/1.1 200"));
  io::SimClient client =
      connect(http_listener, "POST /rate/k?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n");
  pass_ms(wait_ms - 1);
  EXPECT_EQ(received(client), "");
  pass_ms(1);
  EXPECT_TRUE(received(client).starts_with("HTTP/1.1 429"));
}

TEST_P(LongestTimeouts, a_native_entry_waits_for_a_permit) {
  EXPECT_TRUE(answer("POST /rate/k").starts_with("HTTP/1.1 200"));
  const std::vector<std::string_view> keys(1, "k");
  io::SimClient client = connect(native_listener, hello());
  EXPECT_TRUE(std::holds_alternative<sluicegate::Welcome>(frame_received(client)));
  client.write(frame(sluicegate::Acquire{.keys = keys, .all_may_wait = true}));
  turns();
  EXPECT_TRUE(std::holds_alternative<sluicegate::Verdicts>(frame_received(client)));  // queued
  pass_ms(wait_ms - 1);
  EXPECT_EQ(received(client), "");
  pass_ms(1);
  const auto granted = std::get<sluicegate::Granted>(frame_received(client));
  ASSERT_EQ(granted.verdicts.size(), 1U);
  EXPECT_EQ(granted.verdicts[0], sluicegate::Verdict::wait_limit);
}

TEST_P(LongestTimeouts, a_reservation_waits_for_a_slot) {
  put_one_slot();
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 200"));
  const std::string asking =
      R"({"subjects": ["m"], "wait_limit_ms": )" + std::to_string(wait_ms) + "}";
  io::SimClient client = connect(http_listener, request("POST /v1/reserve", asking));
  pass_ms(wait_ms - 1);
  EXPECT_EQ(received(client), "");
  pass_ms(1);
  EXPECT_TRUE(received(client).starts_with("HTTP/1.1 429"));
}

TEST_P(LongestTimeouts, a_lease_lives_thirty_days) {
  put_one_slot();
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 200"));
  pass_ms(limits::lifetime_ms_max - 1);
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 429"));
  pass_ms(1);
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 200"));
}

TEST_P(LongestTimeouts, a_lease_is_extended_at_its_last_millisecond) {
  put_one_slot();
  const std::string reserved = answer("POST /v1/reserve", lease);
  const size_t at = reserved.find(R"("reservation":")");
  ASSERT_NE(at, reserved.npos) << reserved;
  const std::string id = reserved.substr(at + 15, 16);
  pass_ms(limits::lifetime_ms_max - 1);
  const std::string body = R"({"reservation": ")" + id + R"(", "lifetime_ms": )" +
                           std::to_string(limits::lifetime_ms_max) + "}";
  EXPECT_TRUE(answer("POST /v1/extend", body).starts_with("HTTP/1.1 200"));
  pass_ms(limits::lifetime_ms_max - 1);
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 429"));
  pass_ms(1);
  EXPECT_TRUE(answer("POST /v1/reserve", lease).starts_with("HTTP/1.1 200"));
}

INSTANTIATE_TEST_SUITE_P(Steps, LongestTimeouts, ::testing::Values(minute_ms, INT64_MAX),
                         [](const auto& info) -> std::string {
                           return info.param == minute_ms ? "of_a_minute" : "at_once";
                         });

}  // namespace
}  // namespace sluice::server
