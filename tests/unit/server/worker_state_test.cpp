// Goal:   with a state, calls that change quotas are answered when the change is durable, or will
//         not be; their waits take no place from other calls, and every shard cuts in time.
// Method: one or two workers over the simulated kernel, with real stores, a clock that only the
//         test moves, clients of REST, and a writer that commits when the test says so.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_io.hpp"
#include "proto/key_hash.hpp"
#include "server/worker.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/server/fake_writer.hpp"

namespace sluice::server {
namespace {

constexpr uint32_t parked_tasks_max = 128;

constexpr int64_t ms = base::ns_per_ms;

class StateWorkers : public testing::Test {
 protected:
  explicit StateWorkers(uint32_t shards = 1, uint32_t tasks_max = 64)
      : shards_(shards), schedule_(writer_, {.shards = shards, .interval_ns = 5'000 * ms}) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      WorkerOptions options{.shard = {.keys_max = 100, .waiters_max = 100},
                            .quota = {.subjects_max = 500,
                                      .reservations_max = 100,
                                      .waiters_max = 10,
                                      .name_bytes_max = 100,
                                      .name_seed = 42,
                                      .id_seed = 42},
                            .connections_max = 200,
                            .tasks_max = tasks_max};
      options.sessions.shard = shard;
      options.sessions.shards = shards;
      options.state = {.schedule = &schedule_,
                       .machine_time = [] { return state::MachineTime{}; },
                       .cpu_ns = [] { return int64_t{0}; },
                       .parked_tasks_max = parked_tasks_max};
      ios_.push_back(std::make_unique<io::SimIo>(io::SimOptions{.sockets_max = 200}, network_));
      workers_.push_back(
          std::make_unique<Worker>(*ios_[shard], options, worker_group_, make_deciders(options)));
      workers_[shard]->start();
    }
  }

  void turn(uint32_t shard) { workers_[shard]->turn(0); }
  void turn_all() {
    for (int turns = 0; turns < 10; ++turns) {
      for (uint32_t shard = 0; shard < shards_; ++shard) turn(shard);
    }
  }
  // All have cut for every epoch that has begun; the last becomes durable.
  void commit() {
    turn_all();
    ASSERT_EQ(writer_.cuts_of(schedule_.epoch()), shards_);
    writer_.commit(schedule_.epoch());
    turn_all();
  }
  void advance(int64_t ns) { network_.advance(ns); }
  // The worker sleeps until then, and answers not before.
  void expect_memory_only_after(int64_t ns, io::SimClient& client) {
    advance(ns - 1);
    turn_all();
    EXPECT_EQ(received(client), "");
    EXPECT_EQ(workers_[0]->prepare_poll(), 1);
    advance(1);
    turn_all();
    EXPECT_NE(received(client).find("memory_only"), std::string::npos);
  }

  // ---- clients of the worker of this shard
  io::SimClient& send(const std::string& request, uint32_t shard = 0) {
    clients_.push_back(ios_[shard]->connect(http_listener));
    clients_.back().write(request);
    return clients_.back();
  }
  static std::string request(const std::string& line, const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string put_of(const std::string& name) {
    return request("PUT /v1/subjects/" + name,
                   R"({"limits": [{"name": "rpm", "metric": "requests", "amount": 5,)"
                   R"( "period_ms": 60000}]})");
  }
  static std::string usage_of(const std::string& name) {
    return request("GET /v1/subjects/" + name);
  }
  static std::string removal_of(const std::string& name) {
    return request("DELETE /v1/subjects/" + name);
  }
  // What it has received since the last call.
  static std::string received(io::SimClient& client) {
    std::vector<std::byte> bytes;
    client.read(bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::string status(io::SimClient& client) { return received(client).substr(0, 12); }
  std::string answer(const std::string& request, uint32_t shard = 0) {
    io::SimClient& client = send(request, shard);
    turn_all();
    return received(client);
  }

  std::string name_on(uint32_t shard) {
    for (;;) {
      std::string name = "model" + std::to_string(++names_made_);
      const uint64_t hash = proto::routing_hash(name, worker_group_.mesh().routing_seed());
      if (proto::owner_shard(hash, shards_) == shard) return name;
    }
  }

  const uint32_t shards_;
  io::Random random_{1};
  io::SimNetwork network_{random_};
  FakeWriter writer_;
  CutSchedule schedule_;
  WorkerGroup worker_group_{{.shards = shards_}};
  std::vector<std::unique_ptr<io::SimIo>> ios_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<io::SimClient> clients_;
  int names_made_ = 0;
};

TEST_F(StateWorkers, a_put_is_answered_when_it_is_durable) {
  io::SimClient& client = send(put_of("a"));
  turn_all();
  EXPECT_EQ(received(client), "");
  EXPECT_FALSE(workers_[0]->idle());
  EXPECT_NE(answer(usage_of("a")).find("\"amount\":5"), std::string::npos) << "it holds at once";
  commit();
  const std::string text = received(client);
  EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 200");
  EXPECT_NE(text.find("\"name\":\"a\""), std::string::npos) << text;
  EXPECT_TRUE(workers_[0]->idle());
  EXPECT_EQ(writer_.cuts.back().changes.at(0).name, "a");
}

TEST_F(StateWorkers, so_are_a_reset_and_a_removal) {
  send(put_of("a"));
  commit();
  for (const auto& [request, expected] :
       {std::pair(request("POST /v1/reset", R"({"subject": "a"})"), "HTTP/1.1 200"),
        std::pair(request("POST /v1/reset-all"), "HTTP/1.1 200"),
        std::pair(removal_of("a"), "HTTP/1.1 204")}) {
    advance(10 * ms);
    io::SimClient& client = send(request);
    turn_all();
    EXPECT_EQ(received(client), "") << request;
    commit();
    EXPECT_EQ(status(client), expected) << request;
  }
}

TEST_F(StateWorkers, a_removal_of_what_is_not_there_waits_for_the_removal_before) {
  send(put_of("a"));
  commit();
  advance(10 * ms);
  io::SimClient& first = send(removal_of("a"));
  turn_all();
  io::SimClient& again = send(removal_of("a"));
  turn_all();
  EXPECT_EQ(received(again), "");
  commit();
  EXPECT_EQ(status(first), "HTTP/1.1 204");
  EXPECT_EQ(status(again), "HTTP/1.1 404");
  const uint64_t epoch = schedule_.epoch();
  advance(10 * ms);
  EXPECT_EQ(answer(removal_of("a")).substr(0, 12), "HTTP/1.1 404") << "nothing has changed";
  EXPECT_EQ(schedule_.epoch(), epoch);
}

TEST_F(StateWorkers, other_calls_wait_for_no_disk) {
  send(put_of("a"));
  turn_all();
  const std::string body = R"({"subjects": ["a"]})";
  EXPECT_EQ(answer(request("POST /v1/reserve", body)).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(answer(request("POST /v1/record", body)).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(answer(request("DELETE /v1/subjects/a?dry_run=true")).substr(0, 12), "HTTP/1.1 200");
  EXPECT_EQ(answer(request("GET /metrics")).substr(0, 12), "HTTP/1.1 200");
}

TEST_F(StateWorkers, waiting_calls_have_an_epoch_begin_early) {
  send(put_of("a"));
  turn_all();
  EXPECT_EQ(schedule_.epoch(), 1U);
  io::SimClient& second = send(put_of("b"));
  commit();
  EXPECT_EQ(received(second), "") << "it came behind the cut";
  EXPECT_EQ(schedule_.epoch(), 1U);
  EXPECT_EQ(workers_[0]->prepare_poll(), 10 * ms);
  advance(10 * ms);
  commit();
  EXPECT_EQ(schedule_.epoch(), 2U);
  EXPECT_EQ(status(second), "HTTP/1.1 200");
}

TEST_F(StateWorkers, nothing_is_changed_while_it_could_not_be_kept) {
  send(put_of("a"));
  commit();
  advance(10 * ms);
  writer_.set_status(store::WriterStatus::failing);
  for (const std::string& each : {put_of("b"), removal_of("a"), request("POST /v1/reset-all")}) {
    const std::string text = answer(each);
    EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 503") << text;
    EXPECT_NE(text.find("not_durable"), std::string::npos) << text;
  }
  EXPECT_EQ(answer(usage_of("b")).substr(0, 12), "HTTP/1.1 404");
  const std::string reserved = answer(request("POST /v1/reserve", R"({"subjects": ["a"]})"));
  const size_t id = reserved.find("\"reservation\":\"") + 15;
  const std::string body = R"({"reservation": ")" + reserved.substr(id, 16) + "\"}";
  EXPECT_EQ(answer(request("POST /v1/cancel", body)).substr(0, 12), "HTTP/1.1 200") << body;
  EXPECT_NE(answer(usage_of("a")).find("\"used\":0"), std::string::npos) << "it is refunded";
  EXPECT_EQ(answer(usage_of("a")).substr(0, 12), "HTTP/1.1 200");
  writer_.set_status(store::WriterStatus::running);
  io::SimClient& client = send(put_of("b"));
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
}

TEST_F(StateWorkers, an_answer_says_that_the_change_is_in_memory_only_when_the_writer_fails) {
  io::SimClient& client = send(put_of("a"));
  turn_all();
  writer_.set_status(store::WriterStatus::failing);
  turn_all();
  const std::string text = received(client);
  EXPECT_EQ(text.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(text.find("memory_only"), std::string::npos) << text;
  EXPECT_NE(text.find("\"retry_after_ms\":1000"), std::string::npos) << text;
  EXPECT_EQ(answer(usage_of("a")).substr(0, 12), "HTTP/1.1 200");
}

TEST_F(StateWorkers, so_does_one_that_has_waited_for_too_long) {
  io::SimClient& client = send(put_of("a"));
  turn_all();
  advance(4'000 * ms);
  io::SimClient& later = send(put_of("b"));
  turn_all();
  expect_memory_only_after(6'000 * ms, client);
  // The commit takes longer than any that ends, so nobody waits for it.
  EXPECT_NE(received(later).find("memory_only"), std::string::npos);
  EXPECT_TRUE(workers_[0]->idle());
}

// Handing over has taken so long that the next epoch is not due for 12 s.
TEST_F(StateWorkers, wakes_when_an_answer_has_waited_for_too_long) {
  send(put_of("a"));
  commit();
  schedule_.note_handed_over(0, {.took_ns = 3'000 * ms});
  io::SimClient& client = send(put_of("b"));
  turn_all();
  expect_memory_only_after(10'000 * ms, client);
  EXPECT_EQ(schedule_.epoch(), 1U);
}

TEST_F(StateWorkers, a_connection_that_ends_takes_its_answer_with_it) {
  io::SimClient& client = send(put_of("a"));
  turn_all();
  client.reset();
  turn_all();
  EXPECT_TRUE(workers_[0]->idle());
  EXPECT_EQ(workers_[0]->sessions_count(), 0U);
  commit();
}

TEST_F(StateWorkers, a_draining_worker_waits_for_the_disk) {
  io::SimClient& client = send(put_of("a"));
  turn_all();
  workers_[0]->begin_drain();
  turn_all();
  EXPECT_FALSE(workers_[0]->drained());
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
  client.close();
  turn_all();
  EXPECT_TRUE(workers_[0]->drained());
}

TEST_F(StateWorkers, does_not_sleep_while_a_cut_is_under_way) {
  io::SimClient& reader = send(put_of("a"));
  commit();
  for (int i = 0; i < 100; ++i) send(put_of("s" + std::to_string(i)));
  for (int turns = 0; turns < 10; ++turns) turn_all();
  ASSERT_EQ(schedule_.epoch(), 1U);
  advance(10 * ms);
  reader.write(usage_of("a"));
  turn(0);
  ASSERT_EQ(schedule_.epoch(), 2U);
  EXPECT_EQ(writer_.cuts_of(2), 0U) << "a turn with calls hands over 64 records";
  EXPECT_EQ(workers_[0]->prepare_poll(), 0);
  turn(0);
  EXPECT_EQ(writer_.cuts_of(2), 1U);
}

TEST_F(StateWorkers, shows_the_state_in_the_metrics) {
  send(put_of("a"));
  turn_all();
  advance(30 * ms);
  const std::string text = answer(request("GET /metrics"));
  EXPECT_NE(text.find("\nsluicegate_state_lag_seconds 0.030\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nsluicegate_state_status{name=\"running\"} 1\n"), std::string::npos);
  commit();
  advance(1'000 * ms);
  answer(request("POST /v1/record", R"({"subjects": ["a"]})"));
  advance(40 * ms);
  const std::string later = answer(request("GET /metrics"));
  EXPECT_NE(later.find("\nsluicegate_state_lag_seconds 0.040\n"), std::string::npos)
      << "no epoch has begun since";
}

// ------------------------------------------------------------------------------- places of tasks

class StateWorkersWithTwoTasks : public StateWorkers {
 protected:
  StateWorkersWithTwoTasks() : StateWorkers(1, 2) {}
  void put_many(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      waiting_.push_back(&send(put_of("s" + std::to_string(i))));
      turn(0);
    }
    turn_all();
  }
  size_t answered() {
    size_t count = 0;
    for (io::SimClient* client : waiting_) count += status(*client) == "HTTP/1.1 200" ? 1 : 0;
    return count;
  }
  std::vector<io::SimClient*> waiting_;
};

TEST_F(StateWorkersWithTwoTasks, calls_that_wait_for_the_disk_keep_no_place) {
  put_many(parked_tasks_max);
  EXPECT_EQ(workers_[0]->tasks_count(), 0U);
  EXPECT_EQ(answer(usage_of("s0")).substr(0, 12), "HTTP/1.1 200");
  commit();
  advance(10 * ms);
  commit();
  EXPECT_EQ(answered(), parked_tasks_max);
  EXPECT_TRUE(workers_[0]->idle());
}

TEST_F(StateWorkersWithTwoTasks, those_beyond_the_bound_are_refused) {
  put_many(parked_tasks_max);
  io::SimClient& refused = send(put_of("one-more"));
  turn_all();
  EXPECT_NE(received(refused).find("not_durable"), std::string::npos);
  EXPECT_EQ(workers_[0]->tasks_count(), 0U);
  EXPECT_EQ(answer(usage_of("s0")).substr(0, 12), "HTTP/1.1 200");
  commit();
  advance(10 * ms);
  commit();
  EXPECT_EQ(answered(), parked_tasks_max);
  io::SimClient& again = send(put_of("one-more"));
  turn_all();
  advance(10 * ms);
  commit();
  EXPECT_EQ(status(again), "HTTP/1.1 200");
}

class TwoStateWorkersWithOneTask : public StateWorkers {
 protected:
  TwoStateWorkersWithOneTask() : StateWorkers(2, 1) {}
};

TEST_F(TwoStateWorkersWithOneTask,
       a_session_without_a_task_goes_on_when_another_waits_for_the_disk) {
  io::SimClient& first = send(put_of(name_on(1)));
  turn(0);
  turn(0);
  ASSERT_EQ(workers_[0]->tasks_count(), 1U);
  const std::string name = name_on(0);
  io::SimClient& reader = send(usage_of(name));
  for (int turns = 0; turns < 10; ++turns) turn(0);
  EXPECT_EQ(received(reader), "");
  turn_all();
  EXPECT_EQ(received(first), "");
  EXPECT_EQ(status(reader), "HTTP/1.1 404");
}

// ------------------------------------------------------------------------------ several shards

class TwoStateWorkers : public StateWorkers {
 protected:
  TwoStateWorkers() : StateWorkers(2) {}
};

TEST_F(TwoStateWorkers, a_put_of_another_shard_is_answered_when_it_is_durable) {
  io::SimClient& client = send(put_of(name_on(1)));
  turn_all();
  EXPECT_EQ(received(client), "");
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
}

// The first shard is reset before the cut, the second behind it.
TEST_F(TwoStateWorkers, an_answer_waits_for_the_last_epoch_of_all_shards) {
  io::SimClient& client = send(request("POST /v1/reset-all"));
  turn(0);
  turn(0);
  ASSERT_EQ(schedule_.epoch(), 1U) << "the reset is a change of the first shard";
  turn_all();
  EXPECT_EQ(writer_.cuts_of(1), 2U);
  writer_.commit(1);
  turn_all();
  EXPECT_EQ(received(client), "");
  EXPECT_EQ(schedule_.epoch(), 1U);
  advance(10 * ms);
  turn_all();
  EXPECT_EQ(schedule_.epoch(), 2U);
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
}

TEST_F(TwoStateWorkers, an_epoch_wakes_the_other_shards) {
  support::FakeIo sleeping;
  turn_all();
  worker_group_.attach(1, &sleeping);
  io::SimClient& client = send(put_of(name_on(0)));
  while (schedule_.epoch() == 0) turn(0);
  EXPECT_EQ(sleeping.wakes, 1);
  worker_group_.attach(1, ios_[1].get());
  EXPECT_EQ(workers_[1]->prepare_poll(), 0);
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
}

// A put that the second shard gets behind the first one's cut is not in the second one's cut.
TEST_F(TwoStateWorkers, a_shard_cuts_before_it_reads_a_message) {
  for (int clients = 0; clients < 3; ++clients) answer(usage_of(name_on(0)));
  ASSERT_EQ(workers_[0]->sessions_count(), 2U) << "the second one moves to the other shard";
  clients_[0].write(put_of(name_on(0)));
  while (schedule_.epoch() == 0) turn(0);
  clients_[2].write(put_of(name_on(1)));
  for (int turns = 0; turns < 10; ++turns) turn(0);
  turn(1);
  ASSERT_EQ(writer_.cuts_of(1), 2U);
  EXPECT_EQ(workers_[1]->quotas().subjects_count(), 1U) << "it has read the message";
  EXPECT_TRUE(writer_.cuts.back().changes.empty());
}

// All shards are reset, the first one first, for a client of the second.
TEST_F(TwoStateWorkers, a_shard_cuts_before_it_reads_an_answer) {
  io::SimClient& client = send(request("POST /v1/reset-all"), 1);
  for (int turns = 0; turns < 10; ++turns) turn(1);
  while (schedule_.epoch() == 0) turn(0);
  turn(1);
  ASSERT_EQ(writer_.cuts_of(1), 2U);
  const auto reset_order = [this](size_t cut) {
    const auto reader = state::PartReader::open(writer_.cuts[cut].parts.at(0));
    EXPECT_TRUE(reader);
    return reader->header().reset_all_order;
  };
  EXPECT_GT(reset_order(0), 0U);
  EXPECT_EQ(reset_order(1), 0U);
  commit();
  EXPECT_EQ(received(client), "");
  advance(10 * ms);
  commit();
  EXPECT_EQ(status(client), "HTTP/1.1 200");
  EXPECT_GT(reset_order(3), 0U);
}

}  // namespace
}  // namespace sluice::server
