// Goal:   with the greatest --state-sync-millis a change of usage is handed over when that time is
//         over since the last commit, and not before.
// Method: a worker over the simulated kernel with a clock that only the test moves, second by
//         second and in one step, and a writer that commits when the test says so.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "tests/support/greatest_flag.hpp"
#include "tests/unit/server/clock_steps.hpp"
#include "tests/unit/server/fake_writer.hpp"

namespace sluice::server {
namespace {

const int64_t sync_ms = test::greatest("state-sync-millis");

class LongestSync : public testing::TestWithParam<int64_t> {
 protected:
  LongestSync() {
    WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 100},
                          .quota = {.subjects_max = 100,
                                    .reservations_max = 100,
                                    .waiters_max = 10,
                                    .name_bytes_max = 100,
                                    .name_seed = 42,
                                    .id_seed = 42},
                          .connections_max = 10,
                          .tasks_max = 10};
    options.state = {.schedule = &schedule_,
                     .machine_time = [] { return state::MachineTime{}; },
                     .cpu_ns = [] { return int64_t{0}; },
                     .parked_tasks_max = 10};
    worker_ = std::make_unique<Worker>(io_, options, worker_group_, make_deciders(options));
    worker_->start();
  }

  void turns() {
    for (int turn = 0; turn < 20; ++turn) worker_->turn(0);
  }
  // Goes on in steps of the parameter.
  void pass_ms(int64_t ms) {
    pass_in_steps(network_, *worker_, ms, GetParam());
    turns();
  }
  void commit() {
    ASSERT_EQ(writer_.cuts_of(schedule_.epoch()), 1U);
    writer_.commit(schedule_.epoch());
    turns();
  }
  io::SimClient ask(const std::string& line, const std::string& body) {
    io::SimClient client = io_.connect(http_listener);
    client.write(line + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
                 "\r\n\r\n" + body);
    turns();
    return client;
  }
  static void expect_success(io::SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_TRUE(text.starts_with("HTTP/1.1 200")) << text;
    client.close();
  }
  void put_quota() {
    io::SimClient client =
        ask("PUT /v1/subjects/m", R"({"limits": [{"name": "s", "metric": "requests",)"
                                  R"( "amount": 100, "period_ms": 3600000}]})");
    commit();  // before it is answered
    expect_success(client);
  }
  void record() {
    io::SimClient client = ask("POST /v1/record", R"({"subjects": ["m"]})");
    expect_success(client);
  }

  FakeWriter writer_;
  CutSchedule schedule_{writer_, {.shards = 1, .interval_ns = sync_ms * base::ns_per_ms}};
  io::Random random_{1};
  io::SimNetwork network_{random_};
  WorkerGroup worker_group_{{.shards = 1}};
  io::SimIo io_{io::SimOptions{}, network_};
  std::unique_ptr<Worker> worker_;
};

TEST_P(LongestSync, is_between_two_commits) {
  put_quota();
  for (int commits = 0; commits < 3; ++commits) {
    const uint64_t epoch = schedule_.epoch();
    record();
    pass_ms(sync_ms - 1);
    EXPECT_EQ(schedule_.epoch(), epoch);
    pass_ms(1);
    EXPECT_EQ(schedule_.epoch(), epoch + 1);
    commit();
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, LongestSync, ::testing::Values(1'000, INT64_MAX),
                         [](const auto& info) -> std::string {
                           return info.param == 1'000 ? "of_a_second" : "at_once";
                         });

}  // namespace
}  // namespace sluice::server
