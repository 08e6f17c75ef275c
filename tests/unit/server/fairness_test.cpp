// Goal: a lone request is decided before nearly all of the backlog of many other connections.
// Method: a worker over the simulated kernel, without faults and with; native connections whose
//         frames have all arrived before the worker looks, and one with a Ping behind them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "sluicegate/frames.hpp"

namespace sluice::server {
namespace {

constexpr uint32_t connections_count = 40;
constexpr uint32_t frames_count = 15;
constexpr uint32_t frame_keys = 8'192;
constexpr uint64_t backlog_entries = uint64_t{connections_count} * frames_count * frame_keys;

// What may be decided before a session that can go on: the rest of a turn and a whole one, each of
// which ends with a request that overdraws it.
constexpr uint64_t entries_before_max =
    2 * (session::TurnWork::turn_work_max / session::work::entry + frame_keys);

constexpr uint64_t turn_calls_max = session::TurnWork::turn_work_max / session::work::quota_call;

class Fairness : public ::testing::TestWithParam<uint64_t> {
 protected:
  Fairness() : random_(GetParam()), network_(random_) {
    WorkerOptions options{.shard = {.keys_max = 100}, .connections_max = connections_count + 2};
    io::SimOptions io_options{.sockets_max = connections_count + 4,
                              .receive_buffers = limits::receive_buffers,
                              .receive_buffer_bytes = limits::receive_buffer_bytes};
    io_ = std::make_unique<io::SimIo>(io_options, network_);
    worker_ = std::make_unique<Worker>(*io_, options, worker_group_, make_deciders(options));
    worker_->start();
  }

  io::SimClient greeted() {
    io::SimClient client = io_->connect(native_listener);
    std::vector<uint64_t> frames;
    sluicegate::encode(0, sluicegate::Hello{.client_name = "test"}, frames);
    client.write(std::as_bytes(std::span(frames)));
    for (int turn = 0; turn < 10; ++turn) worker_->turn(0);
    std::vector<std::byte> welcome;
    client.read(welcome);
    return client;
  }

  std::vector<uint64_t> frames_of_keys() const {
    const std::string key = "a-key-of-some-20-byt";
    const std::vector<std::string_view> keys(frame_keys, key);
    std::vector<uint64_t> frames;
    for (uint32_t id = 1; id <= frames_count; ++id) {
      sluicegate::encode(id, sluicegate::Acquire{.keys = keys}, frames);
    }
    return frames;
  }

  // Many connections whose frames have all arrived.
  std::vector<io::SimClient> flood_of(const std::vector<uint64_t>& backlog) {
    std::vector<io::SimClient> flood;
    for (uint32_t each = 0; each < connections_count; ++each) flood.push_back(greeted());
    for (io::SimClient& client : flood) client.write(std::as_bytes(std::span(backlog)));
    return flood;
  }

  uint64_t decided() const {
    uint64_t sum = 0;
    for (const uint64_t count : worker_->keys().statistics().decisions) sum += count;
    return sum;
  }

  io::Random random_;
  io::SimNetwork network_;
  WorkerGroup worker_group_{route::MeshOptions{}};
  std::unique_ptr<io::SimIo> io_;
  std::unique_ptr<Worker> worker_;
};

TEST_P(Fairness, a_lone_request_does_not_wait_for_the_backlog_of_others) {
  std::vector<io::SimClient> flood;
  for (uint32_t each = 0; each < connections_count; ++each) flood.push_back(greeted());
  io::SimClient lone = greeted();
  const std::vector<uint64_t> backlog = frames_of_keys();
  for (io::SimClient& client : flood) client.write(std::as_bytes(std::span(backlog)));
  // Before the worker has seen any of it, or while most of it waits.
  for (uint64_t left = random_.below(2) * 20; left > 0; --left) worker_->turn(0);
  std::vector<uint64_t> ping;
  sluicegate::encode(1, sluicegate::Ping{}, ping);
  lone.write(std::as_bytes(std::span(ping)));
  const uint64_t before = decided();

  std::vector<std::byte> pong;
  while (pong.empty() && decided() < backlog_entries) {
    worker_->turn(0);
    lone.read(pong);
  }
  EXPECT_FALSE(pong.empty());
  EXPECT_LE(decided() - before, entries_before_max);

  for (int turn = 0; decided() < backlog_entries && turn < 100'000; ++turn) worker_->turn(0);
  EXPECT_EQ(decided(), backlog_entries) << "nothing is lost";
}

TEST_P(Fairness, a_turn_is_bounded) {
  const auto flood = flood_of(frames_of_keys());
  uint64_t before = 0;
  while (decided() < backlog_entries) {
    worker_->turn(0);
    EXPECT_LE(decided() - before, entries_before_max / 2);
    before = decided();
  }
}

TEST_P(Fairness, a_turn_of_checks_is_bounded) {
  constexpr uint32_t frame_calls = 256;
  const std::vector<std::string_view> names(frame_calls, "nobody");
  const sluicegate::Reserve calls{.subjects = names};
  std::vector<uint64_t> backlog;
  for (uint32_t id = 1; id <= frames_count; ++id) {
    sluicegate::encode(id, sluicegate::Check{calls}, backlog);
  }
  const auto flood = flood_of(backlog);

  const auto checked = [&] { return worker_->quotas().statistics().unknown_subjects; };
  uint64_t before = 0;
  while (checked() < uint64_t{connections_count} * frames_count * frame_calls) {
    worker_->turn(0);
    EXPECT_LE(checked() - before, turn_calls_max + frame_calls);
    before = checked();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fairness, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace sluice::server
