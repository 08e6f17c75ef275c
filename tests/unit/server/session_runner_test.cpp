// Goal: sessions get their events and answer at the end of the turn; those that are still there
//       when draining took too long are cut off once.
// Method: REST sessions over an Io that keeps what it is asked; the events are the test's.
#include "server/session_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "server/crew.hpp"
#include "shard/shard.hpp"
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
  long closed() const { return std::count(io_.calls.begin(), io_.calls.end(), "close"); }

  Crew crew_{route::MeshOptions{}};
  support::FakeIo io_;
  session::KeepingBackend backend_;
  const session::Options options_;
  session::Context context_{backend_, options_};
  SessionTable sessions_{4, 64};
  route::Exchange exchange_{crew_.mesh(), 0, {}};
  shard::Shard keys_{{.keys_max = 10}};
  FakeQuotas::Asked asked_;
  FakeQuotas quotas_{asked_, 0};
  WaiterDelivery waiters_{context_, sessions_, exchange_, keys_, quotas_, 0};
  EntryDecisions decisions_{context_, sessions_, exchange_, waiters_, keys_, crew_.ids()};
  WorkerStatistics statistics_;
  SessionRunner runner_{context_, sessions_, decisions_, waiters_, keys_, statistics_};
  std::vector<char> bytes_ = std::vector<char>(256);
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

TEST_F(SessionRunnerTest, an_event_of_a_connection_that_is_gone_is_nobodys) {
  const io::SocketId socket = open(0);
  sessions_.end(socket);
  receive(socket, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  runner_.end_turn();
  EXPECT_TRUE(io_.sent.empty());
}

TEST_F(SessionRunnerTest, room_is_work_until_it_was_offered) {
  context_.room_made = true;
  EXPECT_TRUE(runner_.has_work());
  runner_.unblock();
  EXPECT_FALSE(runner_.has_work());
  EXPECT_EQ(statistics_.blocked, 0U);
}

TEST_F(SessionRunnerTest, cuts_each_connection_off_once) {
  open(0);
  open(2);
  runner_.cut_off();
  EXPECT_EQ(statistics_.cut_off, 2U);
  EXPECT_EQ(closed(), 2);
  runner_.cut_off();
  EXPECT_EQ(statistics_.cut_off, 2U);
}

}  // namespace
}  // namespace sluice::server
