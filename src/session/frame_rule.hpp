// The rules by which a native session accepts each kind of frame and passes it to its handler: a
// row each in the table of native_session_frames.cpp.
// Flow:   wire::decode() -> the kind's FrameRule -> its admission -> its handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "route/key_column.hpp"
#include "route/node_map.hpp"
#include "route/shard_message.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice::session {

class NativeSession;

struct DecodedFrame {
  uint64_t id;
  size_t frame_bytes;
  const decltype(wire::ClientRequest::body)& body;
};

enum class Phase : uint8_t {
  after_hello,  // before it: helloExpected
  any,
};

enum class Sender : uint8_t {
  any,
  node,  // with a secret, others get secretExpected
};

enum class Order : uint8_t {
  any,
  after_turn,         // this shard decides the entries of the turn first
  after_all_decided,  // and every other shard and node decides theirs of all earlier frames
  // One of several nodes: after_turn, so that no frame waits for a node that is slow or gone. A
  // server that is alone: after_all_decided.
  after_all_decided_if_alone,
};

// The room that a frame needs before it is handled; without it the session is held.
enum class Room : uint8_t {
  none,
  turn,         // its entries in the arrays of the turn
  handles,      // its keys or handles, of those that may be interned or forgotten in a turn
  shard_query,  // one of the queries and batches of quota calls that may be under way
  by_handler,   // the handler makes room: it depends on more than the columns
};

enum class IdRule : uint8_t {
  by_handler,  // NativeSession::admit(), as the frame becomes outstanding; or it is any id
  unused,      // else idInUse
};

struct Admission {
  Phase phase = Phase::after_hello;
  Sender sender = Sender::any;
  Order order = Order::any;
  Room room = Room::none;
  IdRule id = IdRule::by_handler;
};

// The part of a turn that a frame fills.
struct FrameExtent {
  uint32_t entries_count = 0;
  uint64_t work =
      0;  // beside what every frame takes; that of quota calls shows as they are decided
  route::KeyColumn keys;
  route::Form form = route::Form::detailed;
  route::Reach reach = route::Reach::fleet;  // `node`: another node has sent it
};

struct FrameRule {
  size_t kind;  // the index of its request in ClientRequest::body
  Admission admission;
  FrameExtent (*extent)(const DecodedFrame& frame) noexcept;
  // False: not now; the frame is handled again when the session is resumed.
  bool (*handle)(NativeSession& session, const DecodedFrame& frame) noexcept;
  // After GoAway, instead; null: it is handled as before.
  void (*refuse)(NativeSession& session, const DecodedFrame& frame) noexcept;
};

}  // namespace sluice::session
