// Goal: a worker polls for its messages before it sleeps, for a bounded time and only while one is
//       away, and misses none between that and its sleep; it never sleeps beyond a deadline;
//       connections that move count once; a draining worker waits for outcomes that another shard
//       has for its clients.
// Method: one or two workers over the simulated kernel with a clock that moves when the test, or a
//         worker's busy wait, moves it, and clients of the first.
#include "server/worker.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "proto/key_hash.hpp"
#include "sluicegate/frames.hpp"
#include "tests/unit/server/fake_quotas.hpp"

namespace sluice::server {
namespace {

class TwoWorkers : public ::testing::Test, private io::PauseWatch {
 protected:
  explicit TwoWorkers(int64_t poll_ns = return_poll_ns) {
    network_.watch_pauses(*this);
    for (uint32_t shard = 0; shard < 2; ++shard) {
      WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 100},
                            .connections_max = 3,
                            .return_poll_ns = poll_ns};
      options.sessions.shard = shard;
      options.sessions.shards = 2;
      ios_[shard] = std::make_unique<io::SimIo>(io::SimOptions{}, network_);
      workers_[shard] =
          std::make_unique<Worker>(*ios_[shard], options, worker_group_, make_deciders(options));
      workers_[shard]->start();
    }
    client_.emplace(ios_[0]->connect(http_listener));
  }

  // Runs the first worker until it has sent an entry to the second, which has not read it yet.
  void send_to_second() {
    const uint64_t crossed = workers_[0]->router().other_shard_entries();
    client_->write("GET /rate/" + key_of_the_second() + " HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int turn = 0; turn < 100; ++turn) {
      workers_[0]->turn(0);
      if (workers_[0]->router().other_shard_entries() > crossed) return;
    }
    FAIL() << "the request does not arrive";
  }

  std::string key_of(uint32_t shard) {
    for (;;) {
      std::string key = "key" + std::to_string(++keys_made_);
      const uint64_t hash = proto::routing_hash(key, worker_group_.mesh().routing_seed());
      if (proto::owner_shard(hash, 2) == shard) return key;
    }
  }
  std::string key_of_the_second() { return key_of(1); }

  // A native client of the first shard takes the key's only permit, waits for another, releases the
  // first one and sends a malformed frame, which ends its connection.
  void be_granted_and_end(const std::string& name) {
    const std::vector<std::string_view> keys(2, name);
    const std::vector<uint32_t> one(2, 1);
    std::vector<uint64_t> frames;
    sluicegate::encode(0, sluicegate::Hello{.client_name = "test"}, frames);
    sluicegate::encode(
        1, sluicegate::Acquire{.keys = keys, .max_requests = one, .all_may_wait = true}, frames);
    io::SimClient client = ios_[0]->connect(native_listener);
    client.write(std::as_bytes(std::span(frames)));
    for (int turn = 0; turn < 100; ++turn) turn_both();
    frames.clear();
    sluicegate::encode(2, sluicegate::Release{.keys = std::span(keys).first(1)}, frames);
    frames.push_back(UINT64_MAX);
    client.write(std::as_bytes(std::span(frames)));
    for (int turn = 0; turn < 100; ++turn) turn_both();
  }

  std::string shown(const std::string& key) {
    client_->write("GET /debug/" + key + " HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int turn = 0; turn < 100; ++turn) turn_both();
    std::vector<std::byte> received;
    client_->read(received);
    return {reinterpret_cast<const char*>(received.data()), received.size()};
  }

  void turn_both() {
    for (const auto& worker : workers_) worker->turn(0);
  }
  bool sleeps(uint32_t shard) { return workers_[shard]->prepare_poll() > 0; }
  uint64_t wakes_by(uint32_t shard) const { return workers_[shard]->mailboxes().wakes(); }

  // In a worker's busy wait the other one makes a turn, in the pause with this number.
  void turn_second_in_pause(int pause) { second_turns_in_ = pauses_ + pause; }
  void on_pause() override {
    if (++pauses_ == second_turns_in_) workers_[1]->turn(0);
  }

  // The network's clock stands still unless it is advanced: a poll takes no time.
  io::Random random_{1};
  io::SimNetwork network_{random_};
  WorkerGroup worker_group_{{.shards = 2}};
  std::unique_ptr<io::SimIo> ios_[2];
  std::unique_ptr<Worker> workers_[2];
  std::optional<io::SimClient> client_;
  uint32_t keys_made_ = 0;
  int pauses_ = 0;
  int second_turns_in_ = 0;
};

TEST_F(TwoWorkers, is_woken_only_while_it_sleeps) {
  send_to_second();
  EXPECT_EQ(wakes_by(0), 0U);
  for (int turn = 0; turn < 10; ++turn) turn_both();
  EXPECT_TRUE(sleeps(1));
  send_to_second();
  EXPECT_EQ(wakes_by(0), 1U);
}

TEST_F(TwoWorkers, polls_no_longer_than_its_bound_for_a_message_that_does_not_return) {
  send_to_second();
  const int64_t begin_ns = network_.clock().monotonic_ns;
  pauses_ = 0;
  EXPECT_TRUE(sleeps(0));
  const int64_t polled_ns = network_.clock().monotonic_ns - begin_ns;
  EXPECT_GE(polled_ns, return_poll_ns);
  EXPECT_LE(polled_ns, return_poll_ns + 2 * io::SimNetwork::pause_ns);
  EXPECT_EQ(pauses_ * io::SimNetwork::pause_ns, polled_ns);
}

TEST_F(TwoWorkers, seldom_polls_for_messages_that_return_late) {
  send_to_second();
  for (int round = 0; round < 2; ++round) {
    pauses_ = 0;
    EXPECT_TRUE(sleeps(0));
    EXPECT_GT(pauses_, 0);
    pauses_ = 0;
    for (uint32_t skip = 0; skip < skips_after_vain_poll; ++skip) EXPECT_TRUE(sleeps(0));
    EXPECT_EQ(pauses_, 0);
  }
}

TEST_F(TwoWorkers, sees_a_returned_message_without_a_wake) {
  constexpr int first = 1;  // this one only reads the clock
  constexpr int last = first + static_cast<int>(return_poll_ns / io::SimNetwork::pause_ns);
  for (int pause = first; pause <= last; ++pause) {
    send_to_second();
    const uint64_t wakes = wakes_by(1);
    turn_second_in_pause(pause);
    EXPECT_FALSE(sleeps(0)) << pause;
    EXPECT_EQ(pauses_, second_turns_in_) << pause;
    EXPECT_EQ(wakes_by(1), wakes) << pause;
    for (int turn = 0; turn < 10; ++turn) turn_both();  // the client gets its answer
  }
}

TEST_F(TwoWorkers, polls_only_while_a_message_has_not_returned) {
  for (int turn = 0; turn < 10; ++turn) turn_both();
  EXPECT_TRUE(sleeps(0));
  send_to_second();
  workers_[1]->turn(0);  // it has answered: nothing is owed to it
  pauses_ = 0;
  EXPECT_TRUE(sleeps(1));
  EXPECT_EQ(pauses_, 0);
  for (int turn = 0; turn < 10; ++turn) turn_both();
  pauses_ = 0;
  EXPECT_TRUE(sleeps(0));
  EXPECT_EQ(pauses_, 0);
}

// Bytes that arrive while a worker polls are served at once.
TEST_F(TwoWorkers, stops_polling_for_an_event) {
  send_to_second();
  client_->write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  pauses_ = 0;
  EXPECT_FALSE(sleeps(0));
  EXPECT_EQ(pauses_, 1);
}

class TwoWorkersOfOneCore : public TwoWorkers {
 protected:
  TwoWorkersOfOneCore() : TwoWorkers(0) {}
};

TEST_F(TwoWorkersOfOneCore, sleep_at_once) {
  send_to_second();
  EXPECT_TRUE(sleeps(0));
  EXPECT_EQ(pauses_, 0);
  workers_[1]->turn(0);
  EXPECT_EQ(wakes_by(1), 1U);
}

// A connection that arrives while others move must find the free slots.
TEST_F(TwoWorkers, moving_connection_counts_once) {
  std::vector<uint64_t> hello;
  sluicegate::encode(0, sluicegate::Hello{.client_name = "test", .wanted_shard = 1}, hello);
  io::SimClient mover = ios_[0]->connect(native_listener);
  mover.write(std::as_bytes(std::span(hello)));
  for (int turn = 0; turn < 100 && workers_[0]->statistics().moved == 0; ++turn) {
    ASSERT_LE(worker_group_.connections_of_all(), 2U);
    workers_[0]->turn(0);
  }
  ASSERT_EQ(workers_[0]->statistics().moved, 1U);
  ASSERT_EQ(worker_group_.connections_of_all(), 2U);
  turn_both();
  EXPECT_EQ(workers_[1]->sessions_count(), 1U);
  EXPECT_EQ(worker_group_.connections(1, native_listener), 1U);
  mover.close();
  for (int turn = 0; turn < 100; ++turn) workers_[1]->turn(0);
  EXPECT_EQ(workers_[1]->sessions_count(), 0U);
  EXPECT_EQ(worker_group_.connections_of_all(), 1U);
}

TEST_F(TwoWorkers, draining_worker_waits_for_outcomes_of_the_other) {
  io::SimClient client = ios_[0]->connect(native_listener);
  const std::string name = key_of_the_second();
  const std::vector<std::string_view> keys(2, name);
  const std::vector<uint32_t> one(2, 1);
  std::vector<uint64_t> frames;
  sluicegate::encode(0, sluicegate::Hello{.client_name = "test"}, frames);
  sluicegate::encode(
      1, sluicegate::Acquire{.keys = keys, .max_requests = one, .all_may_wait = true}, frames);
  client.write(std::as_bytes(std::span(frames)));
  for (int turn = 0; turn < 100; ++turn) turn_both();
  ASSERT_EQ(workers_[1]->keys().waiters_count(), 1U);
  workers_[0]->begin_drain();
  for (int turn = 0; turn < 10; ++turn) {
    network_.advance(100 * base::ns_per_ms);  // the other worker is slow
    workers_[0]->turn(0);
  }
  EXPECT_EQ(workers_[0]->tickets_count(), 1U);
  workers_[1]->begin_drain();
  for (int turn = 0; turn < 100; ++turn) turn_both();
  std::vector<std::byte> received;
  client.read(received);
  std::vector<uint64_t> words(received.size() / sizeof(uint64_t));
  std::memcpy(words.data(), received.data(), words.size() * sizeof(uint64_t));
  size_t reported = 0;
  for (std::span<const uint64_t> rest{words}; !rest.empty();) {
    const size_t size = sluicegate::frame_words(rest).value();
    const sluicegate::Answer answer = sluicegate::decode(rest.first(size));
    if (const auto* granted = std::get_if<sluicegate::Granted>(&answer)) {
      reported += granted->verdicts[0] == sluicegate::Verdict::draining ? 1 : 0;
    }
    rest = rest.subspan(size);
  }
  EXPECT_EQ(reported, 1U);
}

// The client's own release serves its waiter, and its connection ends before the grant is written.
TEST_F(TwoWorkers, refunds_permit_of_undelivered_grant) {
  for (const uint32_t shard : {0U, 1U}) {
    const std::string key = key_of(shard);
    be_granted_and_end(key);
    const std::string state = shown(key);
    EXPECT_NE(state.find("\"MaxRequestsPerWindow\":1,"), state.npos) << shard << state;
    EXPECT_NE(state.find("\"NumApprovedThisWindow\":0,"), state.npos) << shard << state;
    EXPECT_NE(state.find("\"NumWaiting\":0,"), state.npos) << shard << state;
  }
  EXPECT_EQ(workers_[0]->tickets_count(), 0U);
}

// Quotas that have something due when the test says so.
class DueQuotas : public FakeQuotas {
 public:
  DueQuotas(Asked& asked, const int64_t& due_ns) : FakeQuotas(asked, 0), due_ns_(due_ns) {}
  int64_t next_due_ns() const noexcept override { return due_ns_; }

 private:
  const int64_t& due_ns_;
};

class SleepingWorker : public ::testing::Test {
 protected:
  explicit SleepingWorker(int64_t drain_ms = 50) {
    WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 100}, .drain_ms = drain_ms};
    options.shard.policy = {.window_ms = 40, .max_requests = 1, .max_requests_in_queue = 5};
    options.sessions.header_timeout_ms = 60;
    Deciders deciders = make_deciders(options);
    deciders.quotas = std::make_unique<DueQuotas>(asked_, quotas_due_ns_);
    worker_.emplace(io_, options, worker_group_, std::move(deciders));
    worker_->start();
    run();
  }
  void run() {
    for (int turn = 0; turn < 10; ++turn) worker_->turn(0);
  }
  // Takes the only permit, then waits for the next window.
  void wait_for_window(const std::string& parameters) {
    const std::string end = " HTTP/1.1\r\nHost: x\r\n\r\n";
    client_.write("GET /rate/k" + end + "GET /rate/k?canWait=true" + parameters + end);
    run();
    ASSERT_EQ(worker_->keys().waiters_count(), 1U);
  }
  int64_t sleep_ms() { return base::floor_ms(worker_->prepare_poll()); }

  int64_t quotas_due_ns_ = base::never_ns;
  FakeQuotas::Asked asked_;
  io::Random random_{1};
  // A multiple of 256 ms: from here on the next due time of timers is exact (timer_wheel.hpp).
  static constexpr int64_t start_ns = 1'024 * base::ns_per_ms;
  io::SimNetwork network_{random_, {.monotonic_ns = start_ns}};
  io::SimIo io_{{}, network_};
  WorkerGroup worker_group_{{}};
  std::optional<Worker> worker_;
  io::SimClient client_ = io_.connect(http_listener);
};

TEST_F(SleepingWorker, wakes_when_time_out_of_connection_ends) {
  EXPECT_EQ(sleep_ms(), 60);
}

TEST_F(SleepingWorker, wakes_when_window_with_waiter_ends) {
  wait_for_window("");
  EXPECT_EQ(sleep_ms(), 40);
}

TEST_F(SleepingWorker, wakes_when_wait_limit_ends) {
  wait_for_window("&maxWaitMillis=20");
  EXPECT_EQ(sleep_ms(), 20);
}

TEST_F(SleepingWorker, wakes_when_quotas_have_something_due) {
  quotas_due_ns_ = start_ns + 15 * base::ns_per_ms;
  EXPECT_EQ(sleep_ms(), 15);
}

TEST_F(SleepingWorker, wakes_when_draining_took_too_long) {
  worker_->begin_drain();
  EXPECT_EQ(sleep_ms(), 25) << "the grace of an idle connection is half of the time";
  network_.advance(25 * base::ns_per_ms);
  run();
  EXPECT_EQ(worker_->sessions_count(), 1U) << "its client has not closed it";
  EXPECT_EQ(sleep_ms(), 25);
  network_.advance(25 * base::ns_per_ms);
  run();
  EXPECT_EQ(worker_->sessions_count(), 0U);
  EXPECT_GT(sleep_ms(), 0);
}

class WorkerThatDrainsAtOnce : public SleepingWorker {
 protected:
  WorkerThatDrainsAtOnce() : SleepingWorker(0) {}
};

TEST_F(WorkerThatDrainsAtOnce, does_not_sleep_before_it_has_ended_connections) {
  worker_->begin_drain();
  EXPECT_EQ(sleep_ms(), 0);
}

}  // namespace
}  // namespace sluice::server
