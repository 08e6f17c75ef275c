// Parses a chunked request body (RFC 9112, section 7.1), byte by byte; keeps its data only for a
// caller that asks for it.
// Shape:  "5;extension\r\n" "hello" "\r\n" ... "0\r\n" [trailer lines] "\r\n".
// Units:  octets of data are at most limits::http_body_bytes_max; extensions and trailer together
//         at most limits::http_header_bytes_max.
// Errors: malformed chunk, too much data, too much framing: final, the connection ends.
// Lives:  one per parser; reset() before each body; allocates only for the data that it keeps.
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
    size_t consumed_bytes;  // all of `bytes`, or those up to the body's end
  };

  // Appends the data to `kept` unless that is null.
  Skipped skip(std::span<const std::byte> bytes, std::string* kept = nullptr) noexcept;
  void reset() noexcept { *this = ChunkedBody{}; }

 private:
  enum class State : uint8_t {
    size_first,  // at the start of a chunk's line
    size,
    blank,  // white space between size and extension
    extension,
    size_lf,  // behind the CR of the chunk's line
    data,
    data_cr,
    data_lf,
    trailer_first,  // behind the last chunk, at the start of a line
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
  uint32_t data_bytes_ = 0;     // announced by all chunks so far
  uint32_t framing_bytes_ = 0;  // extensions and trailer
};

}  // namespace sluice::wire
