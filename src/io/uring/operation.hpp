// The user data of a completion: the 64 bits that its submission carried.
// Shape:  63      56 55             32 31                 0
//         operation | generation      | index
//         Of a socket: its slot. Of a listener: its id. Never a pointer: that of a late
//         completion would point to something else.
#pragma once

#include <cstdint>

#include "io/socket_table.hpp"

namespace sluice::io {

enum class Operation : uint8_t {
  accept = 1,
  cancel_accept,
  connect,
  receive,
  cancel_receive,
  watch,  // one poll for the peer's hang-up, while nothing is received
  send,
  cancel_all,  // of a socket that is being closed or released
  wake,
  finish,  // of the ring itself
};

struct OperationTag {
  Operation operation;
  uint32_t generation = 0;
  uint32_t index = 0;
};

constexpr uint64_t pack(OperationTag tag) noexcept {
  return uint64_t{static_cast<uint8_t>(tag.operation)} << 56 |
         uint64_t{tag.generation & generation_mask} << 32 | tag.index;
}

constexpr OperationTag unpack(uint64_t user_data) noexcept {
  return {.operation = static_cast<Operation>(user_data >> 56),
          .generation = static_cast<uint32_t>(user_data >> 32) & generation_mask,
          .index = static_cast<uint32_t>(user_data)};
}

}  // namespace sluice::io
