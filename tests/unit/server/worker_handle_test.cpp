// Goal: a worker decides frames by key and by handle in their order, and drops the handles of ended
//       connections in slices.
// Method: one or two workers over the simulated kernel, and clients that all connect to the first.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "server/worker.hpp"
#include "sluicegate/frames.hpp"
#include "tests/support/failing_calls.hpp"

namespace sluice::server {
namespace {

// Sends requests, and keeps the verdicts and handles of the answers.
class NativeClient {
 public:
  explicit NativeClient(io::SimIo& io) : socket_(io.connect(native_listener)) {
    ask(0, sluicegate::Hello{.client_name = "test", .wanted_shard = 0});
  }

  template <typename Request>
  void ask(uint64_t id, const Request& request) {
    sluicegate::encode(id, request, frames_);
  }
  void send() {
    socket_.write(std::as_bytes(std::span(frames_)));
    frames_.clear();
  }

  void receive() {
    socket_.read(received_);
    if (received_.empty()) return;
    std::vector<uint64_t> words(received_.size() / sizeof(uint64_t));
    std::memcpy(words.data(), received_.data(), words.size() * sizeof(uint64_t));
    std::span<const uint64_t> rest{words};
    for (; !rest.empty(); ++answers_count) {
      const auto size = sluicegate::frame_words(rest);
      if (!size || *size > rest.size()) break;
      keep(sluicegate::decode(rest.first(*size)));
      rest = rest.subspan(*size);
    }
    const size_t bytes = (words.size() - rest.size()) * sizeof(uint64_t);
    received_.erase(received_.begin(), received_.begin() + static_cast<ptrdiff_t>(bytes));
  }

  void close() { socket_.close(); }

  // "approved denied", of all frames in the order of their answers.
  std::string verdicts;
  std::string intern_verdicts;  // of keys that were interned
  std::vector<uint32_t> handles;
  uint32_t answers_count = 0;

 private:
  void keep(const sluicegate::Answer& answer) {
    if (const auto* reported = std::get_if<sluicegate::Verdicts>(&answer)) {
      append(verdicts, reported->verdicts);
    }
    if (const auto* reported = std::get_if<sluicegate::Interned>(&answer)) {
      handles.insert(handles.end(), reported->handles.begin(), reported->handles.end());
      append(intern_verdicts, reported->verdicts);
    }
  }

  static void append(std::string& names, const auto& added) {
    for (size_t i = 0; i < added.size(); ++i) {
      if (!names.empty()) names += ' ';
      names += name(added[i]);
    }
  }

  io::SimClient socket_;
  std::vector<uint64_t> frames_;
  std::vector<std::byte> received_;
};

WorkerOptions handle_options(uint32_t shard, uint32_t shards) {
  WorkerOptions options{.shard = {.keys_max = 10'000,
                                  .handles_max = 8'000,
                                  .waiters_max = 100,
                                  .policy = {.window_ms = 60'000, .max_requests = 3}},
                        .connections_max = 8};
  options.sessions.handles_max = options.shard.handles_max;
  options.sessions.shard = shard;
  options.sessions.shards = shards;
  return options;
}

// Keys by number, on one shard or two.
class HandleTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  HandleTest() {
    for (uint32_t shard = 0; shard < GetParam(); ++shard) {
      ios_.push_back(std::make_unique<io::SimIo>(io::SimOptions{}, network_));
      const WorkerOptions options = handle_options(shard, GetParam());
      workers_.push_back(
          std::make_unique<Worker>(*ios_[shard], options, worker_group_, make_deciders(options)));
      if (shard == 0) workers_[shard]->start();  // the others have no listeners
    }
  }

  Worker& worker() { return *workers_[0]; }
  uint32_t handles_count() { return worker().keys().handles_count(); }

  void turn_all() {
    for (const auto& one : workers_) one->turn(0);
  }
  // Runs the workers until the client has this many answers.
  void exchange(NativeClient& client, uint32_t answers_count) {
    client.send();
    for (int turn = 0; turn < 1'000 && client.answers_count < answers_count; ++turn) {
      turn_all();
      client.receive();
    }
    ASSERT_EQ(client.answers_count, answers_count);
  }

  // A client that holds handles of `count` keys, and has two answers.
  std::unique_ptr<NativeClient> holder_of(size_t count, const std::string& prefix) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    auto client = std::make_unique<NativeClient>(*ios_[0]);
    client->ask(1, sluicegate::Intern{.keys = keys});
    exchange(*client, 2);
    return client;
  }

  // Ends the connection; its handles are left.
  void end(NativeClient& client) {
    const uint32_t before = worker().sessions_count();
    client.close();
    for (int turn = 0; turn < 100 && worker().sessions_count() == before; ++turn) turn_all();
    ASSERT_LT(worker().sessions_count(), before);
  }

  io::Random random_{1};
  io::SimNetwork network_{random_};
  WorkerGroup worker_group_{{.shards = GetParam()}};
  std::vector<std::unique_ptr<io::SimIo>> ios_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// With two shards some of these keys are the other's, and no frame takes the fast path.
TEST_P(HandleTest, frames_by_key_and_by_handle_share_a_turn_in_their_order) {
  const auto client = holder_of(8, "key");
  for (uint32_t i = 0; i < 8; ++i) {
    const std::string name = "key" + std::to_string(i);
    const std::vector<std::string_view> keys(1, name);
    const std::vector<uint32_t> handles(1, client->handles[i]);
    const std::vector<uint32_t> two(1, 2);
    client->verdicts.clear();
    client->ask(10, sluicegate::AcquireByHandle{.handles = handles});
    client->ask(11, sluicegate::Acquire{.keys = keys, .costs = two});
    client->ask(12, sluicegate::AcquireByHandle{.handles = handles});
    client->ask(13, sluicegate::Release{.keys = keys, .costs = two});
    client->ask(14, sluicegate::AcquireByHandle{.handles = handles});
    client->ask(15, sluicegate::AcquireByHandle{.handles = handles, .costs = two});
    client->ask(16, sluicegate::Acquire{.keys = keys});
    client->ask(17, sluicegate::AcquireByHandle{.handles = handles});
    exchange(*client, client->answers_count + 8);
    EXPECT_EQ(client->verdicts, "approved approved denied approved denied approved denied") << i;
  }
}

TEST_P(HandleTest, decides_requests_before_forget_and_refuses_those_after) {
  const auto client = holder_of(2, "key");
  const std::vector<uint32_t> handles = client->handles;
  const std::vector<std::string_view> another(1, "another");
  client->ask(2, sluicegate::AcquireByHandle{.handles = handles});
  client->ask(3, sluicegate::Forget{.handles = handles});
  client->ask(4, sluicegate::AcquireByHandle{.handles = handles});
  exchange(*client, client->answers_count + 3);
  EXPECT_EQ(client->verdicts, "approved approved invalid_key invalid_key");
  EXPECT_EQ(handles_count(), 0U);
  client->ask(5, sluicegate::Intern{.keys = another});
  exchange(*client, client->answers_count + 1);
  const std::vector<uint32_t> again(4, client->handles.back());
  client->verdicts.clear();
  client->ask(6, sluicegate::AcquireByHandle{.handles = again});
  exchange(*client, client->answers_count + 1);
  EXPECT_EQ(client->verdicts, "approved approved approved denied");
  EXPECT_EQ(handles_count(), 1U);
}

// The set of a connection's handles needs memory: without it keys are asked for by their text.
TEST_P(HandleTest, a_connection_without_memory_for_handles_is_refused_them_alone) {
  const auto other = holder_of(1, "other");
  const uint32_t before = handles_count();
  NativeClient client(*ios_[0]);
  exchange(client, 1);
  const std::vector<std::string_view> keys(1, "key");
  {
    const test::FailingCall failing(test::Call::mmap64, ENOMEM);
    client.ask(2, sluicegate::Intern{.keys = keys});
    exchange(client, 2);
    EXPECT_EQ(failing.failed_count(), 1U);
  }
  EXPECT_EQ(client.handles, std::vector<uint32_t>{sluicegate::no_handle});
  EXPECT_EQ(client.intern_verdicts, "handles_full");
  EXPECT_EQ(handles_count(), before);
  client.ask(3, sluicegate::Acquire{.keys = keys});
  client.ask(4, sluicegate::Intern{.keys = keys});
  exchange(client, 4);
  EXPECT_EQ(client.verdicts, "approved");
  EXPECT_EQ(client.intern_verdicts, "handles_full approved");
  other->ask(5, sluicegate::AcquireByHandle{.handles = other->handles});
  exchange(*other, other->answers_count + 1);
  EXPECT_EQ(other->verdicts, "approved");
}

TEST_P(HandleTest, drops_handles_of_an_ended_connection_in_slices) {
  constexpr uint32_t held = 3 * limits::turn_handles_freed;
  const auto client = holder_of(held, "key");
  ASSERT_EQ(handles_count(), held);
  end(*client);
  uint32_t turns = 1;  // the one in which the connection ended
  for (uint32_t before = held; handles_count() > 0; ++turns) {
    EXPECT_LE(before - handles_count(), limits::turn_handles_freed);
    EXPECT_EQ(worker().prepare_poll(), 0);  // the worker does not sleep before all are dropped
    before = handles_count();
    ASSERT_LT(turns, 10U);
    worker().turn(base::ns_per_s);
    EXPECT_LT(handles_count(), before);
  }
  EXPECT_EQ(turns, 3U);
  worker().turn(0);
  worker().turn(0);
  worker().check_invariants();
}

// The more connections have ended, the more handles a turn drops, within bounds.
TEST_P(HandleTest, each_ended_connection_has_a_slice) {
  constexpr uint32_t clients_count = 6;
  std::vector<std::unique_ptr<NativeClient>> clients;
  for (uint32_t i = 0; i < clients_count; ++i) {
    clients.push_back(holder_of(limits::turn_handles_freed, "of" + std::to_string(i) + "_"));
  }
  for (const auto& client : clients) client->close();
  uint32_t before = handles_count();
  ASSERT_EQ(before, clients_count * limits::turn_handles_freed);
  uint32_t most = 0;
  for (int turn = 0; turn < 100 && handles_count() > 0; ++turn) {
    turn_all();
    most = std::max(most, before - handles_count());
    before = handles_count();
  }
  EXPECT_EQ(handles_count(), 0U);
  EXPECT_GT(most, limits::turn_handles_freed);
  EXPECT_LE(most, limits::turn_handle_sets_freed * limits::turn_handles_freed);
}

// Like a connection that interned after a million others.
TEST_P(HandleTest, drops_one_high_handle_at_once) {
  const auto first = holder_of(3'000, "low");
  const auto second = holder_of(1, "high");
  end(*second);
  EXPECT_EQ(handles_count(), 3'000U);
}

// One turn interns a bounded number of keys; later frames go on in the next turn.
TEST_P(HandleTest, bounds_interning_and_forgetting_in_each_turn) {
  constexpr uint32_t frames_count = 12;
  constexpr uint32_t frame_keys = 300;
  NativeClient client(*ios_[0]);
  for (uint32_t frame = 0; frame < frames_count; ++frame) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < frame_keys; ++i) {
      names.push_back(std::to_string(frame) + "_" + std::to_string(i));
    }
    const std::vector<std::string_view> keys(names.begin(), names.end());
    client.ask(2 + frame, sluicegate::Intern{.keys = keys});
  }
  client.send();
  uint32_t most = 0;
  for (int turn = 0; turn < 1'000 && client.answers_count < 1 + frames_count; ++turn) {
    const uint32_t before = handles_count();
    turn_all();
    most = std::max(most, handles_count() - before);
    client.receive();
  }
  EXPECT_EQ(handles_count(), frames_count * frame_keys);
  EXPECT_LE(most, limits::turn_handle_work);
  client.ask(100, sluicegate::Forget{.handles = client.handles});
  exchange(client, 2 + frames_count);
  EXPECT_EQ(handles_count(), 0U);
}

TEST_P(HandleTest, a_handle_outlives_one_of_its_connections) {
  const auto first = holder_of(2, "key");
  const auto second = holder_of(2, "key");
  EXPECT_EQ(first->handles, second->handles);
  EXPECT_EQ(handles_count(), 2U);
  end(*first);
  for (int turn = 0; turn < 10; ++turn) turn_all();
  EXPECT_EQ(handles_count(), 2U);
  second->ask(2, sluicegate::AcquireByHandle{.handles = second->handles});
  exchange(*second, 3);
  EXPECT_EQ(second->verdicts, "approved approved");
}

// A connection that interns while handles are being dropped gets those of keys still held.
TEST_P(HandleTest, interns_key_again_while_its_last_handles_are_dropped) {
  constexpr uint32_t held = 3 * limits::turn_handles_freed;
  const auto first = holder_of(held, "key");
  const auto second = std::make_unique<NativeClient>(*ios_[0]);
  exchange(*second, 1);
  end(*first);
  ASSERT_GT(handles_count(), 0U);
  const std::string last = "key" + std::to_string(held - 1);
  const std::vector<std::string_view> keys = {"key0", last};
  second->ask(1, sluicegate::Intern{.keys = keys});
  second->ask(2, sluicegate::Ping{});
  exchange(*second, 3);
  for (int turn = 0; turn < 10; ++turn) turn_all();
  EXPECT_EQ(handles_count(), 2U);
  second->ask(3, sluicegate::AcquireByHandle{.handles = second->handles});
  exchange(*second, 4);
  EXPECT_EQ(second->verdicts, "approved approved");
  worker().check_invariants();
}

TEST_P(HandleTest, destroys_worker_with_handles_not_dropped_yet) {
  const auto client = holder_of(3 * limits::turn_handles_freed, "key");
  const auto open = holder_of(3, "other");
  end(*client);
  ASSERT_GT(handles_count(), 3U);
  workers_.clear();  // sanitizers would report leaked memory
}

INSTANTIATE_TEST_SUITE_P(Shards, HandleTest, ::testing::Values(1, 2),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::server
