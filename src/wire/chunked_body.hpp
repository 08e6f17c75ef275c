// Cuts a request body in chunks (RFC 9112, section 7.1), byte by byte; its data is kept only where
// somebody wants it.
// Shape:  "5;extension\r\n" "hello" "\r\n" ... "0\r\n" [trailer lines] "\r\n".
// Units:  octets of data are at most limits::http_body_bytes_max; extensions and trailer together
//         at most limits::http_header_bytes_max.
// Errors: malformed chunk, too much data, too much around it: final, the connection ends.
// Lives:  one per parser; reset() before each body; never allocates, but for the data that is kept.
// Source: not Beast's: it asks for each line whole without a bound, folds trailer lines, and (1.74)
//         asserts when the last chunk's line arrives with one byte behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::wire {

class ChunkedBody {
 public:
  enum class Outcome : uint8_t { need_more, end, malformed, too_much_data, too_much_framing };

  struct Skipped {
    Outcome outcome;
    size_t consumed_bytes;  // all that was given, or up to the body's end
  };

  // The data is appended to `kept`, if that is given.
  Skipped skip(std::span<const std::byte> bytes, std::string* kept = nullptr) noexcept;
  void reset() noexcept { *this = ChunkedBody{}; }

 private:
  enum class State : uint8_t {
    size_first,  // a chunk's line begins
    size,
    blank,  // white space between size and extension
    extension,
    size_lf,  // the line's CR was seen
    data,
    data_cr,
    data_lf,
    trailer_first,  // behind the last chunk, a line begins
    trailer_name,
    trailer_value,
    trailer_lf,
    end_lf,
    end,
    malformed,
  };

  State next(char c) noexcept;
  State after_size_digit(char c) noexcept;
  State after_extension_byte(char c) noexcept;

  State state_ = State::size_first;
  uint8_t size_digits_ = 0;
  uint32_t chunk_bytes_left_ = 0;
  uint32_t data_bytes_ = 0;     // of all chunks told so far
  uint32_t framing_bytes_ = 0;  // extensions and trailer
};

}  // namespace sluice::wire
