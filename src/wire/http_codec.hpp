// REST <-> values: HTTP requests become RestRequests, and answers become bytes.
// Flow:   HttpRequest -> route_request() -> RestRequest; verdict -> encode_*() -> bytes.
//         (http_codec_route.cpp with the table of rest_endpoint.hpp, http_codec_reply.cpp)
// Shape:  gocc's endpoints, bodies and texts (docs/rest.md).
// Errors: route_request() returns a ready RestReply for any faulty request; never throws.
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

// A request target's path by its route, as the log shows it: "/rate/:key", or empty for an unknown
// path. Key and id are still percent-encoded.
struct RestPath {
  std::string_view route;
  std::string_view key;
  std::string_view id;
};
RestPath path_of(std::string_view target) noexcept;

// "Too Many Requests"
std::string_view reason_phrase(uint16_t status) noexcept;

// The parts of a response's head that depend on the request and the time.
struct ReplyContext {
  bool keep_alive = true;  // false: Connection: close
  bool http_1_0 = false;   // then keep_alive writes Connection: keep-alive
  bool head_only = false;  // HEAD: no body
  int64_t wall_ns = 0;     // Date
};

// Each writes a whole response at the start of `out` and returns its size in bytes.
size_t encode_reply(const RestReply&, const ReplyContext&, std::span<std::byte> out) noexcept;

size_t encode_key_state(const api::KeyState&, bool pretty, const ReplyContext&,
                        std::span<std::byte> out) noexcept;

// An answer with more header lines: `headers` are whole lines, each with its line end.
struct RestContent {
  uint16_t status = 200;
  std::string_view content_type;  // empty: none
  std::string_view headers;
  std::string_view body;
};
size_t encode_content(const RestContent&, const ReplyContext&, std::span<std::byte> out) noexcept;

// `HTTP/1.1 100 Continue`, `HTTP/1.1 101 Switching Protocols` to HTTP/2.
size_t encode_continue(std::span<std::byte> out) noexcept;
size_t encode_upgrade(std::span<std::byte> out) noexcept;

// GET /debug, streamed: head, then one call per key (in the order that the head announces), then
// the tail; all in chunks of Transfer-Encoding: chunked (HTTP/1.0: no chunks, the connection's end
// ends the body). A body that is written apart, to be sent with a Content-Length, begins with
// encode_debug_open().
struct DebugStream {
  bool pretty = false;
  bool chunked = true;
  bool first = true;        // no key written yet
  uint64_t body_bytes = 0;  // without the framing of chunks
};
size_t encode_debug_head(DebugStream&, bool table_order, const ReplyContext&,
                         std::span<std::byte> out) noexcept;
size_t encode_debug_open(DebugStream&, std::span<std::byte> out) noexcept;
size_t encode_debug_key(DebugStream&, const api::KeyState&, std::span<std::byte> out) noexcept;
size_t encode_debug_tail(DebugStream&, std::span<std::byte> out) noexcept;
// The bound of one key's object: an escape can turn one byte into six.
constexpr size_t debug_key_bytes_max(size_t key_bytes) noexcept {
  return 512 + 12 * key_bytes;
}
// Of a key that was asked for by its name, with its first waiters.
constexpr size_t inspected_key_bytes_max(size_t key_bytes) noexcept {
  return debug_key_bytes_max(key_bytes) + limits::shown_waiters_max * 128;
}

// The reply to a refused head: a status of HttpParser or 503, with the cause as its text.
RestReply refusal_reply(uint16_t status, std::string_view cause) noexcept;

}  // namespace sluice::wire
