#include "load/socket_sender.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "load/system_error.hpp"

namespace sluice::load {

// Edge-triggered: after each event the sender reads and writes until nothing is left.
uint32_t SocketSender::epoll_events() const noexcept {
  return EPOLLIN | EPOLLOUT | EPOLLET;
}

bool SocketSender::queue(std::span<const std::byte> frame) noexcept {
  if (unsent_.empty()) {
    unsent_ = frame;
  } else if (unsent_.data() + unsent_.size() == frame.data()) {
    unsent_ = {unsent_.data(), unsent_.size() + frame.size()};
  } else {
    return false;
  }
  ++in_flight_;
  return true;
}

bool SocketSender::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    ++traffic_.system_calls;
    if (sent > 0) {
      unsent_ = unsent_.subspan(static_cast<size_t>(sent));
      traffic_.bytes_sent += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      throw_errno("sending failed");
    }
  }
  return true;
}

std::optional<size_t> SocketSender::receive(std::span<std::byte> room) {
  for (;;) {
    const ssize_t got = recv(socket_, room.data(), room.size(), 0);
    ++traffic_.system_calls;
    if (got > 0) {
      traffic_.bytes_received += static_cast<uint64_t>(got);
      return static_cast<size_t>(got);
    }
    if (got == 0) throw sluicegate::ConnectionLost("the server closed a connection");
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw_errno("receiving failed");
  }
}

}  // namespace sluice::load
