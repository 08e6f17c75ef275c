// When a native session takes a frame, and what takes it: a row of the table in
// native_session_frames.cpp, which has one for each kind.
// Flow:   wire::decode() -> the kind's FrameRule -> its admission -> its handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/capnp_codec.hpp"

namespace sluice::session {

class NativeSession;

// A frame that was decoded, and is to be taken.
struct Arrival {
  uint64_t id;
  size_t frame_bytes;
  const decltype(wire::ClientRequest::body)& body;
};

enum class Phase : uint8_t {
  after_hello,  // before it: helloExpected
  any,
};

enum class Order : uint8_t {
  any,
  after_batch,        // the entries of this loop iteration that this shard decides come first
  after_all_decided,  // so does every earlier frame, also one that other shards decide
};

// What it needs room for, before it is taken; without room the session is held.
enum class Room : uint8_t {
  none,
  batch,        // its entries in the loop iteration's arrays
  handles,      // its keys or handles in what may be interned or forgotten in a loop iteration
  shard_query,  // one of the queries and batches of quota calls that may be under way
  by_handler,   // what it needs depends on more than its columns
};

enum class IdRule : uint8_t {
  by_handler,  // NativeSession::admit(), as the frame becomes outstanding; or it is any id
  unused,      // else idInUse
};

struct Admission {
  Phase phase = Phase::after_hello;
  Order order = Order::any;
  Room room = Room::none;
  IdRule id = IdRule::by_handler;
};

// What a frame puts into the loop iteration's arrays.
struct FrameExtent {
  uint32_t entries_count;
  size_t key_bytes;
};

struct FrameRule {
  size_t kind;  // the index of its request in ClientRequest::body
  Admission admission;
  FrameExtent (*extent)(const Arrival& arrival) noexcept;
  // False: not now; the frame is looked at again when the session is resumed.
  bool (*handle)(NativeSession& session, const Arrival& arrival) noexcept;
  // After GoAway, instead; null: it is handled as before.
  void (*refuse)(NativeSession& session, const Arrival& arrival) noexcept;
};

}  // namespace sluice::session
