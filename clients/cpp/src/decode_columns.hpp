// Functions that read frames of all kinds in place, and the readers of quota frames.
// Errors: ProtocolError, and kj exceptions, which end in decode().
#pragma once

#include <capnp/any.h>
#include <capnp/serialize.h>

#include <span>
#include <string>
#include <string_view>

#include "sluicegate.capnp.h"
#include "sluicegate/frames.hpp"

namespace sluicegate {

namespace schema = sluice::schema;

template <typename T>
constexpr capnp::ElementSize element_size = sizeof(T) == 8   ? capnp::ElementSize::EIGHT_BYTES
                                            : sizeof(T) == 4 ? capnp::ElementSize::FOUR_BYTES
                                            : sizeof(T) == 2 ? capnp::ElementSize::TWO_BYTES
                                                             : capnp::ElementSize::BYTE;

// A list's elements, in place. The library accepts a struct list here as well, but its raw bytes
// are no elements: refused.
template <typename T>
std::span<const T> column(typename capnp::List<T>::Reader list) {
  if (list.size() == 0) return {};
  const capnp::AnyList::Reader any = capnp::toAny(list);
  if (any.getElementSize() != element_size<T>) {
    throw ProtocolError("the server sent a column with a wrong element size");
  }
  return {reinterpret_cast<const T*>(any.getRawBytes().begin()), list.size()};
}

inline std::string_view text(capnp::Text::Reader from) {
  return {from.cStr(), from.size()};
}

template <typename Code>
CodeColumn<Code> code_column(capnp::Data::Reader bytes, size_t count) {
  if (bytes.size() != count && !(bytes.size() == 1 && count > 0)) {
    throw ProtocolError("the server sent " + std::to_string(bytes.size()) + " verdicts for " +
                        std::to_string(count) + " entries");
  }
  return {std::span<const uint8_t>{bytes.begin(), bytes.size()}, count};
}

// A detail column is absent, or has an element per entry.
template <typename T>
std::span<const T> detail_column(typename capnp::List<T>::Reader list, size_t count) {
  const std::span<const T> elements = column<T>(list);
  if (!elements.empty() && elements.size() != count) {
    throw ProtocolError("the server sent a detail column whose length differs from its verdicts");
  }
  return elements;
}

QuotaAnswers quota_answers(uint64_t id, schema::QuotaAnswers::Reader from);
UsageReply usage_reply(uint64_t id, schema::UsageReply::Reader from);

}  // namespace sluicegate
