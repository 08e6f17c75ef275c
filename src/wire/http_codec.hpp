// REST <-> values: what a request asks for, and the bytes of each answer.
// Flow:   HttpRequest -> route_request() -> RestRequest; verdict -> encode_*() -> bytes.
//         (http_codec_route.cpp with the table of rest_endpoint.hpp, http_codec_reply.cpp)
// Shape:  gocc's endpoints, bodies and texts (docs/protocol.md, "REST").
// Errors: whatever a request gets wrong comes back as a ready RestReply; never throws.
// Lives:  a decoded key lies in the RestRequest's own buffer or in the request's bytes, until the
//         next request of the same buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "wire/http_parser.hpp"
#include "wire/rest_request.hpp"

namespace sluice::wire {

// Routes `request`. A percent-decoded key is written to `key_buffer` (at least as long as the
// target); a key without escapes is a view of the target.
RestRequest route_request(const HttpRequest& request, const RestOptions& options,
                          std::span<char> key_buffer) noexcept;

// A request target's path by its route, as the log tells it: "/rate/:key", or empty when there is
// no such path. Key and id are still percent-encoded.
struct RestPath {
  std::string_view route;
  std::string_view key;
  std::string_view id;
};
RestPath path_of(std::string_view target) noexcept;

// "Too Many Requests"
std::string_view reason_phrase(uint16_t status) noexcept;

// How every answer ends the exchange.
struct ReplyHead {
  bool keep_alive = true;  // false: Connection: close
  bool http_1_0 = false;   // then keep-alive is said aloud
  bool head_only = false;  // HEAD: no body
  int64_t wall_ns = 0;     // Date
};

inline constexpr size_t rest_reply_bytes_max = 4'096 + 6 * 65'535;  // a JSON denial shows its key

// Each writes a whole response at the start of `out` and returns its size in bytes.
size_t encode_reply(const RestReply&, const ReplyHead&, std::span<std::byte> out) noexcept;

// A decided /rate request. `details` give RateLimit, RateLimit-Policy and Retry-After; approved:
// its request id is the body. A release is encode_reply({.status = 200}, ...).
size_t encode_decision(api::Verdict verdict, const api::Detail& detail, std::string_view key,
                       bool json, const ReplyHead&, std::span<std::byte> out) noexcept;

size_t encode_key_state(const api::KeyState&, bool pretty, const ReplyHead&,
                        std::span<std::byte> out) noexcept;

// A body of known content, as for /metrics.
size_t encode_text(uint16_t status, std::string_view content_type, std::string_view body,
                   const ReplyHead&, std::span<std::byte> out) noexcept;

// An answer whose head says more: `headers` are whole lines, each with its end.
struct RestContent {
  uint16_t status = 200;
  std::string_view content_type;  // empty: none
  std::string_view headers;
  std::string_view body;
};
size_t encode_content(const RestContent&, const ReplyHead&, std::span<std::byte> out) noexcept;

// `HTTP/1.1 100 Continue`.
size_t encode_continue(std::span<std::byte> out) noexcept;

// GET /debug, streamed: head, then one call per key (in the order told), then the tail; all in
// chunks of Transfer-Encoding: chunked (HTTP/1.0: none, the connection's end ends the body).
// A body that is written apart, to be told with its length, begins with encode_debug_open().
struct DebugStream {
  bool pretty = false;
  bool chunked = true;
  bool first = true;        // no key written yet
  uint64_t body_bytes = 0;  // without what chunks add
};
size_t encode_debug_head(DebugStream&, bool table_order, const ReplyHead&,
                         std::span<std::byte> out) noexcept;
size_t encode_debug_open(DebugStream&, std::span<std::byte> out) noexcept;
size_t encode_debug_key(DebugStream&, const api::KeyState&, std::span<std::byte> out) noexcept;
size_t encode_debug_tail(DebugStream&, std::span<std::byte> out) noexcept;
// One key's object at most: escapes can make six bytes of one.
constexpr size_t debug_key_bytes_max(size_t key_bytes) noexcept {
  return 512 + 12 * key_bytes;
}

// Whether a refused head still gets an answer body: the text for 400, 413, 417, 431, 503, 505.
RestReply refusal_reply(uint16_t status, std::string_view cause) noexcept;

}  // namespace sluice::wire
