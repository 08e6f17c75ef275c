// Lays out a Cap'n Proto frame of one segment front to back: each struct before its targets.
// Flow:   encode_*() -> FrameWriter -> bytes at the end of a connection's output buffer.
// Shape:  segment table (one word), root pointer (one word), then structs and lists in the order
//         in which they are added; a builder of the library writes the same bytes in that order.
// Units:  positions are words behind the segment table; field offsets are bytes in a struct.
// Errors: writing past `out` is our own bug: callers reserve the answer's *_bytes_max before.
// Lives:  a value on the encoder's stack; never allocates; clears only the bytes that it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "base/assert.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

// The two sections of a struct, in words.
struct StructShape {
  uint16_t data_words;
  uint16_t pointers;

  constexpr size_t bytes() const noexcept { return (size_t{data_words} + pointers) * word_bytes; }
};

class FrameWriter {
 public:
  // Where a struct lies in the frame.
  struct Struct {
    size_t data;
    size_t pointers;
  };

  static constexpr size_t head_bytes = 2 * word_bytes;  // segment table and root pointer

  explicit FrameWriter(std::span<std::byte> out) noexcept : out_(out) { clear(take(1), 1); }

  Struct add_root(StructShape shape) noexcept { return add_struct_at(0, shape); }

  Struct add_struct(Struct parent, size_t pointer, StructShape shape) noexcept {
    return add_struct_at(parent.pointers + pointer, shape);
  }

  template <typename T>
  void set(Struct in, size_t byte_offset, T value) noexcept {
    std::memcpy(at(in.data) + byte_offset, &value, sizeof(value));
  }

  // Adds a list of `count` numbers of type T and returns the place to write them. With a count of 0
  // the pointer stays null.
  template <typename T>
  std::byte* add_list(Struct parent, size_t pointer, size_t count) noexcept {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
    constexpr uint64_t size_code = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : sizeof(T) == 4 ? 4 : 5;
    if (count == 0) return nullptr;
    const size_t words = words_for(count * sizeof(T));
    const size_t target = take(words);
    clear(target + words - 1, 1);  // the padding; the caller writes all bytes before it
    point(parent.pointers + pointer, target, 1, size_code | count << 3);
    return at(target);
  }

  // A list of one field of each item.
  template <typename T, typename Item, typename Field>
  void add_column(Struct parent, size_t pointer, std::span<const Item> items,
                  Field field) noexcept {
    std::byte* next = add_list<T>(parent, pointer, items.size());
    for (const Item& item : items) {
      const T value = static_cast<T>(std::invoke(field, item));
      std::memcpy(next, &value, sizeof(value));
      next += sizeof(value);
    }
  }

  // Structs of equal shape, one after the other.
  struct StructList {
    size_t first;
    StructShape shape;

    Struct operator[](size_t index) const noexcept {
      const size_t data = first + index * (size_t{shape.data_words} + shape.pointers);
      return {data, data + shape.data_words};
    }
  };

  // With a count of 0 the pointer stays null.
  StructList add_structs(Struct parent, size_t pointer, size_t count, StructShape shape) noexcept {
    if (count == 0) return {0, shape};
    const size_t words = count * (size_t{shape.data_words} + shape.pointers);
    const size_t tag = take(1 + words);
    clear(tag, 1 + words);
    constexpr uint64_t composite_code = 7;
    point(parent.pointers + pointer, tag, 1, composite_code | words << 3);
    const uint64_t shape_and_count =
        count << 2 | uint64_t{shape.data_words} << 32 | uint64_t{shape.pointers} << 48;
    std::memcpy(at(tag), &shape_and_count, sizeof(shape_and_count));
    return {tag + 1, shape};
  }

  // The library reads a null Text as empty, so an empty one takes no room.
  void add_text(Struct parent, size_t pointer, std::string_view text) noexcept {
    if (text.empty()) return;
    std::memcpy(add_list<char>(parent, pointer, text.size() + 1), text.data(), text.size());
  }

  // Writes the segment table; returns the frame's size in bytes.
  size_t finish() noexcept {
    const uint64_t table = static_cast<uint64_t>(words_count_)
                           << 32;  // one segment: count - 1 is 0
    std::memcpy(out_.data(), &table, sizeof(table));
    return (1 + words_count_) * word_bytes;
  }

 private:
  std::byte* at(size_t word) noexcept { return out_.data() + (1 + word) * word_bytes; }

  size_t take(size_t words) noexcept {
    ASSERT((1 + words_count_ + words) * word_bytes <= out_.size());
    const size_t start = words_count_;
    words_count_ += words;
    return start;
  }

  void clear(size_t word, size_t words) noexcept { std::memset(at(word), 0, words * word_bytes); }

  Struct add_struct_at(size_t pointer_word, StructShape shape) noexcept {
    const size_t words = size_t{shape.data_words} + shape.pointers;
    const size_t target = take(words);
    clear(target, words);
    point(pointer_word, target, 0, shape.data_words | uint64_t{shape.pointers} << 16);
    return {target, target + shape.data_words};
  }

  // Targets lie behind their pointers, so that offsets are never negative.
  void point(size_t pointer_word, size_t target, uint64_t kind, uint64_t upper) noexcept {
    const uint64_t offset = target - (pointer_word + 1);
    const uint64_t pointer = kind | offset << 2 | upper << 32;
    std::memcpy(at(pointer_word), &pointer, sizeof(pointer));
  }

  std::span<std::byte> out_;
  size_t words_count_ = 0;
};

}  // namespace sluice::wire
