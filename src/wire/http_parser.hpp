// Cuts one HTTP/1.1 request out of bytes: the head first, then its body, which is thrown away
// unless somebody wants it. Flow:   net::Connection bytes -> HttpParser::parse() -> HttpRequest ->
// http_codec routes it. Shape:  the head's lines are found here, a whole head is read by Beast's
// basic_parser<true> with
//         a handler of ours that keeps views only; body bytes are counted and dropped.
// Units:  bytes; the head is at most limits::http_header_bytes_max, the body _body_bytes_max.
// Errors: refused with a status: 400 (malformed; obs-fold; Transfer-Encoding other than chunked;
//         repeated Content-Length or Host; HTTP/1.1 without Host; invalid escapes are the codec's),
//         417 (an Expect other than 100-continue), 431 (head, chunk extensions or trailer too
//         large), 413 (body too large), 505 (neither HTTP/1.0 nor 1.1); the connection ends.
// Lives:  the request's views point into the bytes given to the parse() that returned `head`;
//         one parser per connection, reset by itself after each request; never allocates, but for a
//         body that is kept.
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
  std::string_view method;        // as sent: "GET", "POST", ...
  std::string_view target;        // path and query, as sent; or "*"
  std::string_view accept;        // the first Accept header, or empty
  std::string_view rate_style;    // the first X-RateLimit-Style header, or empty
  bool keep_alive = true;         // the client's wish, by version and Connection header
  bool expects_continue = false;  // Expect: 100-continue with a body to come
  bool http_1_0 = false;
};

struct HttpNeedMore {
  size_t consumed_bytes;  // of a body that is being thrown away
};

// A whole head. Its body, if any, follows: say whether to keep_body(), then call parse() on with
// the bytes behind, it answers HttpBodyEnd (at once, with 0 consumed bytes, when there is none).
struct HttpHead {
  HttpRequest request;
  size_t consumed_bytes;
};

struct HttpBodyEnd {
  size_t consumed_bytes;
};

struct HttpRefused {
  uint16_t status;         // 400, 413, 417, 431 or 505
  std::string_view cause;  // a static sentence for the log and the body
};

using HttpParsed = std::variant<HttpNeedMore, HttpHead, HttpBodyEnd, HttpRefused>;

class HttpParser {
 public:
  HttpParser() noexcept = default;
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // `bytes` begins where the last call stopped consuming (an incomplete head is given again, whole
  // and longer). After a refusal every further call refuses again.
  HttpParsed parse(std::span<const std::byte> bytes) noexcept;

  // Behind a head: its body's data is appended to `body`, which lasts until HttpBodyEnd or reset().
  void keep_body(std::string& body) noexcept { kept_body_ = &body; }

  // Between requests: not a byte of the next one was seen.
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

  Stage stage_ = Stage::head;
  uint32_t searched_bytes_ = 0;   // of the head: its end is not among them
  uint32_t line_start_ = 0;       // of the head's last line among them
  uint32_t body_bytes_left_ = 0;  // of a sized body
  ChunkedBody chunked_body_;
  std::string* kept_body_ = nullptr;
  HttpRefused refused_{};
};

}  // namespace sluice::wire
