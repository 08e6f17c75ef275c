// Goal: any input is cut at the right byte or refused with the right status. Method: each request
// arrives whole, byte by byte and split at every point; hostile ones break one rule at a time.
#include "wire/http_parser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/limits.hpp"

namespace sluice::wire {
namespace {

// The results of parsing a stream as text, to compare two ways of feeding it.
struct ParsedStream {
  std::vector<std::string> events;
  size_t consumed_bytes = 0;

  bool operator==(const ParsedStream&) const = default;
};

std::string describe(const HttpRequest& request) {
  std::string text{request.method};
  text.append(" ").append(request.target);
  text.append(" accept=").append(request.accept);
  if (request.keep_alive) text.append(" keep-alive");
  if (request.expects_continue) text.append(" expects-continue");
  if (request.http_1_0) text.append(" 1.0");
  return text;
}

// Feeds `stream` to a parser as a connection does: bytes arrive up to each of `arrivals`, and
// consumed bytes are not passed again. Each call gets a copy of exact size, so that a sanitizer
// notices a read beyond it.
ParsedStream feed(std::string_view stream, const std::vector<size_t>& arrivals) {
  HttpParser parser;
  ParsedStream reported;
  for (size_t arrived : arrivals) {
    while (true) {
      const std::string_view unread =
          stream.substr(reported.consumed_bytes, arrived - reported.consumed_bytes);
      const std::vector<char> bytes{unread.begin(), unread.end()};
      const HttpParsed parsed = parser.parse(std::as_bytes(std::span{bytes}));
      if (const auto* more = std::get_if<HttpNeedMore>(&parsed)) {
        reported.consumed_bytes += more->consumed_bytes;
        break;
      }
      if (const auto* refused = std::get_if<HttpRefused>(&parsed)) {
        reported.events.push_back(std::to_string(refused->status) + " " +
                                  std::string(refused->cause));
        return reported;
      }
      if (const auto* head = std::get_if<HttpHead>(&parsed)) {
        reported.consumed_bytes += head->consumed_bytes;
        reported.events.push_back(describe(head->request));
      } else {
        reported.consumed_bytes += std::get<HttpBodyEnd>(parsed).consumed_bytes;
        reported.events.push_back("end at " + std::to_string(reported.consumed_bytes));
      }
      EXPECT_LE(reported.consumed_bytes, arrived);
    }
  }
  return reported;
}

ParsedStream feed_whole(std::string_view stream) {
  return feed(stream, {stream.size()});
}

ParsedStream feed_byte_by_byte(std::string_view stream) {
  std::vector<size_t> arrivals;
  for (size_t arrived = 0; arrived <= stream.size(); ++arrived) arrivals.push_back(arrived);
  return feed(stream, arrivals);
}

// The refusal of `stream`, the same whole and byte by byte; empty when there is none.
std::string refusal(std::string_view stream) {
  const ParsedStream whole = feed_whole(stream);
  EXPECT_EQ(whole.events, feed_byte_by_byte(stream).events) << stream;
  if (whole.events.empty()) return {};
  const std::string& last = whole.events.back();
  return last[0] == '4' || last[0] == '5' ? last : std::string{};
}

std::string with_headers(std::string_view headers) {
  return "GET /rate/k HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n";
}

HttpRequest parse_one(const std::string& stream) {
  HttpParser parser;
  const HttpParsed parsed = parser.parse(std::as_bytes(std::span{stream}));
  const auto* head = std::get_if<HttpHead>(&parsed);
  EXPECT_NE(head, nullptr) << stream;
  return head == nullptr ? HttpRequest{} : head->request;
}

TEST(HttpParser, reads_a_plain_request) {
  const std::string stream =
      "POST /rate/k?cost=2 HTTP/1.1\r\nHost: localhost:8080\r\nAccept: application/json\r\n"
      "X-Correlation-ID: c1\r\nx-request-id:  r1 \r\n\r\n";
  HttpParser parser;
  const HttpParsed parsed = parser.parse(std::as_bytes(std::span{stream}));
  ASSERT_TRUE(std::holds_alternative<HttpHead>(parsed));
  const HttpHead& head = std::get<HttpHead>(parsed);
  EXPECT_EQ(head.consumed_bytes, stream.size());
  EXPECT_EQ(head.request.method, "POST");
  EXPECT_EQ(head.request.target, "/rate/k?cost=2");
  EXPECT_EQ(head.request.accept, "application/json");
  EXPECT_TRUE(head.request.keep_alive);
  EXPECT_FALSE(head.request.http_1_0);
  EXPECT_FALSE(head.request.expects_continue);
}

TEST(HttpParser, ends_a_missing_body_at_once) {
  const std::string stream = with_headers("");
  HttpParser parser;
  ASSERT_TRUE(std::holds_alternative<HttpHead>(parser.parse(std::as_bytes(std::span{stream}))));
  const HttpParsed end = parser.parse({});
  ASSERT_TRUE(std::holds_alternative<HttpBodyEnd>(end));
  EXPECT_EQ(std::get<HttpBodyEnd>(end).consumed_bytes, 0u);
}

TEST(HttpParser, is_idle_only_between_requests) {
  const std::string stream = "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab";
  HttpParser parser;
  EXPECT_TRUE(parser.idle());
  parser.parse({});
  EXPECT_TRUE(parser.idle());
  const auto bytes = std::as_bytes(std::span{stream});
  parser.parse(bytes.first(1));
  EXPECT_FALSE(parser.idle());
  const HttpParsed head = parser.parse(bytes);
  ASSERT_TRUE(std::holds_alternative<HttpHead>(head));
  EXPECT_FALSE(parser.idle());
  const auto body = bytes.subspan(std::get<HttpHead>(head).consumed_bytes);
  parser.parse(body.first(1));
  EXPECT_FALSE(parser.idle());
  EXPECT_TRUE(std::holds_alternative<HttpBodyEnd>(parser.parse(body.subspan(1))));
  EXPECT_TRUE(parser.idle());
}

TEST(HttpParser, cuts_pipelined_requests_apart) {
  const ParsedStream reported = feed_whole(
      "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
      "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz"
      "GET /c HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::vector<std::string> expected{"GET /a accept= keep-alive",  "end at 28",
                                          "POST /b accept= keep-alive", "end at 79",
                                          "GET /c accept= keep-alive",  "end at 107"};
  EXPECT_EQ(reported.events, expected);
}

// Every stream here is parsed alike when it is split in two at any point, and byte by byte.
TEST(HttpParser, does_not_depend_on_where_bytes_are_split) {
  const std::vector<std::string> streams{
      "GET /rate/k HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET / HTTP/1.0\r\n\r\n",
      "POST /rate/%20k?canWait=1 HTTP/1.1\r\nHost:h\r\nContent-Length: 5\r\n\r\nhelloGET /next "
      "HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;a=b; c=\"d\"\r\nhello\r\n1 ;x\r\n!\r\n000\r\nTrailer: v\r\nB:\r\n\r\n"
      "GET /next HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
      "GET / HTTP/1.1\nHost: h\n\n",
      "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\n0\r\n\r\n",
  };
  for (const std::string& stream : streams) {
    const ParsedStream whole = feed_whole(stream);
    EXPECT_FALSE(whole.events.empty()) << stream;
    EXPECT_EQ(whole.events, feed_byte_by_byte(stream).events) << stream;
    for (size_t split = 0; split <= stream.size(); ++split) {
      EXPECT_EQ(whole.events, feed(stream, {split, stream.size()}).events)
          << stream << " split at " << split;
    }
  }
}

TEST(HttpParser, keeps_alive_by_version_and_connection_header) {
  const auto keeps = [](const std::string& stream) { return parse_one(stream).keep_alive; };
  EXPECT_TRUE(keeps(with_headers("")));
  EXPECT_TRUE(keeps(with_headers("Connection: keep-alive\r\n")));
  EXPECT_FALSE(keeps(with_headers("Connection: close\r\n")));
  EXPECT_FALSE(keeps(with_headers("connection: Upgrade, CLOSE\r\n")));
  EXPECT_FALSE(keeps(with_headers("Connection: close\r\nConnection: keep-alive\r\n")));
  EXPECT_TRUE(keeps(with_headers("Proxy-Connection: close\r\n")));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"));
}

TEST(HttpParser, takes_the_path_of_a_url) {
  const auto target = [](const std::string& sent) {
    return std::string{parse_one("GET " + sent + " HTTP/1.1\r\nHost: h\r\n\r\n").target};
  };
  EXPECT_EQ(target("http://h/rate/k?x=http://y/"), "/rate/k?x=http://y/");
  EXPECT_EQ(target("HTTP://h:80/a"), "/a");
  EXPECT_EQ(target("http://h"), "/");
  EXPECT_EQ(target("*"), "*");
}

TEST(HttpParser, reads_expect_100_continue) {
  const auto expects = [](std::string_view headers) {
    return parse_one(with_headers(headers)).expects_continue;
  };
  EXPECT_TRUE(expects("Expect: 100-continue\r\nContent-Length: 5\r\n"));
  EXPECT_TRUE(expects("Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_FALSE(expects("Expect: 100-continue\r\n"));
  EXPECT_FALSE(expects("Expect: 100-continue\r\nContent-Length: 0\r\n"));
  EXPECT_FALSE(expects("Expect:\r\nContent-Length: 5\r\n"));
  EXPECT_FALSE(parse_one("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
                   .expects_continue);
}

TEST(HttpParser, keeps_the_first_accept_header) {
  EXPECT_EQ(parse_one(with_headers("Accept: a/b\r\nAccept: c/d\r\n")).accept, "a/b");
}

TEST(HttpParser, keeps_the_first_style_of_rate_headers) {
  const std::string stream = with_headers("x-ratelimit-style: openai\r\nX-RateLimit-Style: b\r\n");
  EXPECT_EQ(parse_one(stream).rate_style, "openai");
  EXPECT_EQ(parse_one(with_headers("")).rate_style, "");
}

TEST(HttpParser, keeps_the_first_correlation_id) {
  const std::string stream = with_headers("x-correlation-id:  a 7\r\nX-Correlation-ID: b\r\n");
  EXPECT_EQ(parse_one(stream).correlation_id, "a 7");
  EXPECT_EQ(parse_one(with_headers("X-Correlation-IDs: a\r\n")).correlation_id, "");
}

// The kept body of `stream` when `piece_bytes` arrive at once; only the body is kept.
std::string kept_body(const std::string& stream, size_t piece_bytes) {
  HttpParser parser;
  std::string body;
  const auto bytes = std::as_bytes(std::span{stream});
  size_t consumed = 0;
  for (size_t arrived = 0;; arrived = std::min(bytes.size(), arrived + piece_bytes)) {
    while (true) {
      const HttpParsed parsed = parser.parse(bytes.subspan(consumed, arrived - consumed));
      if (const auto* more = std::get_if<HttpNeedMore>(&parsed)) {
        consumed += more->consumed_bytes;
        break;
      }
      if (std::holds_alternative<HttpBodyEnd>(parsed)) return body;
      if (!std::holds_alternative<HttpHead>(parsed)) return "refused";
      consumed += std::get<HttpHead>(parsed).consumed_bytes;
      parser.keep_body(body);
    }
    if (arrived == bytes.size()) return "incomplete";
  }
}

TEST(HttpParser, keeps_a_body_on_request) {
  const std::string sized =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello worldGET /";
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "6;x=1\r\nhello \r\n5\r\nworld\r\n0\r\nA: b\r\n\r\nGET /";
  for (size_t piece_bytes : {1, 2, 3, 7, 1'000}) {
    EXPECT_EQ(kept_body(sized, piece_bytes), "hello world") << piece_bytes;
    EXPECT_EQ(kept_body(chunked, piece_bytes), "hello world") << piece_bytes;
    EXPECT_EQ(kept_body(with_headers(""), piece_bytes), "") << piece_bytes;
  }
}

TEST(HttpParser, keeps_no_body_of_the_next_request) {
  const std::string stream = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab";
  HttpParser parser;
  std::string body;
  for (int i = 0; i < 2; ++i) {
    const auto bytes = std::as_bytes(std::span{stream});
    const HttpParsed head = parser.parse(bytes);
    ASSERT_TRUE(std::holds_alternative<HttpHead>(head));
    if (i == 0) parser.keep_body(body);
    parser.parse(bytes.subspan(std::get<HttpHead>(head).consumed_bytes));
    EXPECT_EQ(body, "ab");
  }
}

TEST(HttpParser, accepts_an_empty_host_and_any_port) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost:\r\n\r\n"), "");
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"), "");
}

TEST(HttpParser, returns_the_asterisk_as_target) {
  EXPECT_EQ(parse_one("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").target, "*");
}

TEST(HttpParser, accepts_obs_text_in_values_and_targets) {
  EXPECT_EQ(parse_one("GET /rate/\xC3\xA5 HTTP/1.1\r\nHost: h\r\nX-A: \xFF\t.\r\n\r\n").target,
            "/rate/\xC3\xA5");
}

TEST(HttpParser, gives_no_answer_to_what_has_neither_a_path_nor_a_version) {
  const auto last = [](std::string_view stream) { return feed_whole(stream).events.back(); };
  EXPECT_EQ(last("INVALID CONNECTION PREFACE\r\n\r\n"), "0 neither a path nor a version");
  for (const char* line : {"INVALID PREFACE", "GET / PREFACE", "GET * PREFACE", "A B HTTP/1.10"}) {
    EXPECT_TRUE(last(std::string{line} + "\r\n\r\n").starts_with("400 ")) << line;
  }
}

TEST(HttpParser, finds_a_valid_request_to_upgrade) {
  const auto settings = [](std::string_view connection, std::string_view more) {
    return std::string{parse_one(with_headers("Upgrade: websocket, H2C\r\nConnection: " +
                                              std::string{connection} + "\r\n" + std::string{more}))
                           .http2_settings};
  };
  EXPECT_EQ(settings("keep-alive, upgrade, HTTP2-Settings", "HTTP2-Settings: AAMA\r\n"), "AAMA");
  EXPECT_EQ(settings("Upgrade", "HTTP2-Settings: AAMA\r\n"), "");
  EXPECT_EQ(settings("HTTP2-Settings", "HTTP2-Settings: AAMA\r\n"), "");
  EXPECT_EQ(settings("Upgrade, HTTP2-Settings", ""), "");
  EXPECT_EQ(settings("Upgrade, HTTP2-Settings", "HTTP2-Settings: a\r\nHTTP2-Settings: a\r\n"), "");
  EXPECT_EQ(settings("Upgrade, HTTP2-Settings", "HTTP2-Settings: a\r\nContent-Length: 1\r\n"), "");
}

struct RefusedCase {
  const char* what;
  std::string stream;
  std::string refusal;
};

class HttpParserRefuses : public testing::TestWithParam<RefusedCase> {};

TEST_P(HttpParserRefuses, with_status_and_cause) {
  EXPECT_EQ(refusal(GetParam().stream), GetParam().refusal);
}

const RefusedCase refused_cases[] = {
    {"obs_fold", with_headers("A: b\r\n c\r\n"), "400 a header line begins with white space"},
    {"obs_fold_tabulator", with_headers("A: b\r\n\tc\r\n"),
     "400 a header line begins with white space"},
    {"blank_behind_start_line", "GET / HTTP/1.1\r\n Host: h\r\n\r\n",
     "400 a header line begins with white space"},
    {"other_transfer_encoding", with_headers("Transfer-Encoding: gzip\r\n"),
     "400 Transfer-Encoding other than chunked"},
    {"stacked_transfer_encoding", with_headers("Transfer-Encoding: gzip, chunked\r\n"),
     "400 Transfer-Encoding other than chunked"},
    {"identity_transfer_encoding", with_headers("Transfer-Encoding: identity\r\n"),
     "400 Transfer-Encoding other than chunked"},
    {"empty_transfer_encoding", with_headers("Transfer-Encoding:\r\n"),
     "400 Transfer-Encoding other than chunked"},
    {"parameterized_transfer_encoding", with_headers("Transfer-Encoding: chunked;a=b\r\n"),
     "400 Transfer-Encoding other than chunked"},
    {"repeated_transfer_encoding",
     with_headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
     "400 repeated or contradicted Transfer-Encoding"},
    {"length_then_chunked", with_headers("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
     "400 repeated or contradicted Transfer-Encoding"},
    {"chunked_then_length", with_headers("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"equal_lengths", with_headers("Content-Length: 5\r\nContent-Length: 5\r\n"),
     "400 repeated Content-Length header"},
    {"different_lengths", with_headers("Content-Length: 5\r\nContent-Length: 6\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"list_of_lengths", with_headers("Content-Length: 5, 5\r\n"),
     "400 malformed Content-Length header"},
    {"signed_length", with_headers("Content-Length: +5\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"hex_length", with_headers("Content-Length: 0x5\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"empty_length", with_headers("Content-Length:\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"endless_length", with_headers("Content-Length: 99999999999999999999\r\n"),
     "400 malformed or contradicted Content-Length"},
    {"chunked_1_0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
     "400 Transfer-Encoding in HTTP/1.0"},
    {"no_host", "GET / HTTP/1.1\r\n\r\n", "400 missing required Host header"},
    {"repeated_host", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "400 repeated Host header"},
    {"repeated_empty_host", "GET / HTTP/1.1\r\nHost:\r\nHost:\r\n\r\n", "400 repeated Host header"},
    {"malformed_host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 malformed Host header"},
    {"slash_in_host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400 malformed Host header"},
    {"bare_line_feeds", "GET / HTTP/1.1\nHost: h\n\n", "400 a line ends without carriage return"},
    {"bare_line_feed_in_head", "GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
     "400 a line ends without carriage return"},
    {"bare_last_line_feed", "GET / HTTP/1.1\r\nHost: h\r\n\n",
     "400 a line ends without carriage return"},
    {"bare_carriage_return", with_headers("A: b\rc\r\n"), "400 malformed header value"},
    {"nul_in_value", with_headers(std::string_view{"A: b\0c\r\n", 8}),
     "400 malformed header value"},
    {"nul_in_target", std::string{"GET /a\0 HTTP/1.1\r\nHost: h\r\n\r\n", 30},
     "400 malformed request target"},
    {"delete_in_value", with_headers("A: b\x7F\r\n"), "400 malformed header value"},
    {"space_before_colon", with_headers("A : b\r\n"), "400 malformed header name"},
    {"empty_name", with_headers(": b\r\n"), "400 malformed header name"},
    {"no_colon", with_headers("A\r\n"), "400 malformed header name"},
    {"name_not_ascii", with_headers("\xC3\xA5: b\r\n"), "400 malformed header name"},
    {"other_scheme", "GET ftp://h/rate/k HTTP/1.1\r\nHost: h\r\n\r\n",
     "400 the request target is not a path"},
    {"user_in_url", "GET http://me@h/rate/k HTTP/1.1\r\nHost: h\r\n\r\n",
     "400 the request target is not a path"},
    {"no_host_in_url", "GET http:///rate/k HTTP/1.1\r\nHost: h\r\n\r\n",
     "400 the request target is not a path"},
    {"other_expectation", with_headers("Expect: 200-ok\r\n"),
     "417 only Expect: 100-continue is supported"},
    {"authority_form", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
     "400 the request target is not a path"},
    {"no_target", "GET  HTTP/1.1\r\nHost: h\r\n\r\n", "400 malformed request target"},
    {"blank_in_target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", "400 malformed HTTP version"},
    {"two_blanks", "GET /a  HTTP/1.1\r\nHost: h\r\n\r\n", "400 malformed HTTP version"},
    {"empty_line_first", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
     "400 the request does not begin with a method"},
    {"tls", "\x16\x03\x01", "400 the request does not begin with a method"},
    {"native_protocol", std::string(8, '\0'), "400 the request does not begin with a method"},
    {"method_not_token", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n", "400 malformed method"},
    {"http_0_9", "GET /\r\n\r\n", "400 malformed request target"},
    {"no_version", "GET / \r\n\r\n", "400 malformed HTTP version"},
    {"lower_case_version", "GET / http/1.1\r\nHost: h\r\n\r\n", "400 malformed HTTP version"},
    {"long_version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", "400 malformed HTTP version"},
    {"one_word", "hello\r\n\r\n", "400 malformed method"},
    {"http_2_preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     "505 HTTP/2 is switched off (--server-type echo), or its preface is wrong, or not the first "
     "that was sent"},
    {"http_2", "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
     "505 only HTTP/1.1, HTTP/1.0, and HTTP/2 with its preface are supported"},
    {"http_1_2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n",
     "505 only HTTP/1.1, HTTP/1.0, and HTTP/2 with its preface are supported"},
    {"malformed_connection", with_headers("Connection: a@b\r\n"), "400 malformed header value"},
};

INSTANTIATE_TEST_SUITE_P(HttpParser, HttpParserRefuses, testing::ValuesIn(refused_cases),
                         [](const auto& row) { return std::string(row.param.what); });

std::string chunked(std::string_view body) {
  return with_headers("Transfer-Encoding: chunked\r\n") + std::string(body);
}

struct ChunkCase {
  const char* what;
  std::string body;
};

class HttpParserRefusesChunk : public testing::TestWithParam<ChunkCase> {};

TEST_P(HttpParserRefusesChunk, as_malformed) {
  EXPECT_EQ(refusal(chunked(GetParam().body)), "400 malformed chunk");
}

const ChunkCase malformed_chunks[] = {
    {"no_size", "\r\n"},
    {"size_not_hex", "g\r\n"},
    {"negative_size", "-1\r\n"},
    {"prefixed_size", "0x5\r\nhello\r\n"},
    {"endless_size", "00000000\r\n"},
    {"size_beyond_64_bits", "10000000000000001\r\n"},
    {"bare_line_feed_behind_size", "5\nhello\r\n"},
    {"bare_carriage_return_behind_size", "5\rhello\r\n"},
    {"data_too_long", "5\r\nhello!\r\n"},
    {"data_too_short", "5\r\nhell\r\n0\r\n\r\n"},
    {"bare_line_feed_behind_data", "5\r\nhello\n0\r\n\r\n"},
    {"blank_without_extension", "5 \r\nhello\r\n"},
    {"extension_without_semicolon", "5 a\r\nhello\r\n"},
    {"control_in_extension", "5;\x01\r\nhello\r\n"},
    {"line_feed_in_extension", "5;a=\"\n\"\r\nhello\r\n"},
    {"trailer_fold", "0\r\nA: b\r\n c\r\n\r\n"},
    {"trailer_without_colon", "0\r\nA\r\n\r\n"},
    {"trailer_without_name", "0\r\n: b\r\n\r\n"},
    {"trailer_bare_line_feed", "0\r\nA: b\n\r\n"},
    {"end_bare_carriage_return", "0\r\n\rX"},
};

INSTANTIATE_TEST_SUITE_P(HttpParser, HttpParserRefusesChunk, testing::ValuesIn(malformed_chunks),
                         [](const auto& row) { return std::string(row.param.what); });

TEST(HttpParser, accepts_a_head_of_the_greatest_size) {
  std::string stream = with_headers("A: \r\n");
  stream.insert(stream.size() - 4, std::string(limits::http_header_bytes_max - stream.size(), 'x'));
  ASSERT_EQ(stream.size(), limits::http_header_bytes_max);
  EXPECT_EQ(refusal(stream), "");
  EXPECT_EQ(feed_whole(stream).events.size(), 2u);
}

TEST(HttpParser, refuses_a_head_one_byte_larger) {
  std::string stream = with_headers("A: \r\n");
  stream.insert(stream.size() - 4,
                std::string(limits::http_header_bytes_max + 1 - stream.size(), 'x'));
  EXPECT_EQ(refusal(stream), "431 the request head is too large");
}

TEST(HttpParser, refuses_an_endless_target) {
  EXPECT_EQ(refusal("GET /" + std::string(limits::http_header_bytes_max, 'x')),
            "431 the request head is too large");
}

TEST(HttpParser, refuses_endless_small_headers) {
  std::string stream = "GET / HTTP/1.1\r\nHost: h\r\n";
  while (stream.size() < 2 * limits::http_header_bytes_max) stream += "a: b\r\n";
  EXPECT_EQ(refusal(stream), "431 the request head is too large");
}

TEST(HttpParser, drops_a_body_of_the_greatest_size) {
  const std::string body(limits::http_body_bytes_max, 'x');
  const std::string stream =
      with_headers("Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  const ParsedStream reported = feed_whole(stream);
  EXPECT_EQ(reported.events.back(), "end at " + std::to_string(stream.size()));
}

TEST(HttpParser, refuses_an_announced_body_one_byte_larger) {
  EXPECT_EQ(refusal(with_headers(
                "Content-Length: " + std::to_string(limits::http_body_bytes_max + 1) + "\r\n")),
            "413 the request body is too large");
  EXPECT_EQ(refusal(with_headers("Content-Length: 18446744073709551615\r\n")),
            "413 the request body is too large");
}

TEST(HttpParser, refuses_chunks_that_add_up_to_too_much) {
  const std::string chunk = "8000\r\n" + std::string(0x8000, 'x') + "\r\n";
  EXPECT_EQ(refusal(chunked(chunk + chunk + "0\r\n\r\n")), "");
  EXPECT_EQ(refusal(chunked(chunk + chunk + "1\r\n")), "413 the request body is too large");
  EXPECT_EQ(refusal(chunked("10001\r\n")), "413 the request body is too large");
  EXPECT_EQ(refusal(chunked("fffffff\r\n")), "413 the request body is too large");
}

TEST(HttpParser, refuses_endless_extensions_and_trailers) {
  const std::string much(limits::http_header_bytes_max, 'x');
  EXPECT_EQ(refusal(chunked("5;" + much)), "431 chunk extensions or trailer are too large");
  EXPECT_EQ(refusal(chunked("0\r\nA:" + much)), "431 chunk extensions or trailer are too large");
  std::string lines = "0\r\n";
  while (lines.size() < 3 * limits::http_header_bytes_max) lines += "a:b\r\n";
  EXPECT_EQ(refusal(chunked(lines)), "431 chunk extensions or trailer are too large");
}

// Beast 1.74 aborts on this input when it reads the chunks itself.
TEST(HttpParser, survives_one_byte_behind_the_last_chunk) {
  const std::string stream = chunked("0\r\n\r\n");
  EXPECT_EQ(feed(stream, {stream.size() - 2, stream.size() - 1, stream.size()}).events.back(),
            "end at " + std::to_string(stream.size()));
}

TEST(HttpParser, refuses_further_bytes_until_reset) {
  HttpParser parser;
  const std::string bad = "\r\n";
  const std::string good = with_headers("");
  EXPECT_TRUE(std::holds_alternative<HttpRefused>(parser.parse(std::as_bytes(std::span{bad}))));
  EXPECT_TRUE(std::holds_alternative<HttpRefused>(parser.parse(std::as_bytes(std::span{good}))));
  EXPECT_FALSE(parser.idle());
  parser.reset();
  EXPECT_TRUE(parser.idle());
  EXPECT_TRUE(std::holds_alternative<HttpHead>(parser.parse(std::as_bytes(std::span{good}))));
}

// A head that arrives byte by byte is searched once, not once per byte: 8 KiB in 8192 calls would
// otherwise be 32 million steps. The buffer may move between the calls.
TEST(HttpParser, reads_a_head_that_moved_between_calls) {
  const std::string stream = with_headers("A: b\r\nAccept: r/s\r\n");
  HttpParser parser;
  for (size_t bytes = 1; bytes < stream.size(); ++bytes) {
    std::string other_shard = stream.substr(0, bytes);
    EXPECT_TRUE(
        std::holds_alternative<HttpNeedMore>(parser.parse(std::as_bytes(std::span{other_shard}))));
  }
  const HttpParsed parsed = parser.parse(std::as_bytes(std::span{stream}));
  ASSERT_TRUE(std::holds_alternative<HttpHead>(parsed));
  EXPECT_EQ(std::get<HttpHead>(parsed).request.accept, "r/s");
}

}  // namespace
}  // namespace sluice::wire
