// Decodes answers and counts every verdict in them.
// Flow:   received words -> next() per whole frame -> counts by verdict.
// Shape:  recognises our server's Verdicts frame of one segment by comparing six words and counts
//         its bytes in place; everything else goes through the client's decoder.
// Errors: sluicegate::ProtocolError.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluicegate/frames.hpp"

namespace sluice::load {

class VerdictTally {
 public:
  // One answer: the id of its request, and the length of its frame.
  struct Counted {
    uint64_t id;
    uint64_t entries;
    size_t words;
    bool refused;
  };

  // Counts the frame at the start of `words`; nullopt when it is incomplete.
  std::optional<Counted> next(std::span<const uint64_t> words);

  // Counts an answer that was decoded already.
  void add(std::span<const sluicegate::Verdict> verdicts) noexcept;
  void add_refusal(std::string_view text);

  uint64_t count(sluicegate::Verdict verdict) const noexcept {
    return counts_[static_cast<uint8_t>(verdict)];
  }
  const std::array<uint64_t, 256>& counts() const noexcept { return counts_; }
  uint64_t decisions() const noexcept { return decisions_; }
  uint64_t frames() const noexcept { return frames_; }
  uint64_t refusals() const noexcept { return refusals_; }
  uint64_t library_frames() const noexcept {
    return library_frames_;
  }  // not in the standard layout
  const std::string& refusal_text() const noexcept { return refusal_text_; }

 private:
  std::optional<Counted> next_by_library(std::span<const uint64_t> words);
  void count_bytes(const uint8_t* bytes, size_t bytes_count, uint64_t entries) noexcept;

  std::array<uint64_t, 256> counts_{};
  uint64_t decisions_ = 0;
  uint64_t frames_ = 0;
  uint64_t refusals_ = 0;
  uint64_t library_frames_ = 0;
  std::string refusal_text_;  // of the first one
};

}  // namespace sluice::load
