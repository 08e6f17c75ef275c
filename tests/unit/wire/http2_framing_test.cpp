// Goal: requests and answers pass the framing whole, the peer's windows hold bodies back, and what
//       a peer must not do ends its stream or the connection, with nothing left behind.
// Method: nghttp2's own client against the framing, in memory; raw frames for what no client sends.
#include "wire/http2_framing.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/hpack.hpp"
#include "tests/support/http2_client.hpp"

namespace sluice::wire {
namespace {

namespace hpack = support::hpack;
using support::http2_frame;
using support::Http2Client;

// Records what happens, and answers with `body`.
class Recorder final : public Http2Events {
 public:
  void on_head_begin(Http2StreamId stream) noexcept override { note("begin", stream); }
  void on_field(std::string_view name, std::string_view value) noexcept override {
    ++fields_count;
    fields += std::string{name} + "=" + std::string{value} + ";";
  }
  void on_head_end(Http2StreamId stream, bool has_body) noexcept override {
    note(has_body ? "head" : "request", stream);
  }
  void on_body(Http2StreamId stream, std::span<const std::byte> bytes) noexcept override {
    bodies[stream].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void on_body_end(Http2StreamId stream) noexcept override { note("body", stream); }
  BodyPart read_body(Http2StreamId, std::span<std::byte> out) noexcept override {
    const size_t bytes = body.copy(reinterpret_cast<char*>(out.data()), out.size(), sent);
    sent += bytes;
    return {.bytes = bytes, .is_last = is_whole && sent == body.size()};
  }
  void on_answer_sent(Http2StreamId stream, size_t) noexcept override { note("sent", stream); }
  void on_closed(Http2StreamId stream) noexcept override { note("closed", stream); }
  void on_error_reset() noexcept override { ++error_resets_count; }

  void note(const char* what, Http2StreamId stream) {
    events.push_back(std::string{what} + " " + std::to_string(stream));
  }

  std::vector<std::string> events;
  size_t fields_count = 0;
  size_t error_resets_count = 0;
  std::string fields;
  std::map<Http2StreamId, std::string> bodies;
  std::string body;
  size_t sent = 0;
  bool is_whole = true;
};

class Http2FramingTest : public ::testing::Test {
 protected:
  // Exchanges all that both sides have to say. False: the connection has ended.
  bool exchange() {
    for (int rounds = 0; rounds < 100; ++rounds) {
      const std::string request = client_.output();
      const bool goes_on = framing_.receive(std::as_bytes(std::span(request)));
      const std::string reply = output();
      EXPECT_TRUE(client_.receive(reply));
      if (!goes_on || !framing_.is_open()) return false;
      if (request.empty() && reply.empty()) return true;
    }
    ADD_FAILURE() << "no end";
    return false;
  }
  // All that the framing has to say.
  std::string output() {
    std::string reply;
    for (auto part = framing_.next(); !part.empty(); part = framing_.next()) {
      reply.append(reinterpret_cast<const char*>(part.data()), part.size());
      framing_.taken(part.size());
    }
    return reply;
  }
  void answer(Http2StreamId stream, bool has_body = false) {
    framing_.answer(stream, {.head = head_, .wall_ns = 0, .has_body = has_body});
  }

  ReplyHead head_{.status = 200};
  Recorder recorder_;
  base::BlockPool blocks_{1 << 20};
  Http2Framing framing_{recorder_, blocks_};
  Http2Client client_;
};

TEST_F(Http2FramingTest, announces_its_bounds) {
  EXPECT_TRUE(exchange());
  EXPECT_EQ(client_.streams_max(), Http2Framing::streams_max);
}

TEST_F(Http2FramingTest, passes_a_request_and_its_answer) {
  const int32_t stream = client_.ask("POST", "/rate/k", "body", {{"accept", "a"}});
  exchange();
  EXPECT_EQ(recorder_.fields, ":method=POST;:scheme=http;:authority=x;:path=/rate/k;accept=a;");
  EXPECT_EQ(recorder_.bodies[1], "body");
  EXPECT_EQ(recorder_.events, (std::vector<std::string>{"begin 1", "head 1", "body 1"}));
  recorder_.events.clear();
  recorder_.body = "answer";
  answer(stream, true);
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 200);
  EXPECT_EQ(client_.answer(stream).body, "answer");
  EXPECT_EQ(recorder_.events, (std::vector<std::string>{"sent 1", "closed 1"}));
}

TEST_F(Http2FramingTest, answers_in_any_order) {
  const int32_t first = client_.ask("GET", "/a");
  const int32_t second = client_.ask("GET", "/b");
  exchange();
  answer(second);
  exchange();
  EXPECT_TRUE(client_.answer(second).ended);
  EXPECT_FALSE(client_.answer(first).ended);
  answer(first);
  exchange();
  EXPECT_TRUE(client_.answer(first).ended);
}

TEST_F(Http2FramingTest, sends_interim_answers) {
  const int32_t stream = client_.ask("PUT", "/a", "b");
  exchange();
  framing_.answer_continue(stream);
  answer(stream);
  exchange();
  EXPECT_EQ(client_.answer(stream).interim, 100);
  EXPECT_EQ(client_.answer(stream).status, 200);
}

TEST_F(Http2FramingTest, reads_a_body_as_it_is_written) {
  recorder_.is_whole = false;
  const int32_t stream = client_.ask("GET", "/debug");
  exchange();
  answer(stream, true);
  exchange();
  EXPECT_FALSE(client_.answer(stream).ended);
  recorder_.body = "part";
  framing_.resume(stream);
  exchange();
  EXPECT_EQ(client_.answer(stream).body, "part");
  recorder_.body += ", end";
  recorder_.is_whole = true;
  framing_.resume(stream);
  exchange();
  EXPECT_EQ(client_.answer(stream).body, "part, end");
  EXPECT_TRUE(client_.answer(stream).ended);
}

TEST_F(Http2FramingTest, writes_no_more_than_the_windows_allow) {
  client_.read_nothing();
  recorder_.body = std::string(100'000, 'b');
  const int32_t stream = client_.ask("GET", "/metrics");
  exchange();
  answer(stream, true);
  exchange();
  EXPECT_EQ(client_.answer(stream).body.size(), 65'535u);
  client_.open_window(stream, 10);
  client_.open_window(0, 10);
  exchange();
  EXPECT_EQ(client_.answer(stream).body.size(), 65'545u);
}

TEST_F(Http2FramingTest, opens_the_windows_for_what_has_arrived) {
  const size_t bytes = 2 * 256 * 1024;
  const int32_t stream = client_.ask("PUT", "/a", std::string(bytes, 'b'));
  exchange();
  EXPECT_EQ(recorder_.bodies[stream].size(), bytes);
}

TEST_F(Http2FramingTest, makes_an_upgraded_request_its_first_stream) {
  client_.upgrade();
  EXPECT_TRUE(framing_.upgrade({}, false));
  exchange();
  answer(1);
  exchange();
  EXPECT_EQ(client_.answer(1).status, 200);
  EXPECT_TRUE(client_.answer(1).ended);
}

TEST_F(Http2FramingTest, refuses_settings_that_are_none) {
  const std::string settings(5, 's');
  EXPECT_FALSE(framing_.upgrade(std::as_bytes(std::span(settings)), false));
}

TEST_F(Http2FramingTest, decodes_only_valid_settings) {
  EXPECT_EQ(decode_http2_settings("AAMAAABk"), std::string("\0\3\0\0\0\x64", 6));
  EXPECT_EQ(decode_http2_settings("AAIAAAABAAQCAAAA").value_or("").size(), 12u);
  EXPECT_EQ(decode_http2_settings("AJkAAAAF").value_or("").size(), 6u) << "one that is unknown";
  for (const char* bad :
       {"AAMAAABkAA", "???", "AAIAAAAF" /* ENABLE_PUSH 5 */,
        "AAEAAAAAAAIAAAAC" /* and behind a valid one */, "AASAAAAA" /* INITIAL_WINDOW_SIZE 2^31 */,
        "AAUAAD__" /* MAX_FRAME_SIZE 2^14 - 1 */, "AAUBAAAA" /* 2^24 */,
        "AAkAAAAC" /* NO_RFC7540_PRIORITIES 2 */, "AAkAAAABAAkAAAAA" /* 1, then 0 */}) {
    EXPECT_EQ(decode_http2_settings(bad), std::nullopt) << bad;
  }
  std::string many;
  for (int entries = 0; entries < 32; ++entries) many += "AJkAAAAF";
  EXPECT_NE(decode_http2_settings(many), std::nullopt);
  EXPECT_EQ(decode_http2_settings(many + "AJkAAAAF"), std::nullopt);
}

// ------------------------------------------------------------------------------------ the end

// Streams that the client opens by raw heads: its nghttp2 keeps to the bound.
std::string heads(uint32_t count) {
  std::string all;
  for (uint32_t i = 0; i < count; ++i) all += http2_frame(1, 5, 2 * i + 1, hpack::head());
  return all;
}

TEST_F(Http2FramingTest, refuses_streams_beyond_its_bound) {
  client_.raw(heads(Http2Framing::streams_max + 1));
  const std::string request = client_.output();
  EXPECT_TRUE(framing_.receive(std::as_bytes(std::span(request))));
  EXPECT_EQ(recorder_.events.size(), 2 * Http2Framing::streams_max);
  const std::string reply = output();
  const std::string refused =
      http2_frame(3, 0, 2 * Http2Framing::streams_max + 1, std::string("\0\0\0\7", 4));
  EXPECT_NE(reply.find(refused), reply.npos);
}

TEST_F(Http2FramingTest, ignores_the_rest_of_a_stream_that_it_has_refused) {
  constexpr uint32_t refused = 2 * Http2Framing::streams_max + 1;
  client_.raw(heads(Http2Framing::streams_max));
  client_.raw(http2_frame(1, 4, refused, hpack::head("/", hpack::method_post)));
  client_.raw(http2_frame(3, 0, 1, std::string("\0\0\0\x8", 4)));  // makes room
  client_.raw(http2_frame(1, 5, refused + 2, hpack::head()));
  const std::string trailers("\0\1a\1b", 5);
  client_.raw(http2_frame(0, 0, refused, "body") + http2_frame(1, 5, refused, trailers));
  const std::string request = client_.output();
  EXPECT_TRUE(framing_.receive(std::as_bytes(std::span(request))));
  EXPECT_EQ(recorder_.events.back(), "request 503");
  EXPECT_EQ(recorder_.bodies.count(refused), 0u);
  const std::string goodbye("\0\0\x8\x7\0", 5);
  EXPECT_EQ(output().find(goodbye), std::string::npos);
}

// They may be on their way when the stream is reset, and nghttp2 keeps closed streams only as long
// as there are not too many others.
TEST_F(Http2FramingTest, ignores_trailers_of_a_stream_that_it_has_reset) {
  client_.send_in_parts(1);
  const int32_t reset = client_.ask("POST", "/a", "body");
  exchange();
  framing_.reset(reset, Http2Error::cancel);
  exchange();
  for (uint32_t count = 0; count < Http2Framing::streams_max; ++count) client_.ask("GET", "/b");
  EXPECT_TRUE(exchange());
  client_.raw(http2_frame(1, 5, static_cast<uint32_t>(reset), std::string("\0\1a\1b", 5)));
  EXPECT_TRUE(exchange());
  EXPECT_EQ(client_.goodbye(), std::nullopt);
}

TEST_F(Http2FramingTest, ends_with_a_client_that_ignores_the_bound_it_has_acknowledged) {
  exchange();
  client_.raw(heads(Http2Framing::streams_max + 1));
  EXPECT_FALSE(exchange());
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::protocol_error));
}

TEST_F(Http2FramingTest, forgets_a_stream_that_the_peer_resets) {
  const int32_t stream = client_.ask("GET", "/a");
  exchange();
  recorder_.events.clear();
  client_.reset(stream);
  exchange();
  EXPECT_EQ(recorder_.events, std::vector<std::string>{"closed 1"});
}

TEST_F(Http2FramingTest, reports_resets_that_the_peer_provokes) {
  const auto provoke = [&](const std::string& name, const std::string& frame) {
    recorder_.error_resets_count = 0;
    const int32_t stream = client_.ask("POST", "/", "body", {{"content-length", "5"}});
    exchange();
    if (!frame.empty()) client_.raw(frame);
    EXPECT_TRUE(exchange());
    EXPECT_TRUE(client_.answer(stream).reset.has_value()) << name;
    return recorder_.error_resets_count;
  };
  EXPECT_EQ(provoke("content-length", ""), 1u);
  client_.send_in_parts(1);
  EXPECT_EQ(provoke("window", http2_frame(8, 0, 3, "\x7F\xFF\xFF\xFF")), 1u);
}

TEST_F(Http2FramingTest, reports_no_reset_that_is_the_servers_own) {
  client_.send_in_parts(1);
  for (const auto error : {Http2Error::no_error, Http2Error::refused_stream, Http2Error::cancel}) {
    const int32_t stream = client_.ask("POST", "/", "body");
    exchange();
    framing_.reset(stream, error);
    exchange();
    EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(error));
  }
  EXPECT_EQ(recorder_.error_resets_count, 0u);
}

TEST_F(Http2FramingTest, says_goodbye_twice) {
  client_.ask("GET", "/a");
  exchange();
  framing_.announce_end();
  exchange();
  EXPECT_EQ(client_.last_stream(), 0x7FFF'FFFF);
  framing_.go_away(Http2Error::no_error);
  exchange();
  EXPECT_EQ(client_.last_stream(), 1);
  EXPECT_EQ(client_.goodbyes(), 2);
}

TEST_F(Http2FramingTest, ends_when_it_terminates) {
  client_.ask("GET", "/a");
  exchange();
  framing_.terminate(Http2Error::enhance_your_calm);
  EXPECT_FALSE(exchange());
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
}

TEST_F(Http2FramingTest, ends_with_a_head_below_the_highest_stream) {
  exchange();
  client_.raw(http2_frame(1, 5, 7, hpack::head()));
  EXPECT_TRUE(exchange());
  client_.raw(http2_frame(1, 5, 5, hpack::head()));
  EXPECT_FALSE(exchange());
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::protocol_error));
}

// Whatever nghttp2 was about to do when there was no room, the connection ends and nothing leaks.
TEST_F(Http2FramingTest, ends_beyond_its_memory) {
  const std::string request = client_.output() + heads(100);
  size_t served_count = 0;
  for (size_t bytes_max = 0; bytes_max < 256 * 1024; bytes_max += 499) {
    Http2Framing framing{recorder_, blocks_, bytes_max};
    const bool goes_on = framing.receive(std::as_bytes(std::span(request)));
    if (goes_on) framing.answer(1, {.head = head_});
    while (goes_on && !framing.next().empty()) framing.taken(framing.next().size());
    EXPECT_LE(framing.memory_bytes(), bytes_max + 32) << "rounded up";
    served_count += goes_on && framing.is_open() ? 1 : 0;
    EXPECT_FALSE(goes_on && bytes_max < 10'000) << bytes_max;
  }
  EXPECT_GT(served_count, 0u);
}

// ---------------------------------------------------------------------- fields that are too many

class Http2FramingFieldsTest : public Http2FramingTest {
 protected:
  static constexpr size_t value_bytes = 4'000;
  static constexpr size_t fields_max = Http2Framing::fields_bytes_max / value_bytes;

  // A large field, again and again: a byte each.
  static std::string repeated_field(size_t count) {
    return hpack::indexed_field("x", std::string(value_bytes, 'y')) +
           std::string(count - 1, hpack::last_indexed);
  }
  // The stream of a request whose body goes on.
  int32_t ask_with_body() {
    client_.send_in_parts(1);
    return client_.ask("POST", "/", "body");
  }
  void send_trailers(int32_t stream, size_t fields_count) {
    client_.raw(http2_frame(1, 5, static_cast<uint32_t>(stream), repeated_field(fields_count)));
  }
};

TEST_F(Http2FramingFieldsTest, takes_no_field_of_a_head_behind_the_bound) {
  exchange();
  client_.raw(http2_frame(1, 5, 1, hpack::head() + repeated_field(10'000)));
  EXPECT_FALSE(exchange());
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
  EXPECT_LE(recorder_.fields_count, 4 + fields_max);
  EXPECT_LE(framing_.take_decoded_bytes(), Http2Framing::fields_bytes_max + 2 * value_bytes);
}

TEST_F(Http2FramingFieldsTest, takes_no_field_of_trailers_behind_the_bound) {
  const int32_t stream = ask_with_body();
  exchange();
  send_trailers(stream, 10'000);
  EXPECT_FALSE(exchange());
  EXPECT_EQ(client_.goodbye(), static_cast<uint32_t>(Http2Error::enhance_your_calm));
  EXPECT_LE(framing_.take_decoded_bytes(), Http2Framing::fields_bytes_max + 2 * value_bytes);
}

TEST_F(Http2FramingFieldsTest, resets_a_stream_whose_trailers_are_larger_than_a_head) {
  const int32_t small = ask_with_body();
  const int32_t large = ask_with_body();
  exchange();
  recorder_.events.clear();
  send_trailers(small, 2);
  send_trailers(large, 3);
  EXPECT_TRUE(exchange());
  EXPECT_EQ(recorder_.events, (std::vector<std::string>{"body 1", "closed 3"}));
  EXPECT_EQ(client_.answer(large).reset, static_cast<uint32_t>(Http2Error::enhance_your_calm));
}

TEST_F(Http2FramingFieldsTest, does_not_reset_a_stream_that_is_answered) {
  const int32_t stream = ask_with_body();
  exchange();
  answer(stream);
  exchange();
  send_trailers(stream, 3);
  EXPECT_TRUE(exchange());
  EXPECT_EQ(client_.answer(stream).reset, std::nullopt);
  EXPECT_EQ(recorder_.events.back(), "closed 1");
}

// ---------------------------------------------------------------------------------- floods

// Each is a flood of frames that no client sends; the connection ends, and keeps no memory.
struct Flood {
  const char* name;
  std::string frames;
};

class Http2FramingFloodTest : public Http2FramingTest,
                              public ::testing::WithParamInterface<Flood> {};

std::string repeated(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Http2Framing, Http2FramingFloodTest,
    ::testing::Values(Flood{"settings", repeated(101, http2_frame(4, 0, 0))},
                      Flood{"ping", repeated(101, http2_frame(6, 0, 0, std::string(8, 'p')))},
                      Flood{"large_settings",
                            http2_frame(4, 0, 0, repeated(33, std::string("\0\3\0\0\0\1", 6)))},
                      Flood{"continuation", http2_frame(1, 1, 1, hpack::head()) +
                                                repeated(9, http2_frame(9, 0, 1))}),
    [](const auto& info) { return info.param.name; });

TEST_P(Http2FramingFloodTest, ends_the_connection) {
  exchange();
  const size_t memory_before = framing_.memory_bytes();
  client_.raw(GetParam().frames);
  EXPECT_FALSE(exchange());
  EXPECT_LT(framing_.memory_bytes(), memory_before + 100'000);
}

}  // namespace
}  // namespace sluice::wire
