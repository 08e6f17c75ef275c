// The bytes of one connection: received ones that are not parsed yet, output, and how it ends.
// Flow:   Io events -> session (through unparsed bytes) -> output -> flush() -> Io::send().
// Shape:  open -> finishing (flush, then end our side, then wait for the peer's end or a time-out)
//         -> closing (Io::close() was called) -> gone with Io's `closed`.
// Units:  bytes; milliseconds of monotonic time.
// Errors: a failed send or receive makes the connection `broken`: only close() is left.
// Lives:  memory is the ConnectionMemory's; one thread only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/limits.hpp"
#include "base/mapped_region.hpp"
#include "base/time.hpp"
#include "io/io.hpp"
#include "net/input_buffer.hpp"
#include "net/output_buffer.hpp"

namespace sluice::net {

// Address space for the buffers of every connection; pages are committed as they are used and freed
// when a connection falls idle.
class ConnectionMemory {
 public:
  explicit ConnectionMemory(uint32_t connections_max,
                            size_t output_bytes = limits::output_bytes(1));

  InputBuffer input(uint32_t index) const noexcept;
  OutputBuffer output(uint32_t index) const noexcept;
  // For each of its output buffers: what the session remembers of replies that are not sent yet.
  std::array<std::span<uint64_t>, 2> undelivered(uint32_t index) const noexcept;
  void discard(uint32_t index) noexcept;
  void discard_input(uint32_t index, size_t begin, size_t end) noexcept;
  uint64_t reserved_bytes() const noexcept { return region_.size(); }

 private:
  const size_t output_bytes_;  // of each of a connection's two output buffers
  const size_t buffers_bytes_ = limits::input_bytes + 2 * output_bytes_;
  const size_t bytes_each_ = buffers_bytes_ + 16 * size_t{limits::undelivered_words};
  base::MappedRegion region_;
};

class Connection {
 public:
  Connection(io::Io& io, io::SocketId socket, ConnectionMemory& memory) noexcept
      : Connection(io, socket, memory, socket.index) {}
  // `place`: of its buffers in the memory.
  Connection(io::Io& io, io::SocketId socket, ConnectionMemory& memory, uint32_t place) noexcept;
  ~Connection();  // after `closed` or `released`
  // The connection goes on with another session.
  Connection(Connection&& from) noexcept;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  io::SocketId socket() const noexcept { return socket_; }
  InputBuffer& input() noexcept { return input_; }
  const InputBuffer& input() const noexcept { return input_; }
  OutputBuffer& output() noexcept { return output_; }
  const OutputBuffer& output() const noexcept { return output_; }

  // The session stops reading while replies pile up.
  void start_reading() noexcept;
  void stop_reading() noexcept;
  bool reading() const noexcept { return reading_; }
  // What has arrived, while the session does not read; see Io::receive_now().
  std::optional<std::span<std::byte>> receive_now(size_t bytes_max) noexcept;

  // Replies that are promised but not written yet count as output, so that their room is certain.
  void reserve_output(size_t bytes) noexcept { reserved_output_bytes_ += bytes; }
  void release_output(size_t bytes) noexcept;
  size_t reserved_output_bytes() const noexcept { return reserved_output_bytes_; }
  bool output_over_high() const noexcept;
  bool output_under_low() const noexcept;

  // Hands the written output to the kernel, one send at a time.
  void flush(int64_t now_ms) noexcept;
  void on_sent(int32_t result) noexcept;
  int64_t send_started_ms() const noexcept { return send_started_ms_; }  // while one is in flight

  // Sends what is written, then ends our side of the stream; bytes that still come are dropped.
  void finish() noexcept;
  bool finishing() const noexcept { return finishing_; }
  // When our side ended, and the peer's time to end its own began; base::never_ms: not yet.
  int64_t finished_ms() const noexcept { return finished_ms_; }

  void on_end_of_stream() noexcept { peer_finished_ = true; }
  void on_failed() noexcept { broken_ = true; }
  bool peer_finished() const noexcept { return peer_finished_; }
  bool broken() const noexcept { return broken_; }

  // Both sides have ended, or the connection is broken.
  bool ready_to_close() const noexcept;
  void close() noexcept;
  bool closing() const noexcept { return closing_; }

  // Frees memory when the connection is idle after a large exchange.
  void trim() noexcept;
  // Frees what bytes that came at once have touched, but for those that are still to be parsed. No
  // entry of a turn may point at what was received.
  void trim_input() noexcept;

 private:
  bool holds_much() const noexcept;
  bool is_finished() const noexcept { return finished_ms_ != base::never_ms; }

  io::Io& io_;
  ConnectionMemory& memory_;
  const uint32_t place_;
  io::SocketId socket_;
  InputBuffer input_;
  OutputBuffer output_;
  size_t reserved_output_bytes_ = 0;
  int64_t send_started_ms_ = 0;
  int64_t finished_ms_ = base::never_ms;
  bool reading_ = false;
  bool finishing_ = false;
  bool peer_finished_ = false;
  bool broken_ = false;
  bool closing_ = false;
};

}  // namespace sluice::net
