#include "wire/usual_frame.hpp"

#include <sluicegate.capnp.h>

#include <cstring>
#include <type_traits>

namespace sluice::wire {
namespace {

// Places in words behind the segment table, as everything lies in a usual frame.
namespace at {
constexpr size_t root = 0, id = 1, kind = 2, body_pointer = 3, body = 4, columns = 5;
}

// A pointer to a struct that lies right behind it.
template <typename Struct>
constexpr uint64_t pointer_to = uint64_t{Struct::_capnpPrivate::dataWordSize} << 32 |
                                uint64_t{Struct::_capnpPrivate::pointerCount} << 48;
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

// Follows the column pointers one after the other.
class Columns {
 public:
  Columns(const Words& words, size_t first_pointer, size_t pointers_count) noexcept
      : words_(words), pointer_(first_pointer), end_(first_pointer + pointers_count) {}

  template <typename T>
  Column<T> next() noexcept {
    constexpr uint64_t list_kind = 1;
    constexpr uint64_t size_code = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : 4;
    const uint64_t pointer = words_[pointer_++];
    if (pointer == 0) return {};
    const uint64_t begin = pointer_ + (pointer >> 2 & 0x3FFF'FFFF);
    const uint64_t count = pointer >> 35;
    const uint64_t end = begin + words_for(count * sizeof(T));
    const bool usual = (pointer & 3) == list_kind && (pointer >> 32 & 7) == size_code &&
                       begin >= end_ && end <= words_.count();
    if (!usual) {
      usual_ = false;
      return {};
    }
    end_ = end;
    return {reinterpret_cast<const T*>(words_.data(begin)), count};
  }

  bool all_usual() const noexcept { return usual_; }

 private:
  const Words& words_;
  size_t pointer_;
  uint64_t end_;  // of what was read: a column may begin here
  bool usual_ = true;
};

AcquireTerms read_terms(uint64_t data, Columns& columns) noexcept {
  return {.costs = columns.next<uint32_t>(),
          .max_requests = columns.next<uint32_t>(),
          .max_requests_in_queue = columns.next<uint32_t>(),
          .entry_flags = columns.next<uint8_t>(),
          .wait_limit_ms = static_cast<uint32_t>(data >> 32),
          .details = static_cast<uint8_t>(data),
          .may_wait = (data >> 8 & schema::FRAME_MAY_WAIT) != 0};
}

AcquireRequest read(std::type_identity<schema::Acquire>, uint64_t data, Columns& columns) noexcept {
  const Column<uint8_t> keys = columns.next<uint8_t>();
  const Column<uint16_t> sizes = columns.next<uint16_t>();
  return {{read_terms(data, columns)},
          {reinterpret_cast<const char*>(keys.data()), keys.size()},
          sizes};
}

AcquireByHandleRequest read(std::type_identity<schema::AcquireByHandle>, uint64_t data,
                            Columns& columns) noexcept {
  const Column<uint32_t> handles = columns.next<uint32_t>();
  return {{read_terms(data, columns)}, handles};
}

template <typename Struct>
std::optional<UsualFrame> read_body(const Words& words) noexcept {
  static_assert(Struct::_capnpPrivate::dataWordSize == 1);
  constexpr size_t pointers = Struct::_capnpPrivate::pointerCount;
  if (words[at::body_pointer] != pointer_to<Struct> || words.count() < at::columns + pointers) {
    return std::nullopt;
  }
  const uint64_t data = words[at::body];
  Columns columns(words, at::columns, pointers);
  const auto request = read(std::type_identity<Struct>{}, data, columns);
  if (!columns.all_usual()) return std::nullopt;
  return UsualFrame{words[at::id], static_cast<uint8_t>(data >> 8), request};
}

}  // namespace

std::optional<UsualFrame> read_usual_frame(Frame frame) noexcept {
  const Words words(frame);
  uint32_t last_segment;
  std::memcpy(&last_segment, frame.data(), sizeof last_segment);
  if (last_segment != 0 || words.count() <= at::columns ||
      words[at::root] != pointer_to<schema::ClientFrame>) {
    return std::nullopt;
  }
  // The number alone: what stands behind it in the word is a newer peer's.
  const auto kind = static_cast<uint16_t>(words[at::kind]);
  if (kind == schema::ClientFrame::ACQUIRE) return read_body<schema::Acquire>(words);
  if (kind == schema::ClientFrame::ACQUIRE_BY_HANDLE) {
    return read_body<schema::AcquireByHandle>(words);
  }
  return std::nullopt;
}

}  // namespace sluice::wire
