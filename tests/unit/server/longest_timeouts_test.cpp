// Goal: the greatest time-outs that the flags take last their whole life: the worker ends a
//       connection at the last millisecond, and not before.
// Method: a worker over the simulated kernel with a clock that only the test moves: minute by
//         minute, so that timers move through the levels of the wheel; and in one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/flag_table.hpp"
#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"

namespace sluice::server {
namespace {

constexpr int64_t minute_ms = 60'000;

int64_t greatest(std::string_view flag_name) {
  for (const config::Flag& flag : config::flag_table) {
    if (flag.name() == flag_name) return std::get<config::NumberFlag>(flag.value).max;
  }
  ADD_FAILURE() << "there is no flag " << flag_name;
  return 0;
}

const int64_t header_ms = greatest("header-timeout-millis");
const int64_t idle_ms = greatest("idle-timeout-millis");
const int64_t drain_ms = greatest("drain-millis");

class LongestTimeouts : public ::testing::TestWithParam<int64_t> {
 protected:
  LongestTimeouts() {
    WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 100},
                          .connections_max = 3,
                          .drain_ms = drain_ms,
                          .spin_ns = 0};
    options.sessions.header_timeout_ms = header_ms;
    options.sessions.idle_timeout_ms = idle_ms;
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
    while (ms > 0) {
      const int64_t step = std::min(ms, GetParam());
      network_.advance(step * base::ns_per_ms);
      ms -= step;
      worker_->turn(0);
    }
    turns();
  }
  static std::string received(io::SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  uint32_t open() const { return worker_->sessions_count(); }

  io::Random random_{1};
  io::SimNetwork network_{random_};
  WorkerGroup worker_group_{{.shards = 1}};
  io::SimIo io_{io::SimOptions{}, network_};
  std::unique_ptr<Worker> worker_;
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

INSTANTIATE_TEST_SUITE_P(Steps, LongestTimeouts, ::testing::Values(minute_ms, INT64_MAX),
                         [](const auto& info) -> std::string {
                           return info.param == minute_ms ? "of_a_minute" : "at_once";
                         });

}  // namespace
}  // namespace sluice::server
