#include "load/verdict_tally.hpp"

#include <algorithm>

namespace sluice::load {
namespace {

// A Verdicts frame without details in one segment, word by word:
//   0 table | 1 -> ServerFrame | 2 id | 3 kind | 4 -> Verdicts | 5 count | 6 -> bytes | 7 no
//   details | 8... the bytes
constexpr size_t words_before_bytes = 8;
constexpr uint64_t to_server_frame = uint64_t{2} << 32 | uint64_t{1} << 48;  // 2 data, 1 pointer
constexpr uint64_t kind_verdicts = 2;                                    // its number in the union
constexpr uint64_t to_verdicts = uint64_t{1} << 32 | uint64_t{2} << 48;  // 1 data, 2 pointers
constexpr uint64_t to_bytes = 1 | 1 << 2 | uint64_t{2} << 32;            // a byte list, 1 word on
constexpr uint64_t pointer_mask = 0x7'FFFF'FFFF;                         // all but a list's length

// Counts the bytes equal to `value`, in blocks small enough to count in a byte: compilers use SIMD.
uint64_t count_equal(const uint8_t* bytes, size_t count, uint8_t value) noexcept {
  uint64_t sum = 0;
  while (count > 0) {
    const size_t block = std::min<size_t>(count, 255);
    uint8_t found = 0;
    for (size_t i = 0; i < block; ++i) found = static_cast<uint8_t>(found + (bytes[i] == value));
    sum += found;
    bytes += block;
    count -= block;
  }
  return sum;
}

}  // namespace

void VerdictTally::count_bytes(const uint8_t* bytes, size_t bytes_count,
                               uint64_t entries) noexcept {
  ++frames_;
  decisions_ += entries;
  if (bytes_count == 1) {
    counts_[bytes[0]] += entries;
    return;
  }
  constexpr auto approved = static_cast<uint8_t>(sluicegate::Verdict::approved);
  constexpr auto denied = static_cast<uint8_t>(sluicegate::Verdict::denied);
  const uint64_t approved_count = count_equal(bytes, bytes_count, approved);
  const uint64_t denied_count = count_equal(bytes, bytes_count, denied);
  if (approved_count + denied_count == bytes_count) {
    counts_[approved] += approved_count;
    counts_[denied] += denied_count;
    return;
  }
  for (size_t i = 0; i < bytes_count; ++i) ++counts_[bytes[i]];
}

void VerdictTally::add(std::span<const sluicegate::Verdict> verdicts) noexcept {
  count_bytes(reinterpret_cast<const uint8_t*>(verdicts.data()), verdicts.size(), verdicts.size());
}

void VerdictTally::add_refusal(std::string_view text) {
  if (refusals_++ == 0) refusal_text_ = text;
}

std::optional<VerdictTally::Counted> VerdictTally::next(std::span<const uint64_t> words) {
  if (words.size() <= words_before_bytes) return next_by_library(words);
  const size_t frame_words = 1 + (words[0] >> 32);
  const uint64_t bytes_count = words[6] >> 35;
  const auto entries = static_cast<uint32_t>(words[5]);
  const bool is_standard = static_cast<uint32_t>(words[0]) == 0 && words[1] == to_server_frame &&
                           words[3] == kind_verdicts && words[4] == to_verdicts &&
                           (words[6] & pointer_mask) == to_bytes && words[7] == 0 &&
                           (bytes_count == entries || (bytes_count == 1 && entries > 0)) &&
                           frame_words >= words_before_bytes + (bytes_count + 7) / 8;
  if (!is_standard) return next_by_library(words);
  if (frame_words > words.size()) return std::nullopt;
  count_bytes(reinterpret_cast<const uint8_t*>(&words[words_before_bytes]), bytes_count, entries);
  return Counted{.id = words[2], .entries = entries, .words = frame_words, .refused = false};
}

std::optional<VerdictTally::Counted> VerdictTally::next_by_library(
    std::span<const uint64_t> words) {
  const auto frame_words = sluicegate::frame_words(words);
  if (!frame_words || *frame_words > words.size()) return std::nullopt;
  const sluicegate::Answer answer = sluicegate::decode(words.first(*frame_words));
  Counted counted{.id = id_of(answer), .entries = 0, .words = *frame_words, .refused = false};
  ++library_frames_;
  if (const auto* verdicts = std::get_if<sluicegate::Verdicts>(&answer)) {
    const auto bytes = verdicts->verdicts.bytes();
    counted.entries = verdicts->verdicts.size();
    count_bytes(bytes.data(), bytes.size(), counted.entries);
  } else if (const auto* refusal = std::get_if<sluicegate::Refusal>(&answer)) {
    if (refusal->id == 0) throw sluicegate::Refused(refusal->code, std::string{refusal->text});
    add_refusal(refusal->text);
    counted.refused = true;
  } else if (std::holds_alternative<sluicegate::GoAway>(answer)) {
    throw sluicegate::ConnectionLost("the server shuts down");
  } else {
    throw sluicegate::ProtocolError("the server sent an answer that was not asked for");
  }
  return counted;
}

}  // namespace sluice::load
