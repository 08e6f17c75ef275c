#include "shard/key_text.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::shard {
namespace {

constexpr uint64_t unit_bytes = KeyText::unit_bytes;
// One less than 2^32 units, so that no record begins at `none`.
constexpr uint64_t units_max = (uint64_t{1} << 32) - 1;

// A length is one byte; behind this one are two more of a long text.
constexpr uint8_t long_text = 0xFF;

constexpr size_t head_bytes(size_t text_bytes) noexcept {
  return text_bytes < long_text ? 1 : 1 + sizeof(uint16_t);
}

// A free record holds the reference of the next one.
constexpr uint32_t record_units(size_t text_bytes) noexcept {
  const size_t bytes = std::max(head_bytes(text_bytes) + text_bytes, sizeof(KeyText::Reference));
  return static_cast<uint32_t>((bytes + unit_bytes - 1) / unit_bytes);
}

// Lengths vary, and a record of one is not always of use for another: hence four times what the
// longest keys take, and never little. It is address space; unused pages cost nothing.
constexpr uint32_t arena_units(uint32_t keys_max, uint32_t key_bytes_max) noexcept {
  constexpr uint64_t slack = 4;
  constexpr uint64_t units_min = 64 * 1024 * 1024 / unit_bytes;
  const uint64_t wanted = slack * keys_max * record_units(key_bytes_max);
  return static_cast<uint32_t>(std::min(std::max(wanted, units_min), units_max));
}

}  // namespace

KeyText::KeyText(uint32_t keys_max, uint32_t key_bytes_max)
    : region_(arena_units(keys_max, key_bytes_max) * unit_bytes,
              "text of the keys (--max-keys, --max-key-bytes)"),
      free_(record_units(key_bytes_max) + 1, none),
      end_(arena_units(keys_max, key_bytes_max)) {
  ASSERT(key_bytes_max <= limits::key_bytes_max);
  region_.advise_huge();
}

std::byte* KeyText::record(Reference reference) const noexcept {
  DEBUG_ASSERT(reference < fresh_);
  return region_.data() + reference * unit_bytes;
}

KeyText::Reference KeyText::take_free(uint32_t units) noexcept {
  const Reference reference = free_[units];
  if (reference != none) std::memcpy(&free_[units], record(reference), sizeof(Reference));
  return reference;
}

void KeyText::put_free(Reference reference, uint32_t units) noexcept {
  std::memcpy(record(reference), &free_[units], sizeof(Reference));
  free_[units] = reference;
}

// Cuts a longer free record: the rest of it waits for shorter keys.
KeyText::Reference KeyText::cut_free(uint32_t units) noexcept {
  constexpr uint32_t rest_min = record_units(0);
  for (auto longer = units + rest_min; longer < free_.size(); ++longer) {
    const Reference reference = take_free(longer);
    if (reference == none) continue;
    put_free(reference + units, longer - units);
    return reference;
  }
  return none;
}

KeyText::Reference KeyText::store(std::string_view text) noexcept {
  const uint32_t units = record_units(text.size());
  ASSERT(units < free_.size());
  Reference reference = take_free(units);
  if (reference == none && end_ - fresh_ >= units) {
    reference = fresh_;
    fresh_ += units;
  }
  if (reference == none) reference = cut_free(units);
  if (reference == none) return none;
  std::byte* head = record(reference);
  if (text.size() < long_text) {
    *head = static_cast<std::byte>(text.size());
  } else {
    const auto text_bytes = static_cast<uint16_t>(text.size());
    *head = std::byte{long_text};
    std::memcpy(head + 1, &text_bytes, sizeof text_bytes);
  }
  std::memcpy(head + head_bytes(text.size()), text.data(), text.size());
  ++records_count_;
  return reference;
}

void KeyText::free(Reference reference) noexcept {
  const uint32_t units = record_units(text(reference).size());
  put_free(reference, units);
  if (--records_count_ == 0) begin_anew();
}

// Records are cut but never joined: only now is all of it one piece again.
void KeyText::begin_anew() noexcept {
  std::fill(free_.begin(), free_.end(), none);
  fresh_ = 0;
}

std::string_view KeyText::text(Reference reference) const noexcept {
  const std::byte* head = record(reference);
  auto text_bytes = static_cast<uint16_t>(*head);
  if (text_bytes == long_text) std::memcpy(&text_bytes, head + 1, sizeof text_bytes);
  return {reinterpret_cast<const char*>(head) + head_bytes(text_bytes), text_bytes};
}

}  // namespace sluice::shard
