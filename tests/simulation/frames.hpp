// Native frames as a client sees them, built and read by the capnp library itself.
// Flow:   build_*() -> bytes for SimClient::write(); SimClient::read() -> take_frame().
// Units:  bytes.
// Errors: take_frame() throws what capnp throws: the server's frames must never be wrong.
#pragma once

#include <sluicegate.capnp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/entry.hpp"

namespace sluice::simulation {

using Bytes = std::vector<std::byte>;

struct AskedEntry {
  std::string key;
  api::Handle handle = api::no_handle;  // in place of the key, in a frame by handle
  uint32_t cost = 1;
  api::Overrides overrides;
  bool may_wait = false;
};

struct AskedFrame {
  uint64_t id = 0;
  std::vector<AskedEntry> entries;
  uint8_t details = 0;
  uint32_t wait_limit_ms = 0;
  bool all_may_wait = false;  // by the frame's flag; else by the entries' column
};

// With a small `first_segment_words` the frame has several segments.
using Fill = std::function<void(schema::ClientFrame::Builder)>;
Bytes build_frame(uint32_t first_segment_words, const Fill& fill);

void fill_acquire(schema::ClientFrame::Builder frame, const AskedFrame& asked);
void fill_acquire_by_handle(schema::ClientFrame::Builder frame, const AskedFrame& asked);
void fill_release(schema::ClientFrame::Builder frame, const AskedFrame& asked);

void fill_intern(schema::ClientFrame::Builder frame, uint64_t id,
                 const std::vector<std::string>& keys);
void fill_forget(schema::ClientFrame::Builder frame, uint64_t id,
                 const std::vector<api::Handle>& handles);

// Takes a whole frame off the front of `bytes` and calls `read` with it; false: it is not whole
// yet.
using Read = std::function<void(schema::ServerFrame::Reader)>;
bool take_frame(Bytes& bytes, const Read& read);

}  // namespace sluice::simulation
