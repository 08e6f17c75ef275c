// The other end of a lane, played by bytes: reads what a lane sends, and writes an owner's frames.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::peer {

// A frame's bytes, aligned.
using Words = std::vector<uint64_t>;

template <typename Encode>
Words words_of(size_t bytes_max, Encode encode) {
  Words words(wire::words_for(bytes_max));
  words.resize(wire::words_for(encode(std::as_writable_bytes(std::span(words)))));
  return words;
}

inline Words welcome_words(const wire::WelcomeAnswer& answer) {
  return words_of(wire::small_answer_bytes_max,
                  [&](auto out) { return wire::encode_welcome(1, answer, out); });
}

// With `value` in place of one of the bounds that the server announces.
inline Words welcome_with(uint32_t bound, uint32_t value) {
  Words words = welcome_words({});
  const auto bytes = std::as_writable_bytes(std::span(words));
  int places = 0;
  for (size_t at = 0; at < bytes.size(); at += sizeof bound) {
    if (std::memcmp(bytes.data() + at, &bound, sizeof bound) != 0) continue;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    ++places;
  }
  EXPECT_EQ(places, 1);
  return words;
}

inline Words verdicts_words(uint64_t id, const std::vector<api::Verdict>& verdicts,
                            const std::vector<api::Detail>& details = {}) {
  const uint8_t bits = details.empty() ? 0 : wire::detail_bit::all;
  const auto count = static_cast<uint32_t>(verdicts.size());
  return words_of(wire::verdicts_bytes_max(count, bits), [&](auto out) {
    return wire::encode_verdicts(id, verdicts, details, bits, out);
  });
}

inline Words granted_words(uint64_t id, const std::vector<uint32_t>& entries,
                           const std::vector<api::Verdict>& verdicts,
                           const std::vector<wire::Permit>& permits = {}) {
  const auto count = static_cast<uint32_t>(entries.size());
  const std::vector<api::Detail> details(count);
  return words_of(wire::granted_bytes_max(count, 0, static_cast<uint32_t>(permits.size())),
                  [&](auto out) {
                    return wire::encode_granted(id, entries, verdicts, details, 0, out, permits);
                  });
}

inline Words pong_words() {
  return words_of(wire::small_answer_bytes_max, [](auto out) { return wire::encode_pong(9, out); });
}

inline Words done_words(uint64_t id) {
  return words_of(wire::small_answer_bytes_max,
                  [&](auto out) { return wire::encode_done(id, out); });
}

inline Words error_words(std::string_view text, ErrorCode code = ErrorCode::draining) {
  return words_of(wire::small_answer_bytes_max, [&](auto out) {
    return wire::encode_error(1, {.code = code, .text = text}, out);
  });
}

// The frames that a node has sent.
class SentFrames {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      Words& words = frames_.emplace_back(wire::words_for(bytes.size()));
      std::memcpy(words.data(), bytes.data(), bytes.size());
      const auto all = std::as_bytes(std::span(words));
      const auto read = wire::read_frame(all.first(bytes.size()), limits::frame_bytes_max);
      const auto* const frame = std::get_if<base::Complete<wire::Frame>>(&read);
      if (frame == nullptr) {
        ADD_FAILURE() << "no whole frame";
        return;
      }
      const auto decoded = wire::decode(frame->value);
      if (!decoded) {
        ADD_FAILURE() << "a malformed frame";
        return;
      }
      requests_.push_back(*decoded);
      bytes.remove_prefix(frame->value.size());
    }
  }

  const std::deque<wire::ClientRequest>& all() const { return requests_; }
  template <typename Body>
  std::vector<const wire::ClientRequest*> of() const {
    std::vector<const wire::ClientRequest*> found;
    for (const wire::ClientRequest& request : requests_) {
      if (std::holds_alternative<Body>(request.body)) found.push_back(&request);
    }
    return found;
  }
  template <typename Body>
  size_t count() const {
    return of<Body>().size();
  }
  // The n-th of its kind.
  template <typename Body>
  const Body& body(size_t n = 0) const {
    return std::get<Body>(of<Body>().at(n)->body);
  }
  template <typename Body>
  uint64_t id(size_t n = 0) const {
    return of<Body>().at(n)->id;
  }

 private:
  std::deque<Words> frames_;  // what the requests point into
  std::deque<wire::ClientRequest> requests_;
};

}  // namespace sluice::peer
