// Lays out one client frame at the end of the output exactly as the library's builder would, but
// without it.
// Flow:   the constructor writes table, ClientFrame and an empty body; set() and add_list() fill
//         the body, in the schema's order.
// Shape:  one segment; structs in full size, each list behind the last (docs/protocol.md). The
//         caller passes the frame's size in advance, so the frame is written directly into the
//         output.
// Units:  words of 8 bytes unless named otherwise; little-endian, as all machines we run on.
// Lives:  the result of add_list() is valid until the output grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace sluicegate {

constexpr size_t words_for(size_t bytes) noexcept {
  return (bytes + 7) / 8;
}

// A list of `count` elements of T.
template <typename T>
constexpr size_t list_words(size_t count) noexcept {
  return words_for(count * sizeof(T));
}

class FrameLayout {
 public:
  // Words of a struct's data, and its pointers.
  struct Shape {
    uint16_t data_words;
    uint16_t pointers;
    constexpr size_t words() const noexcept { return size_t{data_words} + pointers; }
  };

  // `lists_words` is the exact size of all lists together.
  FrameLayout(std::vector<uint64_t>& out, uint64_t id, uint16_t kind, Shape body,
              size_t lists_words)
      : FrameLayout{out, id, kind, body.words() + lists_words} {
    words_[body_pointer_at] = struct_pointer(body);
    body_data_at_ = head_words;
    body_pointers_at_ = head_words + body.data_words;
    next_ = head_words + body.words();
  }

  // A frame without a body.
  FrameLayout(std::vector<uint64_t>& out, uint64_t id, uint16_t kind)
      : FrameLayout{out, id, kind, 0} {}

  // A field of the body, `offset_bytes` into its data.
  template <typename T>
  void set(size_t offset_bytes, T value) noexcept {
    auto* data = reinterpret_cast<std::byte*>(words_ + body_data_at_);
    std::memcpy(data + offset_bytes, &value, sizeof value);
  }

  // Room for the elements of the body's list `pointer`, all zero.
  template <typename T>
  T* add_list(size_t pointer, size_t count) {
    if (next_ + list_words<T>(count) > size_words_) {
      throw std::logic_error("a frame's size was computed too small");
    }
    const size_t at = body_pointers_at_ + pointer;
    words_[at] = (next_ - at - 1) << 2 | list_tag | uint64_t{element_code<T>()} << 32 |
                 uint64_t{count} << 35;
    auto* elements = reinterpret_cast<T*>(words_ + next_);
    next_ += list_words<T>(count);
    return elements;
  }

 private:
  static constexpr size_t root_at = 1, id_at = 2, kind_at = 3, body_pointer_at = 4, head_words = 5;
  static constexpr Shape client_frame{2, 1};
  static constexpr uint64_t list_tag = 1;

  FrameLayout(std::vector<uint64_t>& out, uint64_t id, uint16_t kind, size_t words_behind_head)
      : size_words_{head_words + words_behind_head} {
    const size_t begin = out.size();
    out.resize(begin + size_words_);
    words_ = out.data() + begin;
    words_[0] = uint64_t{size_words_ - 1} << 32;  // one segment: its count minus one is 0
    words_[root_at] = struct_pointer(client_frame);
    words_[id_at] = id;
    words_[kind_at] = kind;
  }

  // To a struct that lies right behind its pointer.
  static constexpr uint64_t struct_pointer(Shape shape) noexcept {
    return uint64_t{shape.data_words} << 32 | uint64_t{shape.pointers} << 48;
  }

  template <typename T>
  static constexpr uint8_t element_code() noexcept {
    static_assert(sizeof(T) <= 8);
    return sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : sizeof(T) == 4 ? 4 : 5;
  }

  size_t size_words_;
  uint64_t* words_ = nullptr;
  size_t body_data_at_ = 0;
  size_t body_pointers_at_ = 0;
  size_t next_ = 0;  // where the next list begins
};

}  // namespace sluicegate
