// Goal: the connection counts exactly what its peer has not read, the peer has its time for it, and
//       a reservation is named once.
// Method: the answer alone; nghttp2 does not know its stream, and drops what it is asked to send.
#include "session/http2_answer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/unit/session/http2_session_driver.hpp"
#include "tests/unit/session/quiet_http2_events.hpp"

namespace sluice::session {
namespace {

class Http2AnswerTest : public Http2SessionTest {
 protected:
  void write(std::string_view body, bool head_only = false, uint64_t reservation = 0) {
    answer_.write({.head = {}, .body = body}, {.head_only = head_only}, reservation);
  }
  wire::Http2Events::BodyPart read(size_t bytes_max) {
    std::string out(bytes_max, '\0');
    return answer_.read(std::as_writable_bytes(std::span(out)), Http2Answer::pace);
  }
  int64_t due_ms() const { return answer_.deadline_ms(Http2Answer::pace); }
  static size_t encode(std::span<std::byte> out) {
    out[0] = std::byte{'x'};
    return 1;
  }

  QuietHttp2Events events_;
  Http2Connection connection_{context_, *session_, events_};
  Http2Answer answer_{connection_, 1};
};

TEST_F(Http2AnswerTest, counts_what_is_not_read) {
  write("answer");
  EXPECT_EQ(connection_.unread_bytes, 6u);
  EXPECT_FALSE(read(4).is_last);
  EXPECT_EQ(connection_.unread_bytes, 2u);
  EXPECT_TRUE(read(4).is_last);
  EXPECT_EQ(connection_.unread_bytes, 0u);
}

TEST_F(Http2AnswerTest, has_no_body_for_head) {
  write("answer", true);
  EXPECT_EQ(connection_.unread_bytes, 0u);
  EXPECT_EQ(due_ms(), base::never_ms);
}

TEST_F(Http2AnswerTest, grows_until_it_ends) {
  answer_.begin({});
  answer_.append(1, encode);
  EXPECT_EQ(connection_.unread_bytes, 1u);
  EXPECT_FALSE(read(1).is_last);
  EXPECT_EQ(due_ms(), base::never_ms) << "its stream waits for the shards";
  answer_.end();
  answer_.append(1, encode);
  EXPECT_TRUE(read(1).is_last);
}

TEST_F(Http2AnswerTest, is_to_be_read_in_its_time) {
  EXPECT_EQ(due_ms(), base::never_ms);
  write("answer");
  EXPECT_EQ(due_ms(), context_.now_ms() + Http2Answer::pace.ms);
  EXPECT_EQ(answer_.deadline_ms(Http2Answer::walk_pace),
            context_.now_ms() + Http2Answer::walk_pace.ms);
  read(10);
  EXPECT_EQ(due_ms(), base::never_ms);
}

TEST_F(Http2AnswerTest, is_not_read_on_by_a_few_bytes) {
  write(std::string(3 * Http2Answer::pace.bytes, 'b'));
  const int64_t begun_ms = context_.now_ms();
  context_.now.monotonic_ns += base::ns_per_ms;
  read(Http2Answer::pace.bytes - 1);
  EXPECT_EQ(due_ms(), begun_ms + Http2Answer::pace.ms);
  read(1);
  EXPECT_EQ(due_ms(), context_.now_ms() + Http2Answer::pace.ms);
}

TEST_F(Http2AnswerTest, is_not_late_while_it_has_nothing_to_read) {
  answer_.begin({});
  EXPECT_EQ(due_ms(), base::never_ms);
  context_.now.monotonic_ns += base::ns_per_ms;
  answer_.append(1, encode);
  EXPECT_EQ(due_ms(), context_.now_ms() + Http2Answer::pace.ms);
}

// A peer that reads little lets little be appended.
TEST_F(Http2AnswerTest, is_not_read_on_by_what_is_appended) {
  answer_.begin({});
  answer_.append(1, encode);
  answer_.append(1, encode);
  const int64_t due_ms_before = due_ms();
  context_.now.monotonic_ns += base::ns_per_ms;
  read(1);
  answer_.append(1, encode);
  EXPECT_EQ(due_ms(), due_ms_before);
}

TEST_F(Http2AnswerTest, names_its_reservation_once) {
  write("", false, 7);
  EXPECT_EQ(answer_.take_reservation(), 7u);
  EXPECT_EQ(answer_.take_reservation(), 0u);
}

TEST_F(Http2AnswerTest, holds_nothing_once_it_is_dropped) {
  write("answer");
  answer_.drop();
  EXPECT_EQ(connection_.unread_bytes, 0u);
  EXPECT_EQ(due_ms(), base::never_ms);
  answer_.append(1, encode);
  EXPECT_EQ(connection_.unread_bytes, 0u);
}

TEST_F(Http2AnswerTest, is_not_written_once_it_is_dropped) {
  answer_.drop();
  write("answer", false, 7);
  EXPECT_EQ(connection_.unread_bytes, 0u);
  EXPECT_EQ(answer_.take_reservation(), 0u);
}

}  // namespace
}  // namespace sluice::session
