#include "wire/standard_frame.hpp"

#include <sluicegate.capnp.h>

#include <cstring>
#include <type_traits>

namespace sluice::wire {
namespace {

// Places in words behind the segment table, as everything lies in a usual frame.
namespace at {
constexpr size_t root = 0, id = 1, kind = 2, body_pointer = 3, body = 4;
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
    constexpr uint64_t size_code = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 3 : sizeof(T) == 4 ? 4 : 5;
    const uint64_t pointer = words_[pointer_++];
    if (pointer == 0) return {};
    const uint64_t begin = pointer_ + (pointer >> 2 & 0x3FFF'FFFF);
    const uint64_t count = pointer >> 35;
    const uint64_t end = begin + words_for(count * sizeof(T));
    const bool standard = (pointer & 3) == list_kind && (pointer >> 32 & 7) == size_code &&
                          begin >= end_ && end <= words_.count();
    if (!standard) {
      standard_ = false;
      return {};
    }
    end_ = end;
    return {reinterpret_cast<const T*>(words_.data(begin)), count};
  }

  std::string_view next_bytes() noexcept {
    const Column<uint8_t> blob = next<uint8_t>();
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  bool all_standard() const noexcept { return standard_; }

 private:
  const Words& words_;
  size_t pointer_;
  uint64_t end_;  // of what was read: a column may begin here
  bool standard_ = true;
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

// Members are read in the order of their columns' pointers: that of braces.
EntrySubjects read_subjects(Columns& columns) noexcept {
  return {.subjects = columns.next_bytes(),
          .subject_sizes = columns.next<uint16_t>(),
          .subject_counts = columns.next<uint8_t>()};
}

EntryAmounts read_amounts(Columns& columns) noexcept {
  return {.requests = columns.next<uint32_t>(),
          .input_tokens = columns.next<uint64_t>(),
          .cached_input_tokens = columns.next<uint64_t>(),
          .output_tokens = columns.next<uint64_t>(),
          .costs = columns.next<uint64_t>()};
}

EntryAmounts read_estimates(Columns& columns) noexcept {
  return {.requests = columns.next<uint32_t>(),
          .input_tokens = columns.next<uint64_t>(),
          .cached_input_tokens = {},
          .output_tokens = columns.next<uint64_t>(),
          .costs = columns.next<uint64_t>()};
}

uint8_t flags_of(uint64_t data) noexcept {
  return static_cast<uint8_t>(data);
}

AcquireRequest read(std::type_identity<schema::Acquire>, const Words& words,
                    Columns& columns) noexcept {
  const std::string_view keys = columns.next_bytes();
  const Column<uint16_t> sizes = columns.next<uint16_t>();
  return {{read_terms(words[at::body], columns)}, keys, sizes};
}

AcquireByHandleRequest read(std::type_identity<schema::AcquireByHandle>, const Words& words,
                            Columns& columns) noexcept {
  const Column<uint32_t> handles = columns.next<uint32_t>();
  return {{read_terms(words[at::body], columns)}, handles};
}

ReserveRequest read(std::type_identity<schema::Reserve>, const Words& words,
                    Columns& columns) noexcept {
  const uint64_t data = words[at::body];
  return {{read_subjects(columns)},
          {read_estimates(columns)},
          columns.next_bytes(),
          columns.next<uint16_t>(),
          without_nul(columns.next_bytes()),
          static_cast<uint32_t>(data >> 32),
          static_cast<uint32_t>(words[at::body + 1]),
          flags_of(data)};
}

SettleRequest read(std::type_identity<schema::Settle>, const Words& words,
                   Columns& columns) noexcept {
  const Column<uint64_t> reservations = columns.next<uint64_t>();
  return {{read_amounts(columns)}, reservations, flags_of(words[at::body])};
}

CancelRequest read(std::type_identity<schema::Cancel>, const Words& words,
                   Columns& columns) noexcept {
  return {.reservations = columns.next<uint64_t>(), .flags = flags_of(words[at::body])};
}

ExtendRequest read(std::type_identity<schema::Extend>, const Words& words,
                   Columns& columns) noexcept {
  const uint64_t data = words[at::body];
  return {.reservations = columns.next<uint64_t>(),
          .lifetime_ms = static_cast<uint32_t>(data >> 32),
          .flags = flags_of(data)};
}

RecordRequest read(std::type_identity<schema::Record>, const Words& words,
                   Columns& columns) noexcept {
  return {{read_subjects(columns)}, {read_amounts(columns)}, flags_of(words[at::body])};
}

template <typename Struct>
std::optional<StandardFrame> read_body(const Words& words) noexcept {
  constexpr size_t pointers = Struct::_capnpPrivate::pointerCount;
  constexpr size_t first_pointer = at::body + Struct::_capnpPrivate::dataWordSize;
  if (words.count() < first_pointer + pointers || words[at::body_pointer] != pointer_to<Struct>) {
    return std::nullopt;
  }
  Columns columns(words, first_pointer, pointers);
  const auto request = read(std::type_identity<Struct>{}, words, columns);
  if (!columns.all_standard()) return std::nullopt;
  return StandardFrame{words[at::id], static_cast<uint8_t>(words[at::body] >> 8), request};
}

}  // namespace

std::optional<StandardFrame> read_standard_frame(Frame frame) noexcept {
  const Words words(frame);
  uint32_t last_segment;
  std::memcpy(&last_segment, frame.data(), sizeof last_segment);
  if (last_segment != 0 || words.count() <= at::body ||
      words[at::root] != pointer_to<schema::ClientFrame>) {
    return std::nullopt;
  }
  // The number alone: what stands behind it in the word is a newer peer's.
  switch (static_cast<uint16_t>(words[at::kind])) {
    case schema::ClientFrame::ACQUIRE:
      return read_body<schema::Acquire>(words);
    case schema::ClientFrame::ACQUIRE_BY_HANDLE:
      return read_body<schema::AcquireByHandle>(words);
    case schema::ClientFrame::RESERVE:
      return read_body<schema::Reserve>(words);
    case schema::ClientFrame::SETTLE:
      return read_body<schema::Settle>(words);
    case schema::ClientFrame::CANCEL:
      return read_body<schema::Cancel>(words);
    case schema::ClientFrame::EXTEND:
      return read_body<schema::Extend>(words);
    case schema::ClientFrame::RECORD:
      return read_body<schema::Record>(words);
    default:
      return std::nullopt;
  }
}

}  // namespace sluice::wire
