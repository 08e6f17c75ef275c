#include "wire/chunked_body.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "text/number.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {

namespace {

using text::hex_digit;

// More hex digits than any body needs, and so few that a size never overflows.
constexpr uint8_t size_digits_max = 7;

}  // namespace

ChunkedBody::Skipped ChunkedBody::skip(std::span<const std::byte> bytes,
                                       std::string* kept) noexcept {
  ASSERT(state_ != State::end);
  ASSERT(state_ != State::malformed);
  size_t position = 0;
  while (position < bytes.size()) {
    if (state_ == State::data) {
      const size_t skipped = std::min<size_t>(chunk_bytes_left_, bytes.size() - position);
      if (kept != nullptr) {
        kept->append(reinterpret_cast<const char*>(bytes.data()) + position, skipped);
      }
      position += skipped;
      chunk_bytes_left_ -= static_cast<uint32_t>(skipped);
      if (chunk_bytes_left_ == 0) state_ = State::data_cr;
      continue;
    }
    state_ = next(static_cast<char>(bytes[position]));
    ++position;
    if (state_ == State::end) return {Outcome::end, position};
    if (state_ == State::malformed) return {Outcome::malformed, position};
    if (data_bytes_ > limits::http_body_bytes_max) return {Outcome::too_much_data, position};
    if (framing_bytes_ > limits::http_header_bytes_max) {
      return {Outcome::too_much_framing, position};
    }
  }
  return {Outcome::need_more, position};
}

ChunkedBody::State ChunkedBody::next(char c) noexcept {
  switch (state_) {
    case State::size_first:
      size_digits_ = 0;
      chunk_bytes_left_ = 0;
      return hex_digit(c) < 0 ? State::malformed : after_size_digit(c);
    case State::size:
      return hex_digit(c) < 0 ? after_extension_byte(c) : after_size_digit(c);
    case State::blank:
    case State::extension:
      return after_extension_byte(c);
    case State::size_lf:
      if (c != '\n') return State::malformed;
      data_bytes_ += chunk_bytes_left_;
      return chunk_bytes_left_ == 0 ? State::trailer_first : State::data;
    case State::data_cr:
      return c == '\r' ? State::data_lf : State::malformed;
    case State::data_lf:
      return c == '\n' ? State::size_first : State::malformed;
    case State::trailer_first:
      if (c == '\r') return State::end_lf;
      [[fallthrough]];
    case State::trailer_name:
      ++framing_bytes_;
      if (c == ':' && state_ == State::trailer_name) return State::trailer_value;
      return is_token_char(c) ? State::trailer_name : State::malformed;
    case State::trailer_value:
      ++framing_bytes_;
      if (c == '\r') return State::trailer_lf;
      return is_field_char(c) ? State::trailer_value : State::malformed;
    case State::trailer_lf:
      return c == '\n' ? State::trailer_first : State::malformed;
    case State::end_lf:
      return c == '\n' ? State::end : State::malformed;
    case State::data:
    case State::end:
    case State::malformed:
      break;
  }
  return State::malformed;  // `data` is not read byte by byte, the other states are final
}

ChunkedBody::State ChunkedBody::after_size_digit(char c) noexcept {
  if (++size_digits_ > size_digits_max) return State::malformed;
  chunk_bytes_left_ = chunk_bytes_left_ * 16 + static_cast<uint32_t>(hex_digit(c));
  return State::size;
}

// The content of an extension does not matter, but it must be one line of valid bytes behind a ';'.
ChunkedBody::State ChunkedBody::after_extension_byte(char c) noexcept {
  if (c == '\r') return state_ == State::blank ? State::malformed : State::size_lf;
  ++framing_bytes_;
  if (state_ == State::extension) {
    return is_field_char(c) ? State::extension : State::malformed;
  }
  if (c == ';') return State::extension;
  return c == ' ' || c == '\t' ? State::blank : State::malformed;
}

}  // namespace sluice::wire
