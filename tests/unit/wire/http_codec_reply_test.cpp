// Goal: every answer has the bytes that a client of gocc, or of docs/rest.md, expects. Method:
// whole answers are compared, written into buffers of exactly the size of their bound.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "wire/http_codec.hpp"
#include "wire/rest_answer.hpp"

namespace sluice::wire {
namespace {

// Sun, 06 Nov 1994 08:49:37 GMT.
constexpr int64_t wall_ns = 784'111'777 * base::ns_per_s;
constexpr ReplyContext plain{.wall_ns = wall_ns};

std::string written(const std::function<size_t(std::span<std::byte>)>& encode,
                    size_t room = decision_bytes_max(limits::key_bytes_max, true)) {
  std::vector<std::byte> out(room);
  const size_t bytes = encode(out);
  return {reinterpret_cast<const char*>(out.data()), bytes};
}

std::string reply(const RestReply& answer, const ReplyContext& head = plain) {
  return written([&](auto out) { return encode_reply(answer, head, out); });
}

constexpr api::Detail detail{.limit = 100,
                             .remaining = 99,
                             .window_ms = 1'000,
                             .reset_ms = 1,
                             .retry_after_ms = 1'001,
                             .request_id = 42};

std::string decision(api::Verdict verdict, bool json = false, std::string_view key = "k",
                     const api::Detail& what = detail, const ReplyContext& head = plain) {
  return written([&](auto out) {
    return encode_decision({.verdict = verdict, .detail = what, .key = key, .json = json}, head,
                           out);
  });
}

const api::KeyState state{.key = "x",
                          .window_ms = 1'000,
                          .max_requests = 100,
                          .max_requests_in_queue = 400,
                          .approved = 1,
                          .denied = 2,
                          .waiting = 3};

std::string key_state(const api::KeyState& key, bool pretty = false) {
  return written([&](auto out) { return encode_key_state(key, pretty, plain, out); });
}

std::string body_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

// The key as JSON shows it.
std::string escaped(std::string_view key) {
  api::KeyState one = state;
  one.key = key;
  const std::string body = body_of(key_state(one));
  const size_t start = std::string_view{"{\"Key\":"}.size();
  return body.substr(start, body.rfind(",\"Config\"") - start);
}

TEST(HttpCodecReply, approves_with_the_bare_id) {
  EXPECT_EQ(decision(api::Verdict::approved),
            "HTTP/1.1 200 OK\r\n"
            "Content-Type: text/plain; charset=UTF-8\r\n"
            "RateLimit: \"window\";r=99;t=1\r\n"
            "RateLimit-Policy: \"window\";q=100;w=1\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Length: 2\r\n"
            "\r\n"
            "42");
}

TEST(HttpCodecReply, denies_with_an_empty_body) {
  for (api::Verdict verdict : {api::Verdict::denied, api::Verdict::wait_limit}) {
    EXPECT_EQ(decision(verdict),
              "HTTP/1.1 429 Too Many Requests\r\n"
              "RateLimit: \"window\";r=99;t=1\r\n"
              "RateLimit-Policy: \"window\";q=100;w=1\r\n"
              "Retry-After: 2\r\n"
              "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
              "Content-Length: 0\r\n"
              "\r\n");
  }
}

TEST(HttpCodecReply, approves_in_json) {
  const std::string answer = decision(api::Verdict::approved, true);
  EXPECT_NE(answer.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nContent-Length: 17\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer), "{\"request_id\":42}");
}

TEST(HttpCodecReply, denies_in_json) {
  const std::string answer = decision(api::Verdict::denied, true, "a\"b\xFF");
  EXPECT_NE(answer.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nRetry-After: 2\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer), "{\"error\":\"rate limit exceeded\",\"key\":\"a\\\"b\\ufffd\"}");
}

TEST(HttpCodecReply, rounds_seconds_up) {
  struct Row {
    int64_t ms;
    const char* seconds;
  };
  for (const Row& row : {Row{0, "0"}, Row{1, "1"}, Row{999, "1"}, Row{1'000, "1"}, Row{1'001, "2"},
                         Row{limits::window_ms_max, "31536000"}}) {
    const api::Detail what{
        .limit = 1, .window_ms = row.ms, .reset_ms = row.ms, .retry_after_ms = row.ms};
    const std::string answer = decision(api::Verdict::denied, false, "k", what);
    const std::string seconds = row.seconds;
    EXPECT_NE(answer.find(";t=" + seconds + "\r\n"), std::string::npos) << row.ms;
    EXPECT_NE(answer.find(";w=" + seconds + "\r\n"), std::string::npos) << row.ms;
    const std::string retry = row.ms == 0 ? "1" : seconds;
    EXPECT_NE(answer.find("Retry-After: " + retry + "\r\n"), std::string::npos) << row.ms;
  }
}

TEST(HttpCodecReply, shows_a_window_no_longer_than_its_policy) {
  const api::Detail what{.limit = 1, .window_ms = 1'000, .reset_ms = 1'001};
  EXPECT_NE(decision(api::Verdict::approved, false, "k", what).find(";t=1\r\n"), std::string::npos);
}

TEST(HttpCodecReply, shows_the_cause_of_other_verdicts) {
  struct Row {
    api::Verdict verdict;
    const char* status_line;
    const char* text;
  };
  const std::vector<Row> rows{
      {api::Verdict::never_fits, "HTTP/1.1 400 Bad Request\r\n", "cost exceeds maxRequests"},
      {api::Verdict::invalid_key, "HTTP/1.1 400 Bad Request\r\n", "invalid key"},
      {api::Verdict::not_allowed, "HTTP/1.1 403 Forbidden\r\n",
       "overrides are disabled (--requests-can-set-rate, --requests-can-mod-queue, "
       "--requests-can-set-window)"},
      {api::Verdict::table_full, "HTTP/1.1 503 Service Unavailable\r\n",
       "the key table is full (--max-keys)"},
      {api::Verdict::waiters_full, "HTTP/1.1 503 Service Unavailable\r\n",
       "too many requests are waiting (--max-waiters)"},
      {api::Verdict::key_waiters_full, "HTTP/1.1 503 Service Unavailable\r\n",
       "too many requests are waiting for this key: they hold as many places as are free "
       "(--max-waiters)"},
      {api::Verdict::overloaded, "HTTP/1.1 503 Service Unavailable\r\n",
       "the server is overloaded"},
      {api::Verdict::draining, "HTTP/1.1 503 Service Unavailable\r\n",
       "the server is shutting down"},
  };
  for (const Row& row : rows) {
    const std::string answer = decision(row.verdict);
    EXPECT_TRUE(answer.starts_with(row.status_line)) << answer;
    EXPECT_NE(answer.find("\r\nContent-Type: text/plain; charset=UTF-8\r\n"), std::string::npos);
    EXPECT_EQ(answer.find("Retry-After"), std::string::npos);
    EXPECT_EQ(answer.find("RateLimit: ") != std::string::npos,
              row.verdict == api::Verdict::never_fits);
    EXPECT_EQ(body_of(answer), row.text);
    EXPECT_EQ(body_of(decision(row.verdict, true)),
              "{\"error\":\"" + std::string(row.text) + "\",\"key\":\"k\"}");
  }
}

TEST(HttpCodecReplyDeathTest, asserts_on_verdicts_that_rest_cannot_have) {
  EXPECT_DEATH(decision(api::Verdict::queued), "a_rest_request_can_have_this_verdict");
}

TEST(HttpCodecReplyDeathTest, never_writes_beyond_its_buffer) {
  const std::string whole = decision(api::Verdict::approved);
  std::vector<std::byte> out(whole.size() - 1);
  EXPECT_DEATH(encode_decision({.verdict = api::Verdict::approved, .detail = detail, .key = "k"},
                               plain, out),
               "assertion failed");
}

TEST(HttpCodecReply, fits_the_longest_denial) {
  const std::string key(limits::key_bytes_max, '\x01');
  const std::string answer = decision(api::Verdict::denied, true, key);
  EXPECT_GT(answer.size(), 6 * key.size());
}

TEST(HttpCodecReply, answers_routing_errors_like_echo) {
  EXPECT_EQ(reply({.status = 405,
                   .body = "{\"message\":\"Method Not Allowed\"}\n",
                   .content_type = "application/json",
                   .allow = "OPTIONS, GET"}),
            "HTTP/1.1 405 Method Not Allowed\r\n"
            "Allow: OPTIONS, GET\r\n"
            "Content-Type: application/json\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Length: 33\r\n"
            "\r\n"
            "{\"message\":\"Method Not Allowed\"}\n");
}

TEST(HttpCodecReply, answers_options_without_length) {
  EXPECT_EQ(reply({.status = 204, .allow = "OPTIONS, GET"}),
            "HTTP/1.1 204 No Content\r\n"
            "Allow: OPTIONS, GET\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "\r\n");
}

TEST(HttpCodecReply, answers_health_and_release_without_body) {
  EXPECT_EQ(reply({.status = 200}),
            "HTTP/1.1 200 OK\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Length: 0\r\n"
            "\r\n");
}

TEST(HttpCodecReply, answers_head_without_body_and_length) {
  const ReplyContext head{.head_only = true, .wall_ns = wall_ns};
  const std::string expected =
      "HTTP/1.1 405 Method Not Allowed\r\n"
      "Allow: OPTIONS, GET\r\n"
      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
      "\r\n";
  EXPECT_EQ(reply({.status = 405, .body = "never shown", .allow = "OPTIONS, GET"}, head), expected);
  EXPECT_EQ(
      reply({.status = 405, .body = "never shown", .allow = "OPTIONS, GET", .json = true}, head),
      expected);
}

TEST(HttpCodecReply, shows_complaints_in_json_when_asked) {
  EXPECT_EQ(body_of(reply({.status = 400,
                           .body = "cost out of bounds",
                           .content_type = "application/json",
                           .json = true})),
            "{\"error\":\"cost out of bounds\"}");
}

TEST(HttpCodecReply, writes_the_connection_header) {
  const auto connection = [](bool keep_alive, bool http_1_0) {
    const ReplyContext head{.keep_alive = keep_alive, .http_1_0 = http_1_0, .wall_ns = wall_ns};
    const std::string answer = reply({.status = 200}, head);
    const std::string version = answer.substr(0, 9);
    const size_t at = answer.find("Connection: ");
    if (at == std::string::npos) return version;
    return version + answer.substr(at, answer.find("\r\n", at) - at);
  };
  EXPECT_EQ(connection(true, false), "HTTP/1.1 ");
  EXPECT_EQ(connection(false, false), "HTTP/1.1 Connection: close");
  EXPECT_EQ(connection(true, true), "HTTP/1.0 Connection: keep-alive");
  EXPECT_EQ(connection(false, true), "HTTP/1.0 Connection: close");
}

TEST(HttpCodecReply, writes_dates_in_the_format_of_http) {
  const auto date = [](int64_t seconds) {
    const std::string answer = reply({.status = 200}, {.wall_ns = seconds * base::ns_per_s});
    return answer.substr(answer.find("Date: ") + 6, 29);
  };
  EXPECT_EQ(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(date(951'782'400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(date(1'798'761'599), "Thu, 31 Dec 2026 23:59:59 GMT");
  EXPECT_EQ(date(4'102'444'800), "Fri, 01 Jan 2100 00:00:00 GMT");
}

TEST(HttpCodecReply, shows_a_key) {
  const std::string answer = key_state(state);
  EXPECT_NE(answer.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer),
            "{\"Key\":\"x\",\"Config\":{\"WindowMillis\":1000,\"MaxRequestsPerWindow\":100,"
            "\"MaxRequestsInQueue\":400},\"NumApprovedThisWindow\":1,\"NumDeniedThisWindow\":2,"
            "\"NumWaiting\":3,\"Found\":true}\n");
  EXPECT_NE(answer.find("\r\nContent-Length: " + std::to_string(body_of(answer).size()) + "\r\n"),
            std::string::npos);
}

TEST(HttpCodecReply, shows_a_key_pretty) {
  EXPECT_EQ(body_of(key_state(state, true)),
            "{\n"
            "  \"Key\": \"x\",\n"
            "  \"Config\": {\n"
            "    \"WindowMillis\": 1000,\n"
            "    \"MaxRequestsPerWindow\": 100,\n"
            "    \"MaxRequestsInQueue\": 400\n"
            "  },\n"
            "  \"NumApprovedThisWindow\": 1,\n"
            "  \"NumDeniedThisWindow\": 2,\n"
            "  \"NumWaiting\": 3,\n"
            "  \"Found\": true\n"
            "}\n");
}

TEST(HttpCodecReply, escapes_as_go_does) {
  EXPECT_EQ(escaped("plain ~\x7F"), "\"plain ~\x7F\"");
  EXPECT_EQ(escaped("\"\\/"), "\"\\\"\\\\/\"");
  EXPECT_EQ(escaped("<a>&"), "\"\\u003ca\\u003e\\u0026\"");
  EXPECT_EQ(escaped("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
  EXPECT_EQ(escaped(std::string_view{"\0\x01\x1F", 3}), "\"\\u0000\\u0001\\u001f\"");
  EXPECT_EQ(escaped("\xC3\xA5\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\"\xC3\xA5\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  EXPECT_EQ(escaped("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xA7"), "\"\\u2028\\u2029\xE2\x80\xA7\"");
}

TEST(HttpCodecReply, replaces_bytes_that_are_not_utf8) {
  EXPECT_EQ(escaped("\xFF"), "\"\\ufffd\"");
  EXPECT_EQ(escaped("a\xC3"), "\"a\\ufffd\"");
  EXPECT_EQ(escaped("\xC3(b"), "\"\\ufffd(b\"");
  EXPECT_EQ(escaped("\xC0\x80"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xC1\xBF"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xE0\x9F\xBF"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xF0\x8F\xBF\xBF"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xF4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xE2\x82"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(escaped("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"),
            "\"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\"");
}

TEST(HttpCodecReply, writes_more_headers_and_content) {
  const std::string text = written([](auto out) {
    return encode_content({.status = 409,
                           .content_type = "application/json",
                           .headers = "Retry-After: 1\r\n",
                           .body = "{}"},
                          plain, out);
  });
  EXPECT_EQ(text,
            "HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\n{}");
}

TEST(HttpCodecReply, writes_any_text) {
  EXPECT_EQ(written([](auto out) {
              return encode_content({.content_type = "text/plain; version=0.0.4", .body = "a 1\n"},
                                    plain, out);
            }),
            "HTTP/1.1 200 OK\r\n"
            "Content-Type: text/plain; version=0.0.4\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Length: 4\r\n"
            "\r\n"
            "a 1\n");
}

TEST(HttpCodecReply, writes_100_continue) {
  EXPECT_EQ(written([](auto out) { return encode_continue(out); }),
            "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST(HttpCodecReply, answers_refusals_with_their_cause) {
  const RestReply answer = refusal_reply(431, "the request head is too large");
  EXPECT_EQ(reply(answer, {.keep_alive = false, .wall_ns = wall_ns}),
            "HTTP/1.1 431 Request Header Fields Too Large\r\n"
            "Content-Type: text/plain; charset=UTF-8\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Length: 29\r\n"
            "Connection: close\r\n"
            "\r\n"
            "the request head is too large");
}

std::string debug_stream(DebugStream stream, const std::vector<std::string>& keys) {
  std::string all =
      written([&](auto out) { return encode_debug_head(stream, false, plain, out); }, 1'024);
  for (const std::string& key : keys) {
    api::KeyState one = state;
    one.key = key;
    all += written([&](auto out) { return encode_debug_key(stream, one, out); },
                   debug_key_bytes_max(key.size()));
  }
  return all + written([&](auto out) { return encode_debug_tail(stream, out); }, 64);
}

// The data of all chunks; fails on anything but well-formed chunks with a last one.
std::string join_chunks(std::string body) {
  std::string joined;
  while (true) {
    const size_t line_end = body.find("\r\n");
    EXPECT_NE(line_end, std::string::npos);
    const size_t bytes = std::stoul(body.substr(0, line_end), nullptr, 16);
    const std::string data = body.substr(line_end + 2, bytes);
    EXPECT_EQ(data.size(), bytes);
    EXPECT_EQ(body.substr(line_end + 2 + bytes, 2), "\r\n");
    body.erase(0, line_end + 4 + bytes);
    if (bytes == 0) break;
    joined += data;
  }
  EXPECT_EQ(body, "");
  return joined;
}

TEST(HttpCodecReply, streams_no_keys) {
  EXPECT_EQ(debug_stream({}, {}),
            "HTTP/1.1 200 OK\r\n"
            "Content-Type: application/json\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Transfer-Encoding: chunked\r\n"
            "\r\n"
            "e\r\n{\"Instances\":{\r\n"
            "3\r\n}}\n\r\n"
            "0\r\n\r\n");
  EXPECT_EQ(join_chunks(body_of(debug_stream({.pretty = true}, {}))),
            "{\n  \"Instances\": {}\n}\n");
}

TEST(HttpCodecReply, streams_keys) {
  const std::string one = body_of(key_state(state));
  const std::string object = one.substr(std::string_view{"{\"Key\":\"x\""}.size());
  const std::string rest = object.substr(0, object.size() - 1);
  EXPECT_EQ(join_chunks(body_of(debug_stream({}, {"x", "<"}))),
            "{\"Instances\":{\"x\":{\"Key\":\"x\"" + rest + ",\"\\u003c\":{\"Key\":\"\\u003c\"" +
                rest + "}}\n");
}

TEST(HttpCodecReply, streams_keys_pretty) {
  const auto object = [](const std::string& key) {
    return "    \"" + key + "\": {\n      \"Key\": \"" + key +
           "\",\n      \"Config\": {\n        \"WindowMillis\": 1000,\n"
           "        \"MaxRequestsPerWindow\": 100,\n        \"MaxRequestsInQueue\": 400\n"
           "      },\n      \"NumApprovedThisWindow\": 1,\n      \"NumDeniedThisWindow\": 2,\n"
           "      \"NumWaiting\": 3,\n      \"Found\": true\n    }";
  };
  EXPECT_EQ(join_chunks(body_of(debug_stream({.pretty = true}, {"a", "b"}))),
            "{\n  \"Instances\": {\n" + object("a") + ",\n" + object("b") + "\n  }\n}\n");
}

TEST(HttpCodecReply, streams_to_http_1_0_until_close) {
  const std::string answer = debug_stream({.chunked = false}, {"x"});
  EXPECT_EQ(answer.find("Transfer-Encoding"), std::string::npos);
  EXPECT_EQ(answer.find("Content-Length"), std::string::npos);
  EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer), join_chunks(body_of(debug_stream({}, {"x"}))));
}

TEST(HttpCodecReply, counts_the_body_of_a_stream_without_its_chunks) {
  for (const bool chunked : {true, false}) {
    DebugStream stream{.chunked = chunked};
    written([&](auto out) { return encode_debug_head(stream, false, plain, out); }, 1'024);
    written([&](auto out) { return encode_debug_key(stream, state, out); }, 4'096);
    written([&](auto out) { return encode_debug_tail(stream, out); });
    DebugStream whole{.chunked = false};
    std::string body = written([&](auto out) { return encode_debug_open(whole, out); });
    body += written([&](auto out) { return encode_debug_key(whole, state, out); }, 4'096);
    body += written([&](auto out) { return encode_debug_tail(whole, out); });
    EXPECT_EQ(stream.body_bytes, body.size());
    EXPECT_EQ(whole.body_bytes, body.size());
    EXPECT_TRUE(body.starts_with(R"({"Instances":{")")) << body;
  }
}

TEST(HttpCodecReply, announces_table_order) {
  const std::string head = written([stream = DebugStream{}](auto out) mutable {
    return encode_debug_head(stream, true, plain, out);
  });
  EXPECT_NE(head.find("\r\nX-Sluicegate-Order: table\r\n"), std::string::npos);
  EXPECT_EQ(debug_stream({}, {}).find("X-Sluicegate-Order"), std::string::npos);
}

TEST(HttpCodecReply, fits_the_longest_key_of_a_stream) {
  api::KeyState longest = state;
  longest.window_ms = limits::window_ms_max;
  longest.max_requests = longest.max_requests_in_queue = longest.approved = longest.denied =
      longest.waiting = UINT32_MAX;
  for (size_t key_bytes : {size_t{1}, size_t{1'024}, size_t{limits::key_bytes_max}}) {
    const std::string key(key_bytes, '\xFF');
    longest.key = key;
    DebugStream stream{.pretty = true, .first = false};
    const std::string chunk =
        written([&](auto out) { return encode_debug_key(stream, longest, out); },
                debug_key_bytes_max(key_bytes));
    EXPECT_GT(chunk.size(), 12 * key_bytes);
  }
}

TEST(HttpCodecReply, a_status_without_a_phrase_still_has_one) {
  EXPECT_EQ(reason_phrase(200), "OK");
  EXPECT_EQ(reason_phrase(418), "Status");
}

}  // namespace
}  // namespace sluice::wire
