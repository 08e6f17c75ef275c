// Reads the columns and fields of one struct with the Cap'n Proto library.
// Flow:   read_body() of capnp_codec_decode.cpp -> read_request() -> ColumnReader.
// Errors: a malformed frame causes a kj exception, which decode() catches.
// Lives:  within one decode(); columns point into the frame.
#pragma once

#include <capnp/any.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "wire/column.hpp"

namespace sluice::wire {

template <typename T>
constexpr capnp::ElementSize element_size() noexcept {
  if constexpr (sizeof(T) == 1) return capnp::ElementSize::BYTE;
  if constexpr (sizeof(T) == 2) return capnp::ElementSize::TWO_BYTES;
  if constexpr (sizeof(T) == 4) return capnp::ElementSize::FOUR_BYTES;
  if constexpr (sizeof(T) == 8) return capnp::ElementSize::EIGHT_BYTES;
}

// Collects the columns of one struct. The library checks every pointer and bound, but would accept
// a list of structs or of another width as a column, and its raw bytes mean something else.
class ColumnReader {
 public:
  template <typename StructReader>
  explicit ColumnReader(StructReader reader)
      : data_(capnp::AnyStruct::Reader(reader).getDataSection()),
        pointers_(capnp::AnyStruct::Reader(reader).getPointerSection()) {}

  template <typename T>
  Column<T> column(uint32_t pointer) {
    if (pointer >= pointers_.size()) return {};  // an older peer's struct ends before it
    const capnp::AnyPointer::Reader field = pointers_[pointer];
    const capnp::PointerType type = field.getPointerType();
    if (type == capnp::PointerType::NULL_) return {};
    if (type != capnp::PointerType::LIST) return reject_type<T>();

    const auto list = field.getAs<capnp::AnyList>();
    if (list.getElementSize() != element_size<T>()) return reject_type<T>();
    return {reinterpret_cast<const T*>(list.getRawBytes().begin()), list.size()};
  }

  std::string_view bytes(uint32_t pointer) {
    const Column<uint8_t> blob = column<uint8_t>(pointer);
    return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  }

  // Zero when an older peer's struct ends before it; a bool is the lowest bit.
  template <typename T>
  T number(size_t byte) const noexcept {
    T value{};
    if (byte + sizeof(T) > data_.size()) return value;
    if constexpr (std::is_same_v<T, bool>) return (data_[byte] & 1) != 0;
    std::memcpy(&value, data_.begin() + byte, sizeof value);
    return value;
  }

  bool types_match() const noexcept { return types_match_; }

 private:
  template <typename T>
  Column<T> reject_type() noexcept {
    types_match_ = false;
    return {};
  }

  capnp::Data::Reader data_;
  capnp::List<capnp::AnyPointer>::Reader pointers_;
  bool types_match_ = true;
};

}  // namespace sluice::wire
