// Goal: the connection keeps its contract whatever the server does.
// Method: a fake server that answers late, in pieces, out of order, with errors, or not at all.
#include "sluicegate/connection.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "fake_server.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using test::FakeServer;
using test::Peer;

constexpr std::array<std::string_view, 3> three_keys{"a", "b", "c"};

// A connection to a server that sends Welcome and then runs the script.
struct Session {
  explicit Session(FakeServer::Script script, ConnectOptions options = {})
      : server{FakeServer::welcoming(std::move(script))},
        connection{"127.0.0.1", server.port(), std::move(options)} {}
  FakeServer server;
  Connection connection;
};

TEST(Connection, sends_hello_and_keeps_welcome) {
  FakeServer server{[](Peer& peer) {
    const auto hello = peer.read().getHello();
    if (hello.getVersion() != 1 || hello.getClientName() != "me" || hello.getWantedShard() != 3) {
      return;
    }
    peer.write(test::welcome());
    peer.at_end();
  }};
  const Connection connection{"localhost", server.port(), {.client_name = "me", .wanted_shard = 2}};
  EXPECT_EQ(connection.welcome().server_version, "fake");
  EXPECT_EQ(connection.welcome().frame_entries_max, 4096u);
  EXPECT_EQ(connection.owner_shard("any"), 0u);
}

TEST(Connection, throws_without_a_server) {
  uint16_t free_port = 0;
  {
    free_port = FakeServer{[](Peer&) {}}.port();
  }
  EXPECT_THROW((Connection{"127.0.0.1", free_port}), ConnectionLost);
}

TEST(Connection, times_out_without_a_welcome) {
  FakeServer server{[](Peer& peer) {
    peer.read();
    peer.at_end();
  }};
  EXPECT_THROW((Connection{"127.0.0.1", server.port(), {.connect_timeout = 50ms}}), TimedOut);
}

TEST(Connection, reports_why_hello_was_refused) {
  FakeServer server{[](Peer& peer) {
    peer.read();
    peer.write(test::error(0, test::schema::ErrorCode::TOO_MANY_CONNECTIONS, "full"));
  }};
  try {
    const Connection connection{"127.0.0.1", server.port()};
    FAIL() << "Refused is not thrown";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::too_many_connections);
  }
}

TEST(Connection, reassembles_an_answer_from_single_bytes) {
  Session session{[](Peer& peer) {
    const auto id = peer.read().getId();
    for (const char byte : test::verdicts(id, 3, {1, 2, 1})) {
      peer.write({byte});
      std::this_thread::sleep_for(100us);
    }
    peer.at_end();
  }};
  const auto verdicts = session.connection.acquire(three_keys);
  EXPECT_EQ(verdicts, (std::vector{Verdict::approved, Verdict::denied, Verdict::approved}));
}

TEST(Connection, returns_answers_in_the_order_they_arrive) {
  Session session{[](Peer& peer) {
    const auto first = peer.read().getId();
    const auto second = peer.read().getId();
    peer.write(test::verdicts(second, 3, {2}) + test::verdicts(first, 3, {1}));
    peer.at_end();
  }};
  const uint64_t first = session.connection.send(Acquire{.keys = three_keys});
  const uint64_t second = session.connection.send(Acquire{.keys = three_keys});
  EXPECT_EQ(session.connection.outstanding_frames(), 2u);
  EXPECT_EQ(id_of(*session.connection.receive(5s)), second);
  EXPECT_EQ(id_of(*session.connection.receive(5s)), first);
  EXPECT_EQ(session.connection.outstanding_frames(), 0u);
}

TEST(Connection, has_answer_reports_an_answer_that_was_read_already) {
  Session session{[](Peer& peer) {
    const auto first = peer.read().getId();
    const auto second = peer.read().getId();
    peer.write(test::verdicts(first, 3, {1}) + test::verdicts(second, 3, {1}));
    peer.at_end();
  }};
  session.connection.send(Acquire{.keys = three_keys});
  session.connection.send(Acquire{.keys = three_keys});
  EXPECT_FALSE(session.connection.has_answer());
  ASSERT_TRUE(session.connection.receive(5s));
  EXPECT_TRUE(session.connection.has_answer());
  ASSERT_TRUE(session.connection.receive(0ms));
  EXPECT_FALSE(session.connection.has_answer());
}

TEST(Connection, receive_returns_nothing_when_nothing_arrives) {
  Session session{[](Peer& peer) { peer.at_end(); }};
  EXPECT_FALSE(session.connection.receive(0ms));
  EXPECT_FALSE(session.connection.receive(5ms));
}

TEST(Connection, a_blocking_call_keeps_other_answers) {
  Session session{[](Peer& peer) {
    const auto first = peer.read().getId();
    const auto ping = peer.read().getId();
    peer.write(test::verdicts(first, 3, {1}) +
               test::answer(ping, [](auto frame) { frame.setPong(); }));
    peer.at_end();
  }};
  const uint64_t first = session.connection.send(Acquire{.keys = three_keys});
  session.connection.ping();
  const auto kept = session.connection.receive(0ms);
  ASSERT_TRUE(kept);
  EXPECT_EQ(std::get<Verdicts>(*kept).id, first);
}

TEST(Connection, acquire_waits_for_queued_entries) {
  Session session{[](Peer& peer) {
    const auto frame = peer.read();
    const auto id = frame.getId();
    if (frame.getAcquire().getFlags() != test::schema::FRAME_MAY_WAIT) return;
    peer.write(test::verdicts(id, 3, {1, 3, 3}));
    peer.write(test::granted(id, {2}, {1}));
    peer.write(test::granted(id, {1}, {10}));
    peer.at_end();
  }};
  const auto verdicts =
      session.connection.acquire(three_keys, {.may_wait = true, .wait_limit_ms = 100});
  EXPECT_EQ(verdicts, (std::vector{Verdict::approved, Verdict::wait_limit, Verdict::approved}));
}

TEST(Connection, refuses_a_grant_for_an_entry_that_does_not_wait) {
  Session session{[](Peer& peer) {
    const auto id = peer.read().getId();
    peer.write(test::verdicts(id, 3, {1, 3, 1}) + test::granted(id, {0}, {1}));
    peer.at_end();
  }};
  EXPECT_THROW((void)session.connection.acquire(three_keys, {.may_wait = true}), ProtocolError);
}

TEST(Connection, keeps_the_connection_after_a_time_out) {
  Session session{[](Peer& peer) {
                    const auto late = peer.read().getId();
                    const auto ping = peer.read().getId();
                    peer.write(test::answer(ping, [](auto frame) { frame.setPong(); }) +
                               test::verdicts(late, 1, {1}));
                    peer.at_end();
                  },
                  {.call_timeout = 600ms}};  // the Pong must arrive in time
  EXPECT_THROW((void)session.connection.acquire("a"), TimedOut);
  session.connection.ping();
  EXPECT_TRUE(session.connection.receive(5s));
}

TEST(Connection, an_error_frame_becomes_refused) {
  Session session{[](Peer& peer) {
    peer.write(test::error(peer.read().getId(), test::schema::ErrorCode::BAD_COST, "cost 0"));
    peer.at_end();
  }};
  try {
    (void)session.connection.acquire("a", {.cost = 0});
    FAIL() << "Refused is not thrown";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.code(), ErrorCode::bad_cost);
    EXPECT_NE(std::string{refused.what()}.find("cost 0"), std::string::npos);
  }
  EXPECT_EQ(session.connection.outstanding_frames(), 0u);
}

TEST(Connection, refuses_new_frames_after_go_away) {
  Session session{[](Peer& peer) {
    peer.write(test::answer(0, [](auto frame) { frame.initGoAway().setReason("bye"); }));
    peer.at_end();
  }};
  const auto answer = session.connection.receive(5s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<GoAway>(*answer).reason, "bye");
  EXPECT_TRUE(session.connection.draining());
  EXPECT_THROW(session.connection.ping(), Refused);
}

TEST(Connection, reports_a_closed_connection) {
  Session session{[](Peer& peer) { peer.read(); }};
  EXPECT_THROW((void)session.connection.acquire("a"), ConnectionLost);
}

TEST(Connection, sends_no_more_than_welcome_allows) {
  Session session{[](Peer& peer) { peer.at_end(); }};
  for (int i = 0; i < 4; ++i) session.connection.send(Ping{});
  EXPECT_THROW(session.connection.send(Ping{}), LimitExceeded);
  EXPECT_EQ(session.connection.outstanding_frames(), 4u);
}

TEST(Connection, sends_no_frame_beyond_the_entries_and_bytes_of_welcome) {
  Session session{[](Peer& peer) { peer.at_end(); }};
  const std::vector<std::string_view> too_many(4097, "a");
  EXPECT_THROW(session.connection.send(Acquire{.keys = too_many}), LimitExceeded);
  const std::string long_key(1000, 'k');
  const std::vector<std::string_view> too_long(200, long_key);
  EXPECT_THROW(session.connection.send(Acquire{.keys = too_long}), LimitExceeded);
  EXPECT_EQ(session.connection.outstanding_frames(), 0u);
}

// Both sides send more than the sockets' buffers hold: neither may wait for the other forever.
TEST(Connection, flush_reads_while_the_server_does_not) {
  constexpr int frames_count = 2'000;
  const std::string key(1000, 'k');
  const std::vector<std::string_view> keys(100, key);
  FakeServer server{[](Peer& peer) {
    peer.read();
    peer.write(test::answer(0, [](auto frame) {
      auto to = frame.initWelcome();
      to.setVersion(1);
      to.setFrameBytesMax(128 * 1024);
      to.setFrameEntriesMax(4096);
      to.setOutstandingFramesMax(frames_count);
      to.setOutstandingBytesMax(512 * 1024 * 1024);
    }));
    for (int i = 0; i < frames_count; ++i) {
      const auto id = peer.read().getId();
      peer.write(test::verdicts(id, 60'000, std::vector<uint8_t>(60'000, 1)));
    }
    peer.at_end();
  }};
  Connection connection{"127.0.0.1", server.port()};
  for (int i = 0; i < frames_count; ++i) connection.send(Acquire{.keys = keys});
  connection.flush();
  for (int i = 0; i < frames_count; ++i) ASSERT_TRUE(connection.receive(5s));
}

TEST(Connection, inspect_distinguishes_known_and_unknown_keys) {
  Session session{[](Peer& peer) {
    peer.write(test::answer(peer.read().getId(), [](auto frame) {
      auto to = frame.initInspected();
      to.setKeys(kj::StringPtr("user").asBytes());
      to.initKeySizes(1).set(0, 4);
      to.initApproved(1).set(0, 7);
    }));
    peer.write(test::answer(peer.read().getId(), [](auto frame) { frame.initInspected(); }));
    peer.at_end();
  }};
  const auto known = session.connection.inspect("user");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->key, "user");
  EXPECT_EQ(known->approved, 7u);
  EXPECT_FALSE(session.connection.inspect("unknown"));
}

TEST(Connection, interns_keys_and_acquires_by_their_handles) {
  Session session{[](Peer& peer) {
    const auto intern = peer.read();
    if (intern.getIntern().getKeySizes().size() != 3) return;
    peer.write(test::interned(intern.getId(), {7, 0, 9}, {1}));
    const auto acquire = peer.read();
    const auto by_handle = acquire.getAcquireByHandle();
    if (by_handle.getHandles()[2] != 9 || by_handle.getCosts()[2] != 5) return;
    if (by_handle.getWindowMs()[2] != 60'000) return;
    peer.write(test::verdicts(acquire.getId(), 3, {1, 2, 1}));
    const auto forget = peer.read();
    if (forget.getForget().getHandles()[0] != 7) return;
    peer.write(test::answer(forget.getId(), [](auto frame) { frame.setDone(); }));
    peer.at_end();
  }};
  const auto handles = session.connection.intern(three_keys);
  EXPECT_EQ(handles, (std::vector<uint32_t>{7, 0, 9}));
  EXPECT_EQ(session.connection.acquire(handles, {.cost = 5, .window_ms = 60'000}),
            (std::vector{Verdict::approved, Verdict::denied, Verdict::approved}));
  session.connection.forget(handles);
}

TEST(Connection, intern_reports_every_key_that_got_no_handle) {
  Session session{[](Peer& peer) {
    peer.write(test::interned(peer.read().getId(), {7, no_handle, no_handle}, {1, 9, 13}));
    peer.at_end();
  }};
  try {
    (void)session.connection.intern(three_keys);
    FAIL() << "two keys got no handle";
  } catch (const NotInterned& failure) {
    EXPECT_EQ(failure.handles(), (std::vector<uint32_t>{7, no_handle, no_handle}));
    EXPECT_EQ(failure.verdicts(),
              (std::vector{Verdict::approved, Verdict::invalid_key, Verdict::handles_full}));
    EXPECT_STREQ(failure.what(),
                 "2 of 3 keys of a frame got no handle, the first of them at place 1: invalid_key");
  }
}

TEST(Connection, refuses_an_approval_without_a_handle) {
  Session session{[](Peer& peer) {
    peer.write(test::interned(peer.read().getId(), {7, no_handle, 8}, {1}));
    peer.at_end();
  }};
  EXPECT_THROW((void)session.connection.intern(three_keys), ProtocolError);
}

TEST(Connection, refuses_another_number_of_handles_than_keys) {
  Session session{[](Peer& peer) {
    peer.write(test::interned(peer.read().getId(), {7, 8}, {1}));
    peer.at_end();
  }};
  EXPECT_THROW((void)session.connection.intern(three_keys), ProtocolError);
}

TEST(Connection, handles_keep_to_the_bounds_of_welcome) {
  Session session{[](Peer& peer) { peer.at_end(); }};
  const std::vector<std::string_view> too_many(test::handles_max + 1, "a");
  EXPECT_THROW(session.connection.send(Intern{.keys = too_many}), LimitExceeded);
  const std::vector<uint32_t> handles(4097, 1);
  EXPECT_THROW(session.connection.send(AcquireByHandle{.handles = handles}), LimitExceeded);
  EXPECT_THROW(session.connection.send(Forget{.handles = handles}), LimitExceeded);
  EXPECT_THROW(session.connection.send(AcquireByHandle{}), LimitExceeded);
  EXPECT_EQ(session.connection.outstanding_frames(), 0u);
}

TEST(Connection, intern_throws_for_a_server_without_handles) {
  FakeServer server{[](Peer& peer) {
    peer.read();
    peer.write(test::answer(0, [](auto frame) {
      auto to = frame.initWelcome();
      to.setVersion(1);
      to.setFrameBytesMax(128 * 1024);
      to.setFrameEntriesMax(4096);
      to.setOutstandingFramesMax(4);
      to.setOutstandingBytesMax(256 * 1024);
    }));
    peer.at_end();
  }};
  Connection connection{"127.0.0.1", server.port()};
  EXPECT_THROW((void)connection.intern(three_keys), LimitExceeded);
}

TEST(Connection, counts_bytes_and_system_calls) {
  Session session{[](Peer& peer) {
    peer.write(test::verdicts(peer.read().getId(), 3, {1}));
    peer.at_end();
  }};
  const Traffic before = session.connection.traffic();
  std::vector<uint64_t> question;
  encode(1, Acquire{.keys = three_keys}, question);
  (void)session.connection.acquire(three_keys);
  const Traffic after = session.connection.traffic();
  EXPECT_EQ(after.bytes_sent - before.bytes_sent, question.size() * 8);
  EXPECT_EQ(after.bytes_received - before.bytes_received, test::verdicts(1, 3, {1}).size());
  EXPECT_GE(after.system_calls - before.system_calls, 2u);
}

TEST(Connection, release_and_withdraw_wait_for_done) {
  Session session{[](Peer& peer) {
    const auto release = peer.read();
    if (release.getRelease().getCosts()[0] != 3) return;
    peer.write(test::answer(release.getId(), [](auto frame) { frame.setDone(); }));
    const auto withdraw = peer.read();
    if (withdraw.getWithdraw().getTarget() != 77) return;
    peer.write(test::answer(withdraw.getId(), [](auto frame) { frame.setDone(); }));
    peer.at_end();
  }};
  session.connection.release("a", 3);
  session.connection.withdraw({.target = 77, .entries = {}});
}

TEST(Connection, a_release_says_which_owner_was_not_reached) {
  constexpr uint8_t unreached = static_cast<uint8_t>(Verdict::owner_unreachable);
  Session session{[](Peer& peer) {
    peer.write(test::verdicts(peer.read().getId(), 3, {1, unreached, unreached}));
    peer.write(test::verdicts(peer.read().getId(), 2, {unreached}));  // of three
    peer.at_end();
  }};
  try {
    session.connection.release({.keys = three_keys});
    FAIL() << "nothing was thrown";
  } catch (const OwnerUnreachable& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("b: owner_unreachable: nothing was"));
  }
  EXPECT_THROW(session.connection.release({.keys = three_keys}), ProtocolError);
}

}  // namespace
}  // namespace sluicegate
