// Goal: requests, also refused ones, are cut, routed and answered without allocation. Method: this
// program's operator new counts.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "support/allocation_guard.hpp"
#include "wire/http_codec.hpp"
#include "wire/rest_answer.hpp"

namespace sluice::wire {
namespace {

std::array<char, 8'192> key_buffer;
std::array<std::byte, decision_bytes_max(limits::key_bytes_max, true)> out;

size_t answer(const HttpRequest& request) {
  const ReplyContext head{.wall_ns = 1};
  const RestRequest routed = route_request(request, {}, key_buffer);
  if (const auto* reply = std::get_if<RestReply>(&routed)) return encode_reply(*reply, head, out);
  if (const auto* decision = std::get_if<RestDecision>(&routed)) {
    return encode_decision({.verdict = api::Verdict::approved,
                            .key = decision->entry.key(),
                            .json = decision->json},
                           head, out) +
           encode_decision({.verdict = api::Verdict::denied,
                            .key = decision->entry.key(),
                            .json = decision->json},
                           head, out);
  }
  DebugStream stream{.pretty = true};
  return encode_key_state({.key = "\xFF<"}, true, head, out) +
         encode_debug_head(stream, true, head, out) +
         encode_debug_key(stream, {.key = "\xFF<"}, out) + encode_debug_tail(stream, out) +
         encode_content({.content_type = "text/plain", .body = "x"}, head, out) +
         encode_continue(out);
}

// Cuts and answers all of `stream`, which arrives `piece_bytes` at a time; returns the number of
// heads.
size_t serve(HttpParser& parser, std::span<const std::byte> stream, size_t piece_bytes) {
  size_t heads_count = 0;
  size_t consumed = 0;
  size_t arrived = 0;
  while (true) {
    const HttpParsed parsed = parser.parse(stream.subspan(consumed, arrived - consumed));
    if (std::holds_alternative<HttpRefused>(parsed)) {
      parser.reset();
      return heads_count;
    }
    if (const auto* head = std::get_if<HttpHead>(&parsed)) {
      EXPECT_GT(answer(head->request), 0u);
      consumed += head->consumed_bytes;
      ++heads_count;
    } else if (const auto* end = std::get_if<HttpBodyEnd>(&parsed)) {
      consumed += end->consumed_bytes;
    } else {
      consumed += std::get<HttpNeedMore>(parsed).consumed_bytes;
      if (arrived == stream.size()) return heads_count;
      arrived = std::min(stream.size(), arrived + piece_bytes);
    }
  }
}

size_t allocations_of(const std::string& stream, size_t heads_expected) {
  HttpParser parser;
  const auto bytes = std::as_bytes(std::span{stream});
  const size_t before = support::allocations_of_thread();
  const size_t heads_whole = serve(parser, bytes, stream.size());
  const size_t heads_in_drips = serve(parser, bytes, 1);
  const size_t taken = support::allocations_of_thread() - before;
  EXPECT_EQ(heads_whole, heads_expected);
  EXPECT_EQ(heads_in_drips, heads_expected);
  return taken;
}

TEST(HttpAllocation, counts_allocations) {
  const size_t before = support::allocations_of_thread();
  const std::vector<int> numbers(100);
  EXPECT_EQ(numbers.size(), 100u);
  EXPECT_GT(support::allocations_of_thread(), before);
}

TEST(HttpAllocation, serves_without_allocation) {
  EXPECT_EQ(allocations_of("POST /rate/%20a%2Fb?canWait=t&cost=%32&maxRequests=5 HTTP/1.1\r\n"
                           "Host: localhost:8080\r\nAccept: application/json\r\n"
                           "Connection: keep-alive\r\nX-Correlation-ID: c\r\nX-Other: 1\r\n"
                           "Content-Length: 2\r\n\r\nab"
                           "DELETE /rate/k/1 HTTP/1.1\r\nHost: h\r\n\r\n"
                           "GET /debug/k HTTP/1.1\r\nHost: h\r\n\r\n"
                           "GET /nope HTTP/1.0\r\n\r\n"
                           "POST /rate/k?cost=x HTTP/1.1\r\nHost: h\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nA: b\r\n\r\n",
                           5),
            0u);
}

TEST(HttpAllocation, refuses_without_allocation) {
  EXPECT_EQ(allocations_of("GET / HTTP/1.1\r\n\r\n", 0), 0u);
  EXPECT_EQ(allocations_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 0), 0u);
  EXPECT_EQ(allocations_of("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 0), 0u);
  EXPECT_EQ(allocations_of("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 0), 0u);
  EXPECT_EQ(allocations_of("PRI * HTTP/2.0\r\n\r\n", 0), 0u);
  EXPECT_EQ(allocations_of("GET /" + std::string(9'000, 'x'), 0), 0u);
}

}  // namespace
}  // namespace sluice::wire
