// Whatever has a socket to another node.
// Flow:   Io's events of the socket -> on_event(); after mark_dirty() -> flush(), at the end of the
//         turn.
#pragma once

#include "io/io.hpp"

namespace sluice::peer {

class SocketUser {
 public:
  SocketUser() = default;
  virtual ~SocketUser() = default;
  SocketUser(const SocketUser&) = delete;
  SocketUser& operator=(const SocketUser&) = delete;

  virtual void on_event(const io::Event& event) noexcept = 0;
  virtual void flush() noexcept = 0;

 private:
  friend struct Context;
  bool is_dirty_ = false;
};

}  // namespace sluice::peer
