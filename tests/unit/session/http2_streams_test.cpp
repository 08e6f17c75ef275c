// Goal: streams ask the shards one after the other, each once, and one that is gone is in no list.
// Method: streams that were put off, of a connection that nothing is received on.
#include "session/http2_streams.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/session/http2_session_driver.hpp"
#include "tests/unit/session/quiet_http2_events.hpp"

namespace sluice::session {
namespace {

class Http2StreamsTest : public Http2SessionTest {
 protected:
  Http2Stream& put_off(wire::Http2StreamId id) {
    Http2Stream& stream = streams_.open(connection_, id);
    stream.put_off();
    streams_.note(stream);
    return stream;
  }
  // Three that are to wait where `wait(stream)` puts them: they do not ask.
  template <typename Wait>
  std::vector<Http2Stream*> put_off_three(Wait wait) {
    std::vector<Http2Stream*> streams;
    for (const wire::Http2StreamId id : {1, 3, 5}) {
      streams.push_back(&streams_.open(connection_, id));
      streams.back()->put_off();
      wait(*streams.back());
      EXPECT_FALSE(streams_.note(*streams.back()));
    }
    EXPECT_FALSE(streams_.has_asking());
    return streams;
  }
  std::vector<wire::Http2StreamId> asking() {
    std::vector<wire::Http2StreamId> ids;
    while (streams_.has_asking()) ids.push_back(streams_.next_asking().id());
    return ids;
  }

  QuietHttp2Events events_;
  Http2Connection connection_{context_, *session_, events_};
  Http2Streams streams_;
};

TEST_F(Http2StreamsTest, finds_those_that_are_open) {
  EXPECT_TRUE(streams_.empty());
  Http2Stream& first = streams_.open(connection_, 1);
  Http2Stream& third = streams_.open(connection_, 5);
  EXPECT_EQ(streams_.find(1), &first);
  EXPECT_EQ(streams_.find(3), nullptr);
  EXPECT_EQ(streams_.find(5), &third);
  EXPECT_EQ(streams_.size(), 2u);
  streams_.remove(first);
  EXPECT_EQ(streams_.find(1), nullptr);
  EXPECT_EQ(streams_.size(), 1u);
}

TEST_F(Http2StreamsTest, ask_in_the_order_in_which_they_became_ready) {
  put_off(1);
  put_off(3);
  put_off(5);
  EXPECT_EQ(asking(), (std::vector{1, 3, 5}));
}

TEST_F(Http2StreamsTest, ask_once_however_often_they_are_noted) {
  Http2Stream& stream = streams_.open(connection_, 1);
  EXPECT_FALSE(streams_.note(stream)) << "it has nothing to ask";
  stream.put_off();
  EXPECT_TRUE(streams_.note(stream));
  EXPECT_FALSE(streams_.note(stream));
  EXPECT_EQ(asking(), std::vector{1});
  EXPECT_TRUE(streams_.note(stream)) << "it was put off again";
}

TEST_F(Http2StreamsTest, are_in_no_list_once_they_are_removed) {
  Http2Stream& removed = put_off(1);
  put_off(3);
  streams_.remove(removed);
  EXPECT_EQ(asking(), std::vector{3});
}

TEST_F(Http2StreamsTest, walk_in_the_order_in_which_they_came) {
  const auto streams = put_off_three([&](Http2Stream& stream) { streams_.wait_for_walk(stream); });
  streams_.remove(*streams[1]);
  EXPECT_TRUE(streams_.end_wait_for_walk());
  EXPECT_TRUE(streams_.end_wait_for_walk());
  EXPECT_FALSE(streams_.end_wait_for_walk()) << "none waits any more";
  EXPECT_EQ(asking(), (std::vector{1, 5}));
}

TEST_F(Http2StreamsTest, wait_for_their_shards_beside_those_that_ask) {
  const auto streams = put_off_three([&](Http2Stream& stream) { streams_.wait_for_shard(stream); });
  streams_.remove(*streams[1]);
  EXPECT_EQ(&streams_.next_to_decide(), streams[0]);
  EXPECT_EQ(&streams_.next_to_decide(), streams[2]);
  EXPECT_FALSE(streams_.has_to_decide());
}

// A page of GET /debug goes on at each turn's end.
TEST_F(Http2StreamsTest, may_be_removed_at_the_turns_end) {
  for (const wire::Http2StreamId id : {1, 3}) {
    Http2Stream& stream = streams_.open(connection_, id);
    stream.begin(wire::RestDebug{});
    stream.exchange()->on_counted(0);
    streams_.note(stream);
  }
  std::vector<wire::Http2StreamId> unfinished;
  streams_.for_unfinished([&](Http2Stream& stream) {
    unfinished.push_back(stream.id());
    streams_.remove(stream);
  });
  EXPECT_EQ(unfinished, (std::vector{1, 3}));
  EXPECT_TRUE(streams_.empty());
  streams_.for_unfinished([](Http2Stream&) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace sluice::session
