// Goal: each kind of frame is taken when it may be, and only then: before Hello, with an id that is
//       in use, while the server drains.
// Method: golden frames of every kind, to a session over a backend that only keeps what it is
// asked.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/golden_files.hpp"
#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

// One for each kind behind Hello.
const std::vector<std::string>& frames_behind_hello() {
  static const std::vector<std::string> names{"acquire_one", "acquire_by_handle",
                                              "release",     "withdraw",
                                              "inspect_key", "intern",
                                              "forget",      "ping",
                                              "reserve_one", "check",
                                              "settle",      "cancel",
                                              "extend",      "record",
                                              "usage",       "quota_put",
                                              "reset",       "consume",
                                              "forward",     "forward_columns",
                                              "refund",      "topology"};
  return names;
}

class NativeSessionFramesTest : public NativeQuotaFixture {
 protected:
  void receive(NativeSession& session, const std::string& name, uint64_t id) {
    const auto golden = test::golden_frame("ClientFrame", name).bytes();
    std::vector<uint64_t> words(golden.size() / 8);
    std::memcpy(words.data(), golden.data(), golden.size());
    words[2] = id;
    session.on_received(std::as_writable_bytes(std::span(words)));
  }
  schema::ServerFrame::Reader only_answer() {
    EXPECT_EQ(answers_.size(), 1U);
    return answered_frame(0);
  }
};

// Rows of answers are work of the turn, more than the bytes that they become.
TEST_F(NativeSessionFramesTest, counts_the_rows_of_a_page) {
  const std::vector<api::KeyState> keys(100);
  context_.work.begin_turn(true);
  context_.work.spend(context_.work.turn_work() - keys.size() * work::row);
  session_.on_page(7, keys, 0);
  EXPECT_TRUE(context_.work.is_over());
}

TEST_F(NativeSessionFramesTest, counts_the_calls_and_limits_of_an_answer) {
  send_reserve(7);
  asked().limits_checked = 1'000;
  context_.work.begin_turn(true);
  context_.work.spend(context_.work.turn_work() - work::of(asked()));
  answer_with({api::QuotaCode::ok, api::QuotaCode::ok});
  EXPECT_TRUE(context_.work.is_over());
}

TEST_F(NativeSessionFramesTest, takes_nothing_before_hello) {
  for (const std::string& name : frames_behind_hello()) {
    SCOPED_TRACE(name);
    support::FakeIo io;
    net::ConnectionMemory memory(1);
    NativeSession session(context_, io, {0, 2}, memory);
    session.begin();
    receive(session, name, 7);
    session.end_turn();
    EXPECT_TRUE(session.connection().finishing());
    EXPECT_TRUE(backend_.batches.empty() && backend_.queries.empty());
    session.close();
  }
}

TEST_F(NativeSessionFramesTest, refuses_an_id_in_use_but_of_a_ping) {
  send_reserve(7);
  for (const std::string& name : frames_behind_hello()) {
    if (name == "withdraw" || name == "inspect_key") continue;  // they wait for the other frame
    SCOPED_TRACE(name);
    answers_.clear();
    receive(session_, name, 7);
    end_turn();
    if (name == "ping") {
      EXPECT_TRUE(only_answer().isPong());
    } else {
      EXPECT_EQ(only_answer().getError().getCode(), schema::ErrorCode::ID_IN_USE);
    }
  }
  EXPECT_EQ(backend_.batches.size(), 1U);
}

TEST_F(NativeSessionFramesTest, takes_some_only_when_all_before_them_is_decided) {
  for (const std::string name : {"withdraw", "inspect_key"}) {
    SCOPED_TRACE(name);
    send_reserve(7);
    answers_.clear();
    receive(session_, name, 8);
    end_turn();
    EXPECT_TRUE(answers_.empty() && backend_.queries.empty());
    answer_with({api::QuotaCode::ok, api::QuotaCode::ok});
    EXPECT_EQ(answers_.size() + backend_.queries.size(), 2U);
  }
}

TEST_F(NativeSessionFramesTest, refuses_permits_and_reservations_when_it_drains) {
  session_.begin_drain();
  end_turn();
  for (const std::string name : {"acquire_one", "acquire_by_handle", "reserve_one"}) {
    SCOPED_TRACE(name);
    answers_.clear();
    receive(session_, name, 7);
    end_turn();
    const auto answer = only_answer();
    if (answer.isVerdicts()) {
      EXPECT_EQ(answer.getVerdicts().getVerdicts()[0],
                static_cast<uint8_t>(api::Verdict::draining));
    } else {
      EXPECT_EQ(answer.getQuotaAnswers().getCodes()[0],
                static_cast<uint8_t>(api::QuotaCode::draining));
    }
  }
  EXPECT_TRUE(backend_.batches.empty());
  uint64_t id = 8;
  for (const std::string name : {"check", "settle", "cancel", "extend", "record"}) {
    receive(session_, name, id++);
  }
  EXPECT_EQ(backend_.batches.size(), 5U);
}

TEST_F(NativeSessionFramesTest, a_drain_waits_for_the_answer_to_a_query) {
  session_.begin_drain();
  receive(session_, "inspect_key", 7);
  end_turn();
  ASSERT_EQ(backend_.queries.size(), 1U);
  context_.now.monotonic_ns += base::ns_per_s;
  session_.on_timer();
  EXPECT_FALSE(session_.connection().finishing());
  session_.on_inspected(7, nullptr);
  end_turn();
  session_.on_timer();
  EXPECT_TRUE(session_.connection().finishing());
}

TEST_F(NativeSessionFramesTest, waits_for_room_where_a_frame_needs_it) {
  backend_.has_room = false;
  for (const std::string name : {"ping", "withdraw", "intern", "forget"}) {
    SCOPED_TRACE(name);
    answers_.clear();
    receive(session_, name, 7);
    end_turn();
    EXPECT_EQ(answers_.size(), 1U);
  }
  answers_.clear();
  receive(session_, "usage", 7);
  receive(session_, "ping", 8);  // behind it
  end_turn();
  EXPECT_TRUE(answers_.empty() && backend_.batches.empty());
  backend_.has_room = true;
  session_.unblock();
  end_turn();
  EXPECT_EQ(backend_.batches.size(), 1U);
}

// The bytes of a Ping, and of the first half of it.
class NativeSessionHalfFrameTest : public NativeSessionFramesTest {
 protected:
  void receive_part(size_t from, size_t bytes) {
    auto golden = test::golden_frame("ClientFrame", "ping").bytes();
    std::vector<uint64_t> words(golden.size() / 8 + 1);
    auto out = std::as_writable_bytes(std::span(words));
    std::memcpy(out.data(), golden.data() + from, std::min(bytes, golden.size() - from));
    session_.on_received(out.first(std::min(bytes, golden.size() - from)));
    end_turn();
  }
  void pass_ms(int64_t ms) {
    context_.now.monotonic_ns += ms * base::ns_per_ms;
    session_.on_timer();
    end_turn();
  }
  static constexpr int64_t timeout_ms = 10'000;
};

TEST_F(NativeSessionHalfFrameTest, ends_the_connection_when_the_rest_does_not_come) {
  receive_part(0, 5);
  pass_ms(timeout_ms - 1);
  EXPECT_FALSE(session_.connection().finishing());
  receive_part(5, 7);  // more of it, but not all: the time goes on
  pass_ms(1);
  EXPECT_EQ(only_answer().getError().getCode(), schema::ErrorCode::FRAME_TIMEOUT);
  EXPECT_TRUE(session_.connection().finishing());
}

TEST_F(NativeSessionHalfFrameTest, times_each_frame_from_its_own_first_bytes) {
  receive_part(0, 12);
  pass_ms(timeout_ms - 1);
  receive_part(12, 1'000);
  EXPECT_TRUE(only_answer().isPong());
  receive_part(0, 12);
  pass_ms(timeout_ms - 1);
  EXPECT_FALSE(session_.connection().finishing());
  receive_part(12, 1'000);
  pass_ms(100 * timeout_ms);  // nothing is begun
  EXPECT_FALSE(session_.connection().finishing());
}

TEST_F(NativeSessionHalfFrameTest, times_the_first_bytes_also_when_others_come_first) {
  context_.work.begin_turn(true);
  receive_part(0, 5);
  pass_ms(timeout_ms);
  EXPECT_TRUE(session_.connection().finishing());
}

// Entries that wait are answered: the session reads on.
TEST_F(NativeSessionHalfFrameTest, ends_the_connection_beside_a_waiter) {
  send_reserve(7, wire::quota_bit::may_wait);
  answer_with({api::QuotaCode::queued, api::QuotaCode::ok});
  answers_.clear();
  receive_part(0, 12);
  pass_ms(timeout_ms - 1);
  EXPECT_FALSE(session_.connection().finishing());
  pass_ms(1);
  EXPECT_EQ(only_answer().getError().getCode(), schema::ErrorCode::FRAME_TIMEOUT);
  EXPECT_TRUE(session_.connection().finishing());
  EXPECT_EQ(backend_.abandoned.size(), 1U);
}

TEST_F(NativeSessionHalfFrameTest, does_not_hold_up_a_drain) {
  receive_part(0, 12);
  session_.begin_drain();
  answers_.clear();
  end_turn();
  pass_ms(200);
  EXPECT_TRUE(session_.connection().finishing());
  EXPECT_TRUE(only_answer().isGoAway());
}

TEST_F(NativeSessionHalfFrameTest, counts_no_time_in_which_the_session_does_not_read_on) {
  receive(session_, "usage", 7);
  receive_part(0, 12);  // behind a query
  pass_ms(2 * timeout_ms);
  EXPECT_FALSE(session_.connection().finishing());
  answer_with({api::QuotaCode::ok});
  pass_ms(timeout_ms - 1);
  EXPECT_FALSE(session_.connection().finishing());
  pass_ms(1);
  EXPECT_TRUE(session_.connection().finishing());
}

}  // namespace
}  // namespace sluice::session
