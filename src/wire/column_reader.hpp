// Finds the columns of one struct by the library, and what all of them are checked for.
// Flow:   decode_*() of capnp_codec_decode.cpp and capnp_codec_quota_decode.cpp.
// Errors: a malformed frame costs a kj exception, which ends in decode(); wrong values cost a
//         Checked.
// Lives:  within one decode(); columns point into the frame.
#pragma once

#include <capnp/any.h>

#include <cstdint>
#include <string_view>

#include "base/error_code.hpp"
#include "base/limits.hpp"
#include "base/result.hpp"
#include "wire/column.hpp"

namespace sluice::wire {

using Checked = tl::expected<void, ErrorCode>;

inline tl::unexpected<ErrorCode> refuse(ErrorCode code) noexcept {
  return tl::make_unexpected(code);
}

template <typename T>
constexpr capnp::ElementSize element_size() noexcept {
  if constexpr (sizeof(T) == 1) return capnp::ElementSize::BYTE;
  if constexpr (sizeof(T) == 2) return capnp::ElementSize::TWO_BYTES;
  if constexpr (sizeof(T) == 4) return capnp::ElementSize::FOUR_BYTES;
  if constexpr (sizeof(T) == 8) return capnp::ElementSize::EIGHT_BYTES;
}

// Collects the columns of one struct. The library checks every pointer and bound, but would let a
// list of structs or of another width pass for a column, whose raw bytes then mean something else.
class ColumnReader {
 public:
  template <typename StructReader>
  explicit ColumnReader(StructReader reader)
      : pointers_(capnp::AnyStruct::Reader(reader).getPointerSection()) {}

  template <typename T>
  Column<T> column(uint32_t pointer) {
    if (pointer >= pointers_.size()) return {};  // an older peer's struct ends before it
    const capnp::AnyPointer::Reader field = pointers_[pointer];
    const capnp::PointerType type = field.getPointerType();
    if (type == capnp::PointerType::NULL_) return {};
    if (type != capnp::PointerType::LIST) return wrong_kind<T>();

    const auto list = field.getAs<capnp::AnyList>();
    if (list.getElementSize() != element_size<T>()) return wrong_kind<T>();
    return {reinterpret_cast<const T*>(list.getRawBytes().begin()), list.size()};
  }

  std::string_view bytes(uint32_t pointer) {
    const Column<uint8_t> blob = column<uint8_t>(pointer);
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  bool all_of_right_kind() const noexcept { return right_kind_; }

 private:
  template <typename T>
  Column<T> wrong_kind() noexcept {
    right_kind_ = false;
    return {};
  }

  capnp::List<capnp::AnyPointer>::Reader pointers_;
  bool right_kind_ = true;
};

template <typename T>
bool absent_or_as_long(Column<T> column, size_t entries_count) noexcept {
  return column.empty() || column.size() == entries_count;
}

// No loop ends early, so that the compiler can do many numbers at once. The sizes are not too many.
inline bool sizes_add_up(Column<uint16_t> sizes, size_t bytes) noexcept {
  static_assert(uint64_t{limits::frame_entries_max} * UINT16_MAX <= UINT32_MAX);
  static_assert(uint64_t{limits::quota_calls_max} * limits::call_subjects_max * UINT16_MAX <=
                UINT32_MAX);
  uint32_t sum = 0;
  for (const uint16_t size : sizes) sum += size;
  return sum == bytes;
}

}  // namespace sluice::wire
