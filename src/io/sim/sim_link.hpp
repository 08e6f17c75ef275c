// One SimIo's end of a simulated TCP connection: the bytes under way in both directions and how
// each side ended. This SimIo is "the server", also where it has connected; "the client" is a
// SimClient, or the SimWire to another SimIo's end.
// Flow:   SimClient -> to_server -> SimIo's `received`; SimIo's send() -> to_client -> SimClient.
// Lives:  until the run's end, so that a client can look back at a connection the server closed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.hpp"

namespace sluice::io {

class ByteQueue {
 public:
  void push(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::span<const std::byte> view() const noexcept { return std::span(bytes_).subspan(head_); }
  size_t size() const noexcept { return bytes_.size() - head_; }
  bool empty() const noexcept { return size() == 0; }

  void pop(size_t count) noexcept {
    ASSERT(count <= size());
    head_ += count;
    if (head_ == bytes_.size()) clear();
  }
  void clear() noexcept {
    bytes_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  size_t head_ = 0;  // popped already
};

struct SimLink {
  ByteQueue to_server;  // arrived in the server's kernel, not yet delivered
  ByteQueue to_client;  // arrived at the client, not yet read
  bool accepted = false;
  bool refused = false;          // no listener
  bool established = false;      // the server's connect() has succeeded
  int32_t connect_failure = 0;   // or has failed: a negative errno
  bool client_finished = false;  // the client's end of stream stands behind `to_server`
  bool client_closed = false;    // bytes of the server are answered by a reset
  bool server_finished = false;  // the server's end of stream stands behind `to_client`
  bool server_closed = false;    // the server's side is gone; bytes of the client are lost
  bool released = false;         // the server's side is between two SimIos
  bool reset = false;            // both sides see it
  bool cut_by_network = false;   // ... and neither side caused it

  // Ends the connection at once: bytes that had arrived at the server and were not delivered are
  // lost.
  void abort() noexcept {
    reset = true;
    to_server.clear();
  }

  // Closes the server's side. Unread bytes make that a reset, as in Linux.
  void close_server_side() noexcept {
    if (!to_server.empty()) reset = true;
    to_server.clear();
    server_finished = true;
    server_closed = true;
  }
};

}  // namespace sluice::io
