#include "wire/standard_frame.hpp"

#include <sluicegate.capnp.h>

#include <array>
#include <cstring>

#include "wire/request_layout.hpp"

namespace sluice::wire {
namespace {

// Positions in the standard layout, in words behind the segment table.
namespace at {
constexpr size_t root = 0, id = 1, kind = 2, body_pointer = 3, body = 4;
}

constexpr size_t pointers_shift = 48;

// A pointer to a struct right behind it.
template <typename Struct>
constexpr uint64_t pointer_to = uint64_t{Struct::_capnpPrivate::dataWordSize} << 32 |
                                uint64_t{Struct::_capnpPrivate::pointerCount} << pointers_shift;
static_assert(pointer_to<schema::ClientFrame> == (uint64_t{2} << 32 | uint64_t{1} << 48));

class Words {
 public:
  explicit Words(Frame frame) noexcept
      : bytes_(frame.data() + word_bytes), count_(frame.size() / word_bytes - 1) {}

  size_t count() const noexcept { return count_; }
  uint64_t operator[](size_t word) const noexcept {
    uint64_t value;
    std::memcpy(&value, bytes_ + word * word_bytes, sizeof value);
    return value;
  }
  const std::byte* data(size_t word) const noexcept { return bytes_ + word * word_bytes; }

 private:
  const std::byte* bytes_;
  size_t count_;
};

// One struct, as a source of read_request(): follows the column pointers one after the other. One
// that is not whole lacks pointers at its end.
template <typename Struct, bool is_whole>
class StandardStruct {
 public:
  static constexpr size_t data_words = Struct::_capnpPrivate::dataWordSize;
  static constexpr size_t first_pointer = at::body + data_words;

  // The frame has the struct's data and so many pointers.
  StandardStruct(const Words& words, size_t pointers_count) noexcept
      : words_(words), pointers_count_(pointers_count), end_(first_pointer + pointers_count) {}

  template <typename T>
  Column<T> column(size_t index) noexcept {
    if (!is_whole && index >= pointers_count_) return {};
    constexpr uint64_t list_kind = 1;
    constexpr uint64_t size_code = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : sizeof(T) == 4 ? 4 : 5;
    const size_t behind = first_pointer + index + 1;
    const uint64_t pointer = words_[behind - 1];
    if (pointer == 0) return {};
    const uint64_t begin = behind + (pointer >> 2 & 0x3FFF'FFFF);
    const uint64_t count = pointer >> 35;
    const uint64_t end = begin + words_for(count * sizeof(T));
    const bool is_standard = (pointer & 3) == list_kind && (pointer >> 32 & 7) == size_code &&
                             begin >= end_ && end <= words_.count();
    if (!is_standard) {
      standard_layout_ = false;
      return {};
    }
    end_ = end;
    return {reinterpret_cast<const T*>(words_.data(begin)), count};
  }

  std::string_view bytes(size_t index) noexcept {
    const Column<uint8_t> blob = column<uint8_t>(index);
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  template <typename T>
  T number(size_t byte) const noexcept {
    return static_cast<T>(words_[at::body + byte / word_bytes] >> byte % word_bytes * 8);
  }

  bool has_standard_layout() const noexcept { return standard_layout_; }

 private:
  const Words& words_;
  size_t pointers_count_;
  uint64_t end_;  // of the words read: a column may begin here
  bool standard_layout_ = true;
};

template <typename Request, bool is_whole>
std::optional<ClientRequest> read_body(const Words& words, size_t pointers_count) noexcept {
  using Body = StandardStruct<typename Layout<Request>::Struct, is_whole>;
  if (words.count() < Body::first_pointer + pointers_count) return std::nullopt;
  Body body(words, pointers_count);
  const auto request = read_request<Request>(body);
  if (!body.has_standard_layout()) return std::nullopt;
  return ClientRequest{words[at::id], request};
}

template <typename Request>
std::optional<ClientRequest> read_body(const Words& words) noexcept {
  constexpr uint64_t whole = pointer_to<typename Layout<Request>::Struct>;
  constexpr size_t pointers_max = whole >> pointers_shift;
  const uint64_t pointer = words[at::body_pointer];
  if (pointer == whole) return read_body<Request, true>(words, pointers_max);
  const size_t pointers_count = pointer >> pointers_shift;
  const bool lacks_pointers_only = (pointer ^ whole) << (64 - pointers_shift) == 0;
  if (!lacks_pointers_only || pointers_count > pointers_max) return std::nullopt;
  return read_body<Request, false>(words, pointers_count);
}

template <size_t kind>
std::optional<ClientRequest> read_kind(const Words& words) noexcept {
  using Request = RequestOfKind<kind>;
  if constexpr (Layout<Request>::on_fast_path) return read_body<Request>(words);
  return std::nullopt;
}

using ReadKind = std::optional<ClientRequest> (*)(const Words& words) noexcept;
template <size_t... kinds>
consteval std::array<ReadKind, sizeof...(kinds)> readers_of(std::index_sequence<kinds...>) {
  return {read_kind<kinds>...};
}
constexpr auto readers = readers_of(RequestKinds{});

}  // namespace

std::optional<ClientRequest> read_standard_frame(Frame frame) noexcept {
  const Words words(frame);
  uint32_t last_segment;
  std::memcpy(&last_segment, frame.data(), sizeof last_segment);
  if (last_segment != 0 || words.count() <= at::body ||
      words[at::root] != pointer_to<schema::ClientFrame>) {
    return std::nullopt;
  }
  // The kind is the lowest 16 bits; newer versions may use the rest of the word.
  const auto kind = static_cast<uint16_t>(words[at::kind]);
  return kind < readers.size() ? readers[kind](words) : std::nullopt;
}

}  // namespace sluice::wire
