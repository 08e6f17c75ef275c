// Every session of a worker, built in place at its socket's index.
// Shape:  address space for `sockets_max` sessions, their buffers and the keys they keep; pages are
//         committed when connections arrive.
// Errors: the constructor throws when the address space cannot be had.
// Lives:  a session lives from `accepted` to `closed`; one thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/mapped_region.hpp"
#include "io/io.hpp"
#include "net/connection.hpp"
#include "session/http2_session.hpp"
#include "session/http_session.hpp"
#include "session/native_session.hpp"

namespace sluice::server {

// In the order of the server's listening sockets.
inline constexpr io::ListenerId http_listener = 0;
inline constexpr io::ListenerId native_listener = 1;

class SessionTable {
 public:
  struct Bounds {
    uint32_t sockets_max;
    uint32_t key_bytes_max;
    uint32_t shards;     // of the whole process: answers about all of them need room
    uint32_t nodes = 1;  // in --instance-urls; likewise
  };
  explicit SessionTable(const Bounds& bounds);
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  session::Session& open_http(session::Context& context, io::Io& io, io::SocketId socket) noexcept;
  session::Session& open_native(session::Context& context, io::Io& io,
                                io::SocketId socket) noexcept;
  // The socket's session of HTTP/1.1 passes its connection on to one of HTTP/2.
  session::Http2Session& change_to_http2(io::SocketId socket) noexcept;
  void end(io::SocketId socket) noexcept;

  // Null when the socket has no session, or one of another generation.
  session::Session* find(io::SocketId socket) noexcept;
  session::Session* at(uint32_t index) noexcept { return slots()[index].session; }

  // The listener that accepted the connection of a session.
  io::ListenerId listener_of(io::SocketId socket) const noexcept {
    return slots()[socket.index].listener;
  }

  uint32_t open_count() const noexcept { return open_count_; }
  uint32_t index_end() const noexcept { return index_end_; }
  uint64_t reserved_bytes() const noexcept;

 private:
  static constexpr size_t session_bytes =
      std::max({sizeof(session::HttpSession), sizeof(session::Http2Session),
                sizeof(session::NativeSession)});

  struct Slot {
    session::Session* session;  // null: free
    io::ListenerId listener;
    alignas(64) std::byte storage[session_bytes];
  };

  Slot* slots() const noexcept { return reinterpret_cast<Slot*>(slots_.data()); }
  Slot& take(io::SocketId socket, io::ListenerId listener) noexcept;

  net::ConnectionMemory buffers_;
  base::MappedRegion slots_;
  base::MappedRegion keys_;
  base::MappedRegion heads_;
  base::MappedRegion pipelines_;
  const Bounds bounds_;
  uint32_t open_count_ = 0;
  uint32_t index_end_ = 0;  // behind the highest index that was ever used
};

}  // namespace sluice::server
