// What UringIo knows of a socket beside SocketSlot: what is to be submitted, and what is under way.
#pragma once

#include <cstdint>

#include "io/receive_arming.hpp"
#include "io/slot_queue.hpp"
#include "io/socket_table.hpp"

namespace sluice::io {

struct UringSlot : SocketSlot {
  ReceiveArming arming;
  bool receive_due = false;  // to be submitted
  bool one_buffer = false;   // it receives no more than that
  bool cancel_due = false;
  bool send_due = false;
  bool connect_due = false;
  bool got_bytes = false;       // the receive in flight got bytes
  bool cancelling = false;      // a cancel of the receive has not been answered
  bool cancelling_all = false;  // close() or release() has begun to cancel
  bool watching = false;        // for the peer's hang-up
  uint32_t hang_up = 0;         // poll(2) bits that the watch reported
  uint32_t in_flight = 0;       // operations that still await their last completion
  SlotLink changed;
  SlotLink starved;
};

using UringSockets = SocketTable<UringSlot>;
using ChangedSlots = SlotQueue<UringSlot, &UringSlot::changed>;

}  // namespace sluice::io
