// Functions that lay out frames of all kinds: keys, and columns of numbers.
// Errors: LimitExceeded for columns that do not fit together.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frame_layout.hpp"
#include "sluicegate.capnp.h"
#include "sluicegate/error.hpp"

namespace sluicegate {

namespace schema = sluice::schema;

template <typename Struct>
constexpr FrameLayout::Shape shape_of{Struct::_capnpPrivate::dataWordSize,
                                      Struct::_capnpPrivate::pointerCount};

constexpr size_t keys_at = 0;  // of every struct that has keys

using FrameKind = schema::ClientFrame::Which;

template <typename Struct>
FrameLayout begin_frame(std::vector<uint64_t>& out, uint64_t id, FrameKind kind,
                        size_t lists_words) {
  return {out, id, static_cast<uint16_t>(kind), shape_of<Struct>, lists_words};
}

inline void require_column(size_t column_size, size_t entries_count, const char* column) {
  if (column_size == 0 || column_size == entries_count) return;
  throw LimitExceeded("the column " + std::string{column} + " has " + std::to_string(column_size) +
                      " elements for " + std::to_string(entries_count) + " entries");
}

inline size_t key_bytes_sum(std::span<const std::string_view> keys) {
  size_t sum = 0;
  size_t longest = 0;
  for (const std::string_view key : keys) {
    sum += key.size();
    longest = std::max(longest, key.size());
  }
  if (longest > UINT16_MAX) throw LimitExceeded("a key is longer than 65535 bytes");
  return sum;
}

inline size_t keys_words(size_t key_bytes, size_t count) {
  return list_words<char>(key_bytes) + list_words<uint16_t>(count);
}

template <typename Part>
void copy_ends(char* to, std::string_view from) noexcept {
  Part first, last;
  std::memcpy(&first, from.data(), sizeof first);
  std::memcpy(&last, from.data() + from.size() - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + from.size() - sizeof last, &last, sizeof last);
}

// Most keys are short: two moves that may overlap cost less than a call.
inline void copy_key(char* to, std::string_view key) noexcept {
  struct Sixteen {
    uint64_t words[2];
  };
  if (key.size() >= 8 && key.size() <= 16) return copy_ends<uint64_t>(to, key);
  if (key.size() > 16 && key.size() <= 32) return copy_ends<Sixteen>(to, key);
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
}

// The bytes of the texts at `pointer`, their sizes behind it.
inline void add_texts(FrameLayout& frame, size_t pointer, std::span<const std::string_view> texts,
                      size_t text_bytes) {
  char* at = frame.add_list<char>(pointer, text_bytes);
  auto* sizes = frame.add_list<uint16_t>(pointer + 1, texts.size());
  for (const std::string_view text : texts) {
    copy_key(at, text);
    at += text.size();
    *sizes++ = static_cast<uint16_t>(text.size());
  }
}

inline void add_keys(FrameLayout& frame, std::span<const std::string_view> keys, size_t key_bytes) {
  add_texts(frame, keys_at, keys, key_bytes);
}

// An absent column stays a null pointer.
template <typename T>
void add_column(FrameLayout& frame, size_t pointer, std::span<const T> from) {
  if (from.empty()) return;
  std::memcpy(frame.add_list<T>(pointer, from.size()), from.data(), from.size_bytes());
}

}  // namespace sluicegate
