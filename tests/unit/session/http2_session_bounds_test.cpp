// Goal: every bound of a connection of HTTP/2, in bytes, streams, frames and time, has its answer,
//       and a server that drains serves the streams up to its last GOAWAY's.
// Method: http2_session_driver.hpp.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/hpack.hpp"
#include "tests/unit/session/http2_session_driver.hpp"

namespace sluice::session {
namespace {

namespace hpack = support::hpack;
using support::http2_frame;
using support::Http2Client;
using wire::Http2Error;

TEST_F(Http2SessionTest, large_answers_wait_while_none_is_read) {
  client_.read_nothing();
  std::vector<int32_t> large;
  for (int count = 0; count < 8; ++count) large.push_back(client_.ask("GET", "/openapi.json"));
  const int32_t small = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(client_.answer(large.front()).status, 200);
  EXPECT_EQ(client_.answer(large.back()).status, 0);
  EXPECT_EQ(client_.answer(small).status, 200);
  client_.read_on();
  exchange();
  for (const int32_t stream : large) EXPECT_TRUE(client_.answer(stream).ended) << stream;
}

// Whose windows have room for all that it asks for.
class Http2WideSessionTest : public Http2SessionTest {
 protected:
  Http2WideSessionTest() : Http2SessionTest(1, 1U << 20) {
    client_.open_window(0, 1 << 24);
    exchange();
  }
};

// They arrive together, and their answers are more than a client may leave unread.
TEST_F(Http2WideSessionTest, takes_many_requests_at_once) {
  for (int count = 0; count < 16; ++count) client_.ask("GET", "/openapi.json");
  for (int count = 0; count < 200; ++count) {
    client_.ask("GET", "/healthz", {}, {{"x", std::string(2'000, 'y')}});
  }
  exchange();
  for (int32_t stream = 1; stream < 2 * 216; stream += 2) {
    ASSERT_EQ(client_.answer(stream).status, 200) << stream;
  }
}

TEST_F(Http2SessionTest, refuses_streams_beyond_the_heads_that_it_keeps) {
  const std::string large(8'000, 'v');
  client_.send_in_parts(1);
  const auto ask = [&] {
    const int32_t stream = client_.ask("POST", "/v1/reserve", "{}", {{"a", large}});
    exchange();
    return stream;
  };
  constexpr auto refused = static_cast<uint32_t>(Http2Error::refused_stream);
  for (size_t kept = 0; kept + 2 * large.size() < Http2Session::head_bytes_max;
       kept += large.size()) {
    ASSERT_EQ(client_.answer(ask()).reset, std::nullopt) << kept;
  }
  ask();
  ask();
  EXPECT_EQ(client_.answer(ask()).reset, refused);
  for (const int32_t stream : {1, 3}) client_.reset(stream);
  EXPECT_EQ(client_.answer(ask()).reset, std::nullopt) << "their heads are gone";
}

// Streams that the client has reset count as long as a shard owes them a verdict.
TEST_F(Http2SessionTest, refuses_streams_beyond_its_most) {
  std::vector<int32_t> open;
  for (size_t streams = 0; streams < Http2Session::streams_max; ++streams) {
    if (open.size() == wire::Http2Framing::streams_max) {
      for (const int32_t stream : std::exchange(open, {})) client_.reset(stream);
      exchange();
    }
    open.push_back(client_.ask("POST", "/rate/k"));
    if (open.size() % 50 == 0) exchange();
  }
  EXPECT_EQ(client_.answer(open.back()).reset, std::nullopt);
  client_.reset(open.back());
  exchange();
  const int32_t refused = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(client_.answer(refused).reset, static_cast<uint32_t>(Http2Error::refused_stream));
}

// Behind the largest reply that is under way others are put off, but nothing else is.
TEST_F(Http2SessionTest, asks_shards_for_no_more_than_its_bound) {
  const std::vector<std::string> both{"metrics", "top 20"};
  const int32_t first = client_.ask("GET", "/metrics");
  const int32_t second = client_.ask("GET", "/top");
  const int32_t shown = client_.ask("GET", "/debug/%41%20key?pretty");
  const int32_t listed = client_.ask("GET", "/debug");
  const int32_t left = client_.ask("GET", "/metrics");
  const int32_t health = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(backend_.queries, both);
  EXPECT_TRUE(client_.answer(health).ended);
  client_.reset(left);
  exchange();

  session_->on_text(static_cast<uint64_t>(first), "text/plain", std::string(100, 'x'));
  exchange();
  EXPECT_EQ(client_.answer(first).body.size(), 100u);
  EXPECT_EQ(backend_.queries, both);
  session_->on_text(static_cast<uint64_t>(second), "text/plain", "{}");
  exchange();
  EXPECT_EQ(backend_.queries,
            (std::vector<std::string>{"metrics", "top 20", "inspect A key", "count"}));

  session_->on_inspected(static_cast<uint64_t>(shown), nullptr);
  session_->on_counted(static_cast<uint64_t>(listed), 0);
  exchange();
  session_->on_page(static_cast<uint64_t>(listed), {}, 0);
  exchange();
  EXPECT_EQ(client_.answer(shown).status, 404);
  EXPECT_TRUE(client_.answer(listed).ended);
  EXPECT_EQ(backend_.queries.size(), 5u) << "count, and a page";
}

TEST_F(Http2SessionTest, asks_shards_for_more_when_its_answers_are_read) {
  client_.read_nothing();
  const int32_t first = client_.ask("GET", "/top");
  client_.ask("GET", "/top");
  const int32_t last = client_.ask("GET", "/top");
  exchange();
  const std::string text(300'000, 'x');
  session_->on_text(static_cast<uint64_t>(first), "text/plain", text);
  exchange();
  session_->on_text(static_cast<uint64_t>(first + 2), "text/plain", text);
  exchange();
  EXPECT_EQ(backend_.queries.size(), 2u);
  EXPECT_EQ(client_.answer(last).reset, std::nullopt);
  client_.read_on();
  exchange();
  EXPECT_EQ(backend_.queries.size(), 3u);
  EXPECT_EQ(client_.answer(first).body, text);
}

class Http2WalksTest : public Http2SessionTest {
 protected:
  Http2WalksTest() {
    for (int count = 0; count < 12; ++count) streams_.push_back(client_.ask("GET", "/debug"));
    exchange();
  }
  // This one asks for keys, and no other; there are none.
  void walk(size_t number) {
    EXPECT_EQ(std::exchange(backend_.queries, {}), std::vector<std::string>{"count"}) << number;
    session_->on_counted(static_cast<uint64_t>(streams_[number]), 0);
    exchange();
    session_->on_page(static_cast<uint64_t>(streams_[number]), {}, 0);
    backend_.queries.clear();
    exchange();
    EXPECT_EQ(client_.answer(streams_[number]).status, 200) << number;
  }

  std::vector<int32_t> streams_;
};

TEST_F(Http2WalksTest, come_one_at_a_time) {
  walk(0);
  client_.reset(streams_[1]);  // as it walks
  exchange();
  EXPECT_TRUE(std::exchange(backend_.queries, {}).size() == 1) << "a shard still owes it a reply";
  session_->on_counted(static_cast<uint64_t>(streams_[1]), 0);
  exchange();
  walk(2);
  walk(3);
}

TEST_F(Http2WalksTest, come_without_those_that_the_client_resets_meanwhile) {
  client_.reset(streams_[1]);
  exchange();
  walk(0);
  walk(2);
}

TEST_F(Http2WalksTest, come_in_their_order_while_no_answer_is_read) {
  client_.read_nothing();
  for (int count = 0; count < 8; ++count) client_.ask("GET", "/openapi.json");
  exchange();
  walk(0);
  client_.ask("GET", "/healthz");
  exchange();
  EXPECT_TRUE(backend_.queries.empty());
  client_.read_on();
  exchange();
  for (size_t number = 1; number < streams_.size(); ++number) walk(number);
}

// Each of them would keep others from a walk for as long as the first.
TEST_F(Http2WalksTest, end_with_one_that_the_client_does_not_read) {
  client_.read_nothing();
  client_.ask("GET", "/openapi.json");  // fills the connection's window
  exchange();
  const auto first = static_cast<uint64_t>(streams_[0]);
  session_->on_counted(first, 10'000'000);  // too many to be sorted
  exchange();
  session_->on_page(first, std::array{api::KeyState{.key = "a"}}, 1);
  exchange();
  backend_.queries.clear();
  pass(Http2Answer::walk_pace.ms);
  for (const int32_t stream : streams_) {
    EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel)) << stream;
  }
  session_->on_page(first, {}, 0);
  exchange();
  EXPECT_TRUE(backend_.queries.empty());
}

// They wait for room for their answers, not for the end of the walk.
TEST_F(Http2SessionTest, walks_that_wait_for_room_end_with_one_that_is_not_read) {
  client_.read_nothing();
  const int32_t first = begin_walk();
  std::vector<int32_t> behind;
  for (int count = 0; count < 8; ++count) client_.ask("GET", "/openapi.json");
  for (int count = 0; count < 8; ++count) behind.push_back(client_.ask("GET", "/debug"));
  exchange();
  const auto id = static_cast<uint64_t>(first);
  session_->on_page(id, std::array{api::KeyState{.key = "a"}}, 1);
  exchange();
  backend_.queries.clear();
  pass(Http2Answer::walk_pace.ms);
  EXPECT_EQ(client_.answer(first).reset, static_cast<uint32_t>(Http2Error::cancel));
  for (const int32_t stream : behind) {
    EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel)) << stream;
  }
  session_->on_page(id, {}, 0);
  client_.read_on();
  exchange();
  EXPECT_TRUE(backend_.queries.empty());
}

// Its client reads, and sends the rest of its body too late.
TEST_F(Http2SessionTest, walks_go_on_behind_one_whose_body_is_late) {
  client_.send_in_parts(1);
  const int32_t late = client_.ask("GET", "/debug", "ab");
  const int32_t next = client_.ask("GET", "/debug");
  exchange();
  EXPECT_EQ(std::exchange(backend_.queries, {}), std::vector<std::string>{"count"});
  pass(context_.options.header_timeout_ms);
  EXPECT_EQ(client_.answer(late).reset, static_cast<uint32_t>(Http2Error::cancel));
  session_->on_counted(static_cast<uint64_t>(late), 0);
  exchange();
  EXPECT_EQ(client_.answer(next).reset, std::nullopt);
  EXPECT_EQ(backend_.queries, std::vector<std::string>{"count"});
  session_->on_counted(static_cast<uint64_t>(next), 0);
  exchange();
  session_->on_page(static_cast<uint64_t>(next), {}, 0);
}

TEST_F(Http2WalksTest, go_on_when_the_shards_take_another_query) {
  backend_.queries.clear();
  backend_.has_room = false;
  session_->on_counted(static_cast<uint64_t>(streams_[0]), 0);
  exchange();
  EXPECT_TRUE(backend_.queries.empty());
  EXPECT_TRUE(context_.ready.empty()) << "it does not try again and again";
  backend_.has_room = true;
  session_->unblock();
  end_turn();
  EXPECT_EQ(backend_.queries.size(), 1u);
}

TEST_F(Http2SessionTest, holds_what_was_put_off_while_shards_take_no_query) {
  client_.ask("GET", "/top");
  const int32_t last = client_.ask("GET", "/top");
  exchange();
  backend_.has_room = false;
  session_->on_text(1, "text/plain", "x");
  exchange();
  EXPECT_EQ(client_.answer(last).status, 0) << "it is not refused";
  backend_.has_room = true;
  session_->unblock();
  exchange();
  EXPECT_EQ(backend_.queries.size(), 2u);
}

// What is behind it on the connection is not read before.
TEST_F(Http2SessionTest, a_request_waits_until_its_owner_has_room) {
  backend_.owners_have_room = false;
  const int32_t first = client_.ask("POST", "/rate/a");
  const int32_t second = client_.ask("POST", "/rate/b");
  exchange();
  session_->unblock();  // another shard has made some
  exchange();
  EXPECT_EQ(context_.turn.requests().size(), 0U);
  EXPECT_EQ(client_.answer(first).status, 0) << "it is not refused";
  backend_.owners_have_room = true;
  session_->unblock();
  exchange();
  ASSERT_EQ(context_.turn.requests().size(), 2U);
  EXPECT_EQ(context_.turn.entries()[0].key(), "a");
  EXPECT_EQ(context_.turn.entries()[1].key(), "b");
  decide_all();
  exchange();
  EXPECT_EQ(client_.answer(first).status, 200);
  EXPECT_EQ(client_.answer(second).status, 200);
  EXPECT_TRUE(context_.blocked.empty());
}

TEST_F(Http2SessionTest, a_request_without_room_is_refused_once_when_the_server_shuts_down) {
  backend_.owners_have_room = false;
  const int32_t stream = client_.ask("POST", "/rate/a");
  exchange();
  context_.draining = true;
  session_->begin_drain();
  EXPECT_EQ(context_.drained_entries, 0U);
  session_->unblock();
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 503);
  EXPECT_EQ(context_.drained_entries, 1U);
  EXPECT_EQ(context_.turn.requests().size(), 0U);
}

class Http2SessionOfManyShards : public Http2SessionTest {
 protected:
  Http2SessionOfManyShards() : Http2SessionTest(limits::shards_max) {}
};

TEST_F(Http2SessionOfManyShards, counts_the_metrics_of_each) {
  const int32_t first = client_.ask("GET", "/metrics");
  const int32_t second = client_.ask("GET", "/metrics");
  exchange();
  EXPECT_EQ(backend_.queries.size(), 1u) << "each may be larger than the bound";
  session_->on_text(static_cast<uint64_t>(first), "text/plain", "x");
  exchange();
  EXPECT_EQ(backend_.queries.size(), 2u);
  session_->on_text(static_cast<uint64_t>(second), "text/plain", "x");
  exchange();
  EXPECT_TRUE(client_.answer(second).ended);
}

TEST_F(Http2SessionTest, counts_the_metrics_of_its_only_shard) {
  for (int count = 0; count < 10; ++count) client_.ask("GET", "/metrics");
  exchange();
  EXPECT_EQ(backend_.queries.size(), 10u);
}

TEST_F(Http2SessionTest, resets_an_answer_that_is_not_read_in_its_time) {
  client_.read_nothing();
  const int32_t stream = client_.ask("GET", "/openapi.json");
  exchange();
  pass(Http2Answer::pace.ms - 1);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  pass(1);
  EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel));
  EXPECT_EQ(client_.goodbye(), std::nullopt);
}

TEST_F(Http2SessionTest, an_answer_is_not_late_when_it_is_read_on_just_in_time) {
  client_.read_nothing();
  const int32_t stream = client_.ask("GET", "/openapi.json");
  exchange();
  client_.read_on();
  send_to_session(client_.output());
  pass_without_reading(Http2Answer::pace.ms);
  exchange();
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  EXPECT_TRUE(client_.answer(stream).ended);
}

TEST_F(Http2SessionTest, has_time_to_read_an_answer_without_a_length) {
  client_.ask("POST", "/rate/a?canWait=true");  // for the connection to last
  exchange();
  decide_all(api::Verdict::queued);
  pass(2 * Http2Answer::pace.ms);
  client_.read_nothing();
  client_.ask("GET", "/openapi.json");  // fills the connection's window
  const int32_t stream = begin_walk();
  const auto id = static_cast<uint64_t>(stream);
  const std::array keys{api::KeyState{.key = "a"}};
  session_->on_page(id, keys, 1);
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 200);
  pass(Http2Answer::walk_pace.ms - 1);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  pass(1);
  EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel))
      << "others may wait for the end of its walk";
  session_->on_page(id, {}, 0);
}

TEST_F(Http2SessionTest, resets_a_body_that_does_not_end_in_its_time) {
  client_.raw(http2_frame(1, 4, 1, hpack::head("/v1/reserve", hpack::method_post)));
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
  client_.raw(http2_frame(0, 0, 1, " "));
  exchange();
  EXPECT_TRUE(backend_.batches.empty());
  pass(1);
  client_.raw(http2_frame(0, 1, 1, R"({"subjects": ["gpt"]})"));
  exchange();
  EXPECT_TRUE(backend_.batches.empty()) << "the stream is closed";
  EXPECT_EQ(client_.goodbye(), std::nullopt);
}

TEST_F(Http2SessionTest, resets_a_body_that_stalls_within_a_frame) {
  const int32_t waiting = client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  const api::Ticket ticket = context_.turn.entries()[0].ticket;
  decide_all(api::Verdict::queued);
  client_.send_in_parts(1);
  const int32_t stalled = client_.ask("POST", "/v1/reserve", "{}");
  const std::string frame = http2_frame(0, 0, static_cast<uint32_t>(stalled), std::string(99, ' '));
  exchange();
  client_.raw(frame.substr(0, 50));
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  EXPECT_EQ(client_.answer(stalled).reset, std::nullopt);
  pass(1);
  EXPECT_EQ(client_.answer(stalled).reset, static_cast<uint32_t>(Http2Error::cancel));
  pass(context_.options.header_timeout_ms);
  grant(ticket);
  exchange();
  EXPECT_EQ(client_.answer(waiting).status, 200);
  client_.raw(frame.substr(50));
  exchange();
  const int32_t next = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(client_.answer(next).status, 200);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
}

// The rest of it arrives in its time, but the session waits for the shards.
TEST_F(Http2SessionTest, a_body_that_a_held_session_does_not_read_is_not_late) {
  client_.send_in_parts(1);
  const int32_t stream = client_.ask("POST", "/v1/reserve", R"({"subjects": ["gpt"]})");
  client_.send_in_parts(SIZE_MAX);
  exchange();
  backend_.has_room = false;
  reserve();
  exchange();
  client_.raw(http2_frame(0, 1, static_cast<uint32_t>(stream), R"("subjects": ["gpt"]})"));
  exchange();
  pass(context_.options.header_timeout_ms);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  backend_.has_room = true;
  session_->unblock();
  exchange();
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  EXPECT_EQ(backend_.batches.size(), 2u);
}

// The rest of it is still on its way then: the session has read nothing meanwhile.
TEST_F(Http2SessionTest, a_body_has_the_time_for_which_its_session_was_held) {
  client_.send_in_parts(1);
  const int32_t stream = client_.ask("POST", "/v1/reserve", "{}");
  client_.send_in_parts(SIZE_MAX);
  exchange();
  backend_.has_room = false;
  reserve();
  exchange();
  const int64_t held_ms = 2 * context_.options.header_timeout_ms;
  pass(held_ms);
  backend_.has_room = true;
  session_->unblock();
  exchange();
  pass(held_ms - 1);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  pass(1);
  EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel));
}

TEST_F(Http2SessionTest, ends_its_drain_while_it_is_held_and_no_stream) {
  client_.send_in_parts(1);
  const int32_t stream = client_.ask("POST", "/v1/reserve", "{}");
  client_.send_in_parts(SIZE_MAX);
  exchange();
  backend_.has_room = false;
  reserve();
  exchange();
  pass(context_.options.header_timeout_ms);
  session_->begin_drain();
  pass(context_.options.drain_grace_ms);
  EXPECT_EQ(client_.last_stream(), stream + 2);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
}

// Reads nothing from its socket, of more than one that is full.
class Http2UnreadSessionTest : public Http2WideSessionTest {
 protected:
  void fill_output() {
    while (!session_->connection().output_over_high()) {
      client_.ask("GET", "/openapi.json");
      send_to_session(client_.output());
      end_turn();
    }
  }
  void read_all() {
    while (!io_.sent.empty()) deliver_one();
  }
};

TEST_F(Http2UnreadSessionTest, resets_a_late_body_once_when_the_peer_reads_on) {
  client_.send_in_parts(1);
  const int32_t stream = client_.ask("POST", "/v1/reserve", "{}");
  send_to_session(client_.output());
  client_.send_in_parts(SIZE_MAX);
  fill_output();
  const int64_t held_ms = context_.options.header_timeout_ms;
  pass_without_reading(held_ms);
  end_turn();
  read_all();
  exchange();
  pass(held_ms - 1);
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  context_.now.monotonic_ns += base::ns_per_ms;
  context_.timers.advance(context_.now_ms());
  size_t timers = 0;
  for (; context_.timers.pop_due() != nullptr; ++timers) session_->on_timer();
  EXPECT_EQ(timers, 1u) << "the reset is not written before the turn's end";
  exchange();
  EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::cancel));
}

// It reads slowly: what is in its output has taken longer to leave than a walk may wait.
TEST_F(Http2UnreadSessionTest, a_walk_is_not_late_when_the_peer_reads_on) {
  const int32_t stream = client_.ask("GET", "/debug");
  send_to_session(client_.output());
  const auto id = static_cast<uint64_t>(stream);
  session_->on_counted(id, 10'000'000);  // too many to be sorted
  end_turn();
  fill_output();
  const std::array keys{api::KeyState{.key = "a"}};
  session_->on_page(id, keys, 1);
  end_turn();
  pass_without_reading(Http2Answer::walk_pace.ms);
  end_turn();
  read_all();
  resume();
  pass_without_reading(0);
  exchange();
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  EXPECT_NE(client_.answer(stream).body.find("\"a\""), std::string::npos);
  session_->on_page(id, {}, 0);
}

// Its output is empty again and again before all keys are written.
TEST_F(Http2WideSessionTest, walks_to_the_end_for_a_client_that_sends_no_more) {
  const int32_t stream = begin_walk();
  session_->on_end_of_stream();
  const std::string key(100, 'k');
  const std::vector<api::KeyState> keys(2'000, {.key = key});
  session_->on_page(static_cast<uint64_t>(stream), keys, 0);
  read_to_end();
  EXPECT_TRUE(client_.answer(stream).ended);
  EXPECT_TRUE(session_->connection().finishing());
}

// It can open no window any more, and others wait for the end of its walk.
TEST_F(Http2SessionTest, walks_no_further_than_the_window_of_a_client_that_sends_no_more) {
  const int32_t stream = begin_walk();
  const std::string key(100, 'k');
  const std::vector<api::KeyState> keys(2'000, {.key = key});
  session_->on_page(static_cast<uint64_t>(stream), keys, 1);
  session_->on_end_of_stream();
  read_to_end();
  EXPECT_FALSE(client_.answer(stream).ended);
  EXPECT_TRUE(session_->connection().finishing());
}

// Its answer is small: it needs room at its shard alone.
TEST_F(Http2SessionTest, decides_what_was_put_off_while_no_answer_is_read) {
  client_.read_nothing();
  for (int count = 0; count < 8; ++count) client_.ask("GET", "/openapi.json");
  exchange();
  backend_.owners_have_room = false;
  client_.ask("POST", "/rate/a");
  exchange();
  backend_.owners_have_room = true;
  session_->unblock();
  exchange();
  EXPECT_EQ(context_.turn.requests().size(), 1u);
}

TEST_F(Http2SessionTest, ends_with_half_a_head_in_its_time) {
  exchange();
  client_.raw(http2_frame(1, 0, 1, hpack::head()));  // CONTINUATION is to follow
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
  pass(1);
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::no_error));
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, a_malformed_head_ends_its_stream_alone) {
  client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  const std::string upper_case("\0\5Upper\4case", 12);
  client_.raw(http2_frame(1, 5, 3, hpack::head() + upper_case));
  exchange();
  pass(context_.options.header_timeout_ms);
  EXPECT_FALSE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, ends_with_trailers_that_are_not_whole_in_their_time) {
  client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  client_.raw(http2_frame(1, 4, 3, hpack::head("/v1/reserve", hpack::method_post)));
  client_.raw(http2_frame(1, 1, 3));  // trailers, of which CONTINUATION is to follow
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
  pass(1);
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::no_error));
}

TEST_F(Http2SessionTest, ends_with_half_a_frame_in_its_time) {
  exchange();
  client_.raw("\0\0");
  client_.raw(std::string(4, '\0'));
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  EXPECT_FALSE(session_->connection().finishing());
  pass(1);
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, goes_on_when_each_frame_is_whole_in_time) {
  exchange();
  const std::string frame = http2_frame(6, 0, 0, "12345678");
  client_.raw(frame.substr(0, 11));
  for (int frames = 0; frames < 2; ++frames) {
    exchange();
    pass(context_.options.header_timeout_ms - 1);
    client_.raw(frame.substr(11) + frame.substr(0, 11));
  }
  exchange();
  EXPECT_FALSE(session_->connection().finishing());
  pass(context_.options.header_timeout_ms);
  EXPECT_TRUE(session_->connection().finishing()) << "the last one is not";
}

TEST_F(Http2SessionTest, ends_with_a_head_whose_parts_come_one_by_one) {
  exchange();
  client_.raw(http2_frame(1, 0, 1, hpack::head()));
  exchange();
  pass(context_.options.header_timeout_ms - 1);
  client_.raw(http2_frame(9, 0, 1));
  exchange();
  EXPECT_FALSE(session_->connection().finishing());
  pass(1);
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, ends_when_it_has_no_stream_for_its_time) {
  client_.ask("GET", "/healthz");
  exchange();
  pass(Http2Times::idle_ms_max - 1);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
  pass(1);
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::no_error));
  EXPECT_EQ(client_.last_stream(), 1);
}

TEST_F(Http2SessionTest, has_time_as_long_as_a_stream_waits) {
  client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  pass(10 * Http2Times::idle_ms_max);
  EXPECT_EQ(client_.goodbye(), std::nullopt);
}

TEST_F(Http2SessionTest, ends_with_too_many_useless_frames) {
  exchange();
  for (uint32_t count = 0; count < wire::Http2Frames::frames_in_period + 10; ++count) {
    client_.raw(http2_frame(8, 0, 0, std::string("\0\0\0\1", 4)));
  }
  exchange();
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
  EXPECT_TRUE(session_->connection().finishing());
}

// nghttp2 ignores frames for a stream that the server has reset.
class Http2ResetStreamTest : public Http2SessionTest,
                             public ::testing::WithParamInterface<std::string> {};

TEST_P(Http2ResetStreamTest, ends_with_too_many_frames_for_it) {
  client_.send_in_parts(1);
  client_.ask("PUT", "/v1/subjects/a", "body");
  exchange();
  pass(context_.options.header_timeout_ms);
  ASSERT_EQ(client_.answer(1).reset, static_cast<uint32_t>(Http2Error::cancel));
  for (uint32_t count = 0; count < wire::Http2Frames::frames_in_period + 20; ++count) {
    client_.raw(GetParam());
  }
  exchange();
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
}
INSTANTIATE_TEST_SUITE_P(Each, Http2ResetStreamTest,
                         ::testing::Values(http2_frame(1, 5, 1, hpack::head()),
                                           http2_frame(0, 0, 1, "b")));

TEST_F(Http2SessionTest, takes_updates_of_windows_for_what_is_read) {
  for (int answers = 0; answers < 200; ++answers) {
    const int32_t stream = client_.ask("GET", "/openapi.json");
    exchange();
    const size_t updates = 2 * client_.answer(stream).body.size() / 4'096;
    for (size_t count = 0; count < updates; ++count) {
      client_.raw(http2_frame(8, 0, 0, std::string("\0\0\0\1", 4)));
    }
    exchange();
    ASSERT_EQ(client_.goodbye(), std::nullopt) << answers;
  }
}

TEST_F(Http2SessionTest, ends_with_too_many_resets_that_the_client_provokes) {
  client_.send_in_parts(1);
  const auto provoke = [&] {
    const int32_t stream = client_.ask("PUT", "/v1/subjects/a", "body");
    exchange();
    client_.raw(http2_frame(8, 0, static_cast<uint32_t>(stream), "\x7F\xFF\xFF\xFF"));
    exchange();
  };
  for (int64_t count = 0; count < wire::Http2Frames::resets_at_once; ++count) provoke();
  EXPECT_EQ(client_.goodbye(), std::nullopt);
  provoke();
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, ends_with_a_head_that_no_answer_helps) {
  client_.ask("GET", "/healthz", {}, Http2Client::Fields(70, {"a", std::string(1'000, 'v')}));
  exchange();
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
}

TEST_F(Http2SessionTest, spends_what_indexed_fields_stand_for) {
  exchange();
  const std::string field = hpack::indexed_field("x", std::string(4'000, 'y'));
  std::string heads = http2_frame(1, 5, 1, hpack::head() + field);
  for (uint32_t stream = 3; stream < 40; stream += 2) {
    heads += http2_frame(1, 5, stream, hpack::head() + std::string(15, hpack::last_indexed));
  }
  session_->on_received(std::as_writable_bytes(std::span(heads)));
  EXPECT_TRUE(context_.work.is_over());
  EXPECT_FALSE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, spends_fields_that_it_ignores) {
  exchange();
  const std::string field = hpack::indexed_field("x", std::string(4'000, 'y'));
  const std::string invalid = hpack::head() + hpack::field("X", "y");
  std::string heads = http2_frame(1, 5, 1, invalid + field);
  for (uint32_t stream = 3; stream < 11; stream += 2) {
    heads += http2_frame(1, 5, stream, invalid + std::string(16'000, hpack::last_indexed));
  }
  session_->on_received(std::as_writable_bytes(std::span(heads)));
  EXPECT_TRUE(context_.work.is_over());
  EXPECT_FALSE(session_->connection().finishing());
}

// --------------------------------------------------------------------------------------- drain

TEST_F(Http2SessionTest, answers_what_is_on_its_way_when_it_begins_to_drain) {
  exchange();
  client_.ask("POST", "/rate/k");
  std::string on_its_way = client_.output();
  context_.draining = true;
  session_->begin_drain();
  exchange();
  EXPECT_EQ(client_.last_stream(), 0x7FFF'FFFF);
  EXPECT_FALSE(session_->connection().finishing());
  session_->on_received(std::as_writable_bytes(std::span(on_its_way)));
  exchange();
  EXPECT_EQ(client_.answer(1).status, 503);
  pass(199);
  EXPECT_FALSE(session_->connection().finishing());
  pass(1);
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(Http2SessionTest, ends_after_its_last_waiter_while_it_drains) {
  client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  const api::Ticket ticket = context_.turn.entries()[0].ticket;
  decide_all(api::Verdict::queued);
  context_.draining = true;
  session_->begin_drain();
  pass(1'000);
  EXPECT_EQ(client_.goodbyes(), 2);
  EXPECT_EQ(client_.last_stream(), 1);
  EXPECT_FALSE(session_->connection().finishing());
  grant(ticket);
  exchange();
  EXPECT_TRUE(client_.answer(1).ended);
  EXPECT_TRUE(session_->connection().finishing());
}

// The client may ask another server for what its GOAWAY does not name.
TEST_F(Http2WideSessionTest, serves_no_request_behind_a_last_goaway_that_waits_for_room) {
  for (uint32_t count = 0; count < Http2Session::group_requests; ++count) {
    client_.ask("GET", "/openapi.json");
  }
  send_to_session(client_.output());
  ASSERT_TRUE(session_->connection().output_over_high());
  context_.draining = true;
  session_->begin_drain();
  pass_without_reading(context_.options.drain_grace_ms);
  end_turn();
  const int32_t late = client_.ask("DELETE", "/rate/k/7");
  send_to_session(client_.output());
  deliver_one();
  resume();  // takes what was received, before the turn's end writes
  exchange();
  EXPECT_TRUE(context_.turn.requests().empty());
  EXPECT_LT(client_.last_stream(), late);
  EXPECT_EQ(client_.goodbyes(), 2);
}

TEST_F(Http2SessionTest, names_its_last_stream_before_it_is_closed) {
  client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  context_.draining = true;
  session_->begin_drain();
  exchange();
  EXPECT_EQ(client_.goodbyes(), 1);
  for (int count = 0; count < 2; ++count) session_->end_drain();
  exchange();
  EXPECT_EQ(client_.goodbyes(), 2);
  EXPECT_EQ(client_.last_stream(), 1);
}

}  // namespace
}  // namespace sluice::session
