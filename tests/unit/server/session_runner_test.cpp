// Goal: sessions get their events and answer at the end of the turn; the work of one turn is
//       bounded, and the next one goes on; sessions that are left when draining took too long are
//       cut off once.
// Method: REST sessions over an Io that records calls; the test makes the events.
#include "server/session_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "route/entry_router.hpp"
#include "server/worker_group.hpp"
#include "shard/key_shard.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/server/fake_quotas.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {
namespace {

class SessionRunnerTest : public ::testing::Test {
 protected:
  io::SocketId open(uint32_t index) {
    const io::SocketId socket{.index = index, .generation = 1};
    sessions_.open_http(context_, io_, socket).begin();
    return socket;
  }
  void receive(io::SocketId socket, const std::string& text) {
    std::memcpy(bytes_.data(), text.data(), text.size());
    runner_.on_event({.kind = io::EventKind::received,
                      .socket = socket,
                      .bytes = std::as_writable_bytes(std::span(bytes_).first(text.size()))});
  }
  static std::string waiting_requests(uint64_t count) {
    std::string requests;
    for (uint64_t i = 0; i < count; ++i) {
      requests += "GET /rate/k?maxRequests=1000000&canWait=true HTTP/1.1\r\nHost: x\r\n\r\n";
    }
    return requests;
  }
  void finish_sends(io::SocketId socket) {
    for (const std::string& sent : std::exchange(io_.sent, {})) {
      sessions_.at(socket.index)->on_sent(static_cast<int32_t>(sent.size()), 0);
    }
  }
  // Since finish_sends().
  long answers_sent() const {
    long count = 0;
    for (const std::string& sent : io_.sent) {
      for (size_t at = sent.find("HTTP/1.1 200"); at != std::string::npos;
           at = sent.find("HTTP/1.1 200", at + 1)) {
        ++count;
      }
    }
    return count;
  }
  long closed() const { return std::count(io_.calls.begin(), io_.calls.end(), "close"); }
  void set_time_ms(int64_t now_ms) { context_.now.monotonic_ns = now_ms * 1'000'000; }
  long finishing() {
    long count = 0;
    for (uint32_t index = 0; index < sessions_.open_count(); ++index) {
      count += sessions_.at(index)->connection().finishing() ? 1 : 0;
    }
    return count;
  }
  uint64_t approved() const {
    return keys_.statistics().decisions[static_cast<size_t>(api::Verdict::approved)];
  }
  // A connection with this many handles has ended.
  void depart(uint32_t handles_count) {
    auto set = std::make_unique<session::HandleSet>(handles_max);
    for (uint32_t i = 0; i < handles_count; ++i) {
      set->add(keys_.intern("key" + std::to_string(next_key_++)));
    }
    ASSERT_EQ(set->count(), handles_count);
    context_.departed_handles.push_back(*set.release());
  }
  uint32_t freed_in_one_turn() {
    const uint32_t before = keys_.handles_count();
    runner_.free_departed_handles();
    return before - keys_.handles_count();
  }

  static constexpr uint32_t sockets_max = 1'100;
  static constexpr uint32_t handles_max = 10'000;

  WorkerGroup worker_group_{route::MeshOptions{}};
  support::FakeIo io_;
  session::KeepingBackend backend_;
  const session::Options options_{};
  session::Context context_{backend_, options_};
  SessionTable sessions_{{.sockets_max = sockets_max, .key_bytes_max = 64, .shards = 1}};
  route::Mailboxes mailboxes_{worker_group_.mesh(), 0};
  route::EntryRouter router_{mailboxes_, context_.turn, {}, 100};
  shard::KeyShard keys_{{.keys_max = 10, .handles_max = handles_max}};
  FakeQuotas::Asked asked_;
  FakeQuotas quotas_{asked_, 0};
  WaiterDelivery waiters_{context_, sessions_, mailboxes_, keys_, quotas_, 0};
  EntryDecisions decisions_{context_, sessions_, router_.book(),
                            waiters_, keys_,     worker_group_.ids()};
  WorkerStatistics statistics_;
  SessionRunner runner_{context_, sessions_, decisions_, waiters_, keys_, statistics_};
  std::vector<char> bytes_ = std::vector<char>(1'000'000);
  uint32_t next_key_ = 0;
};

TEST_F(SessionRunnerTest, an_answer_leaves_at_the_end_of_the_turn) {
  const io::SocketId socket = open(0);
  EXPECT_FALSE(runner_.has_work());
  receive(socket, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(runner_.has_work());
  EXPECT_TRUE(io_.sent.empty());
  runner_.end_turn();
  ASSERT_EQ(io_.sent.size(), 1U);
  EXPECT_EQ(io_.sent[0].substr(0, 12), "HTTP/1.1 200");
  EXPECT_FALSE(runner_.has_work());
}

TEST_F(SessionRunnerTest, ignores_events_of_ended_connections) {
  const io::SocketId socket = open(0);
  sessions_.end(socket);
  receive(socket, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  runner_.end_turn();
  EXPECT_TRUE(io_.sent.empty());
}

TEST_F(SessionRunnerTest, has_work_while_blocked_sessions_may_find_room) {
  context_.room_made = true;
  EXPECT_TRUE(runner_.has_work());
  runner_.unblock();
  EXPECT_FALSE(runner_.has_work());
  EXPECT_EQ(statistics_.blocked, 0U);
}

// Each answer lets the session go on with its next request.
TEST_F(SessionRunnerTest, resumes_sessions_as_far_as_the_work_of_the_turn_goes) {
  constexpr uint64_t requests_count = 5'000;
  const uint64_t turn_requests_max = session::TurnWork::turn_work_max / session::work::rest_request;
  const io::SocketId socket = open(0);
  receive(socket, waiting_requests(requests_count));
  decisions_.execute();
  uint64_t before = 0;
  uint64_t turns = 0;
  while (runner_.has_work() && turns < requests_count) {
    runner_.resume_ready();
    EXPECT_LE(approved() - before, turn_requests_max);
    before = approved();
    ++turns;
    runner_.end_turn();
    finish_sends(socket);
    context_.work.begin_turn(true);
  }
  EXPECT_EQ(approved(), requests_count);
  EXPECT_GT(turns, requests_count / turn_requests_max);
}

// Whoever was served least comes first, and what arrives while others wait is no exception.
TEST_F(SessionRunnerTest, a_lone_request_passes_the_backlog_of_another_connection) {
  const io::SocketId flood = open(0);
  const io::SocketId lone = open(1);
  receive(flood, waiting_requests(5'000));
  decisions_.execute();
  runner_.resume_ready();
  runner_.end_turn();
  finish_sends(flood);
  ASSERT_FALSE(context_.ready.empty());

  context_.work.begin_turn(true);
  receive(lone, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  session::Session& first = context_.ready.pop();
  EXPECT_EQ(&first, sessions_.at(lone.index));
  first.resume();
  runner_.end_turn();
  EXPECT_EQ(answers_sent(), 1);
}

TEST_F(SessionRunnerTest, handles_1024_timers_in_a_turn) {
  for (uint32_t index = 0; index < sockets_max; ++index) open(index);
  set_time_ms(options_.header_timeout_ms - 1);
  runner_.run_timers();
  EXPECT_EQ(finishing(), 0);
  set_time_ms(options_.header_timeout_ms);
  runner_.run_timers();
  EXPECT_EQ(finishing(), 1'024);
  EXPECT_LE(context_.timers.next_due_ms(), context_.now_ms());  // the rest is due at once
  runner_.run_timers();
  EXPECT_EQ(finishing(), sockets_max);
}

TEST_F(SessionRunnerTest, frees_handles_of_an_ended_connection_in_slices) {
  depart(limits::turn_handles_freed + 100);
  EXPECT_TRUE(runner_.has_work());
  EXPECT_EQ(freed_in_one_turn(), limits::turn_handles_freed);
  EXPECT_TRUE(runner_.has_work());
  EXPECT_EQ(freed_in_one_turn(), 100U);
  EXPECT_FALSE(runner_.has_work());
  EXPECT_EQ(keys_.handles_count(), 0U);
}

TEST_F(SessionRunnerTest, frees_more_handles_when_more_connections_have_ended) {
  depart(2 * limits::turn_handles_freed);
  depart(1);
  depart(1);
  EXPECT_EQ(freed_in_one_turn(), 2 * limits::turn_handles_freed + 2);
  EXPECT_FALSE(runner_.has_work());
}

TEST_F(SessionRunnerTest, frees_handles_of_at_most_eight_ended_connections_in_a_turn) {
  depart(9 * limits::turn_handles_freed);
  for (uint32_t set = 0; set < limits::turn_handle_sets_freed; ++set) depart(1);
  EXPECT_EQ(freed_in_one_turn(), limits::turn_handle_sets_freed * limits::turn_handles_freed);
  EXPECT_TRUE(runner_.has_work());
}

TEST_F(SessionRunnerTest, a_drain_ends_idle_connections_soon) {
  open(0);
  open(1);
  context_.draining = true;
  runner_.begin_drain();
  set_time_ms(1'000);
  runner_.run_timers();
  EXPECT_EQ(finishing(), 2);
}

TEST_F(SessionRunnerTest, a_drain_sends_what_was_written) {
  receive(open(0), "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  runner_.begin_drain();
  EXPECT_EQ(io_.sent.size(), 1U);
  EXPECT_FALSE(runner_.has_work());
}

TEST_F(SessionRunnerTest, cuts_each_connection_off_once) {
  open(0);
  open(2);
  runner_.force_close();
  EXPECT_EQ(statistics_.force_closed, 2U);
  EXPECT_EQ(closed(), 2);
  runner_.force_close();
  EXPECT_EQ(statistics_.force_closed, 2U);
}

}  // namespace
}  // namespace sluice::server
