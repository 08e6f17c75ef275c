// The two directions of a connection, independent of each other: one thread may write while
// another reads. Part of Connection and Client.
// Flow:   encode() -> FrameWriter::buffer() -> write_some() -> socket
//         socket -> FrameReader::read_some() -> next_frame() -> decode()
// Shape:  sockets are non-blocking; neither class waits or owns its socket.
// Units:  frames are whole 8-byte words, segment table included.
// Errors: ConnectionLost when the socket fails; ProtocolError for bytes that are no frame.
// Lives:  a frame is valid until the next read_some().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluicegate {

class Platform;

// The traffic of a connection since it was opened.
struct Traffic {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t system_calls = 0;  // sends, receives and waits
};

class FrameWriter {
 public:
  // `peer` names the server in errors.
  explicit FrameWriter(std::string peer) : peer_{std::move(peer)} {}

  // The buffer that frames are encoded into, behind those that are not written yet.
  std::vector<uint64_t>& buffer() noexcept { return output_; }

  // Writes as much as the socket takes; true when nothing is left.
  bool write_some(Platform& platform, int socket, Traffic& traffic);

 private:
  void drop_written();

  std::string peer_;
  std::vector<uint64_t> output_;
  size_t begin_bytes_ = 0;  // all bytes before were written
};

class FrameReader {
 public:
  using Frame = std::span<const uint64_t>;

  explicit FrameReader(std::string peer) : peer_{std::move(peer)} {}

  // Reads what the socket holds now; false when that is nothing.
  bool read_some(Platform& platform, int socket, Traffic& traffic);
  // The next complete frame; drops the one before it.
  std::optional<Frame> next_frame();
  bool has_frame() const { return whole_frame().has_value(); }

 private:
  std::optional<Frame> whole_frame() const;
  void make_room();

  std::string peer_;
  std::vector<uint64_t> input_;
  size_t begin_bytes_ = 0;  // whole words; all frames before were returned
  size_t end_bytes_ = 0;
};

}  // namespace sluicegate
