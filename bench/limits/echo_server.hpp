// Answers every item with the number it begins with: one thread, io_uring, multishot receives into
// provided buffers, one send in flight on each connection.
// Flow:   enter() -> received bytes -> the numbers in them -> the replies of a connection -> one
//         send per loop iteration for each connection that has replies.
// Units:  bytes.
// Errors: std::system_error when the kernel refuses a call.
// Lives:  created and used by one thread.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <span>
#include <vector>

#include "io/file_descriptor.hpp"
#include "io/uring/buffer_ring.hpp"
#include "io/uring/ring.hpp"

namespace sluice::limits_bench {

inline constexpr size_t reply_bytes = 4;

// Extracts the first 4 bytes of every item from a stream that may be cut anywhere.
class ItemNumbers {
 public:
  explicit ItemNumbers(size_t item_bytes) : item_bytes_(item_bytes) {}

  void append(std::span<const std::byte> received, std::vector<std::byte>& replies);

 private:
  std::span<const std::byte> append_part(std::span<const std::byte> received,
                                         std::vector<std::byte>& replies);

  size_t item_bytes_;
  size_t item_offset_ = 0;  // bytes of the current item received so far
};

class EchoServer {
 public:
  // A connection never has more than `unsent_bytes_max` of unsent replies.
  EchoServer(std::span<const int> sockets, size_t item_bytes, size_t unsent_bytes_max);

  // Serves until every client has shut down its side; throws when that takes longer.
  void run(uint64_t end_ns);

 private:
  struct Connection {
    int fd;
    ItemNumbers numbers;
    std::vector<std::byte> filling;  // replies made since
    std::vector<std::byte> sending;  // the kernel reads them while a send is under way
    size_t sent_bytes = 0;
    bool send_under_way = false;
    bool waits_for_send = false;  // is in the list of this iteration
    bool open = true;
  };

  io_uring_sqe& next_submission();
  void start_receiving(uint32_t index);
  void start_sending(uint32_t index);
  void on_completion(const io_uring_cqe& cqe);
  void on_received(uint32_t index, const io_uring_cqe& cqe);
  void on_sent(uint32_t index, int result);
  void want_send(uint32_t index);

  std::vector<Connection> connections_;
  std::vector<uint32_t> to_send_;     // connections with replies, of this iteration
  std::vector<uint32_t> to_receive_;  // connections whose receive has ended
  size_t open_count_;
  int error_ = 0;  // the first one
  io::Ring ring_;  // destroyed before the buffers that the kernel may still be sending
  io::BufferRing buffers_;
};

}  // namespace sluice::limits_bench
