// A sender of frames that lie in memory, prepared before the clock started: the socket's part of
// it.
// Flow:   ask() of the derived class -> queue() -> flush(); take_answers() -> receive().
// Errors: sluicegate::ConnectionLost.
// Lives:  the socket's owner and the frames outlive it; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "load/sender.hpp"

namespace sluice::load {

class SocketSender : public Sender {
 public:
  bool flush() final;
  bool has_answers() const final { return false; }

  uint32_t frames_in_flight() const noexcept final { return in_flight_; }
  sluicegate::Traffic traffic() const noexcept final { return traffic_; }
  int native_handle() const noexcept final { return socket_; }
  uint32_t epoll_events() const noexcept final;

 protected:
  // Never has more than `window` frames in flight.
  SocketSender(int socket, uint32_t window) noexcept : socket_{socket}, window_{window} {}

  bool is_window_full() const noexcept { return in_flight_ == window_; }
  uint32_t window() const noexcept { return window_; }
  // Frames that lie next to each other are sent together; others only after a flush: false.
  bool queue(std::span<const std::byte> frame) noexcept;
  void end_frame() noexcept { --in_flight_; }

  // How many bytes have come; nothing: none now. Fewer than there is room for: the socket is empty,
  // or it will raise another event.
  std::optional<size_t> receive(std::span<std::byte> room);

 private:
  const int socket_;
  const uint32_t window_;
  uint32_t in_flight_ = 0;
  std::span<const std::byte> unsent_;  // frames next to each other
  sluicegate::Traffic traffic_;
};

}  // namespace sluice::load
