// Cuts one HTTP/1.1 request out of bytes: the head first, then its body, which it discards unless
// the caller asks to keep it.
// Flow:   net::Connection bytes -> HttpParser::parse() -> HttpRequest -> http_codec routes it.
// Shape:  the parser finds the end of the head itself; Beast's basic_parser<true> reads the whole
//         head, with a handler of ours that keeps views only; body bytes are counted and dropped.
// Units:  bytes; the head has at most limits::http_header_bytes_max, the body _body_bytes_max.
// Errors: refused with a status: 400 (malformed; obs-fold; Transfer-Encoding other than chunked;
//         repeated Content-Length or Host; HTTP/1.1 without Host; invalid escapes are the codec's),
//         417 (an Expect other than 100-continue), 431 (head, chunk extensions or trailer too
//         large), 413 (body too large), 505 (neither HTTP/1.0 nor 1.1); the connection ends.
// Lives:  the request's views point into the argument of the parse() that returned HttpHead; one
//         parser per connection, which resets itself after each request; allocates only for a body
//         that it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "wire/chunked_body.hpp"

namespace sluice::wire {

struct HttpRequest {
  std::string_view method;          // as sent: "GET", "POST", ...
  std::string_view target;          // path and query, as sent; or "*"
  std::string_view accept;          // the first Accept header, or empty
  std::string_view rate_style;      // the first X-RateLimit-Style header, or empty
  std::string_view correlation_id;  // the first X-Correlation-ID header, or empty
  std::string_view http2_settings;  // of HTTP2-Settings in a valid request to upgrade; or empty
  bool keep_alive = true;           // the client's wish, by version and Connection header
  bool expects_continue = false;    // Expect: 100-continue with a body to come
  bool http_1_0 = false;
};

struct HttpNeedMore {
  size_t consumed_bytes;  // of a body
};

// A whole head. Call keep_body() now if the body is needed, then parse() with the bytes behind the
// head until it returns HttpBodyEnd (at once, with 0 consumed bytes, when there is no body).
struct HttpHead {
  HttpRequest request;
  size_t consumed_bytes;
};

struct HttpBodyEnd {
  size_t consumed_bytes;
};

struct HttpRefused {
  static constexpr uint16_t no_answer = 0;  // what is no HTTP at all (RFC 9113, 3.4)

  uint16_t status;         // 400, 413, 417, 431, 503 (no room) or 505
  std::string_view cause;  // a static sentence for the log and the body
  bool in_body = false;    // the head was returned before
};

// Faults that a request has in any version of HTTP.
namespace http_fault {
inline constexpr HttpRefused head_size{431, "the request head is too large"};
inline constexpr HttpRefused body_size{413, "the request body is too large"};
inline constexpr HttpRefused target{400, "the request target is not a path"};
inline constexpr HttpRefused host{400, "malformed Host header"};
inline constexpr HttpRefused expect{417, "only Expect: 100-continue is supported"};
}  // namespace http_fault

using HttpParsed = std::variant<HttpNeedMore, HttpHead, HttpBodyEnd, HttpRefused>;

class HttpParser {
 public:
  HttpParser() noexcept = default;
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // `bytes` begins where the last call stopped consuming (with an incomplete head the caller passes
  // the same bytes again, and more). After a refusal every further call refuses again.
  HttpParsed parse(std::span<const std::byte> bytes) noexcept;

  // Call it after HttpHead: parse() then appends the body's data to `body`, which must live until
  // HttpBodyEnd or reset().
  void keep_body(std::string& body) noexcept { kept_body_ = &body; }

  // Between requests: no byte of the next one has arrived.
  bool idle() const noexcept { return stage_ == Stage::head && searched_bytes_ == 0; }

  // Ready for another connection.
  void reset() noexcept;

 private:
  enum class Stage : uint8_t { head, no_body, sized_body, chunked_body, refused };

  HttpParsed parse_head(std::span<const std::byte> bytes) noexcept;
  HttpParsed parse_whole_head(std::string_view head) noexcept;
  HttpParsed parse_sized_body(std::span<const std::byte> bytes) noexcept;
  HttpParsed parse_chunked_body(std::span<const std::byte> bytes) noexcept;
  HttpParsed end_body(size_t consumed_bytes) noexcept;
  HttpParsed refuse(uint16_t status, std::string_view cause) noexcept;
  HttpParsed refuse(const HttpRefused& fault) noexcept { return refuse(fault.status, fault.cause); }

  Stage stage_ = Stage::head;
  uint32_t searched_bytes_ = 0;   // of the head, without finding its end
  uint32_t line_start_ = 0;       // of the last line that begins among them
  uint32_t body_bytes_left_ = 0;  // of a sized body
  ChunkedBody chunked_body_;
  std::string* kept_body_ = nullptr;
  HttpRefused refused_{};
};

}  // namespace sluice::wire
