// The listeners of a UringIo: one multishot accept each, which stops while no slot is free.
// Flow:   start() -> work() arms -> complete() for each connection -> `accepted`; finish() ->
//         work() cancels, takes what the kernel has accepted, closes -> `listener_closed`.
// Errors: a failure that may last is reported (`accept_failed`), and is followed by a pause.
// Lives:  like the operations and the sockets, which it refers to.
// Source: io_uring_prep_multishot_accept(3).
#pragma once

#include <vector>

#include "io/accept_errors.hpp"
#include "io/event_sink.hpp"
#include "io/file_descriptor.hpp"
#include "io/io.hpp"
#include "io/uring/pending_operations.hpp"
#include "io/uring/uring_slot.hpp"

namespace sluice::io {

class UringListeners {
 public:
  UringListeners(size_t count, size_t parked_max, PendingOperations& operations,
                 UringSockets& sockets, ChangedSlots& changed, Statistics& statistics);
  ~UringListeners();
  UringListeners(const UringListeners&) = delete;
  UringListeners& operator=(const UringListeners&) = delete;

  void take(std::vector<FileDescriptor>&& descriptors) noexcept;
  void start(ListenerId listener) noexcept;
  void finish(ListenerId listener) noexcept;

  // Before waiting.
  void work(int64_t now_ns, EventSink& sink) noexcept;
  // How long to wait at most, so that a listener whose pause is over is armed again.
  int64_t until_retry(int64_t wait_ns, int64_t now_ns) const noexcept;
  void complete(const io_uring_cqe& cqe, uint32_t index, int64_t now_ns, EventSink& sink) noexcept;

 private:
  struct Listener {
    FileDescriptor fd;
    bool started = false;
    bool armed = false;
    bool cancelling = false;
    bool finishing = false;
    bool finished = false;
    int64_t retry_ns = 0;  // not before, after a failure
  };

  // Accepted by the kernel before it saw the cancel, while every slot is in use.
  struct Parked {
    int fd;
    ListenerId listener;
  };

  bool is_full() const noexcept { return sockets_.full() || parked_first_ < parked_.size(); }
  void work_listener(uint32_t index, int64_t now_ns, EventSink& sink) noexcept;
  void arm(uint32_t index) noexcept;
  void cancel(uint32_t index) noexcept;
  void close_listener(uint32_t index, int64_t now_ns, EventSink& sink) noexcept;
  void accept_result(int32_t result, uint32_t index, int64_t now_ns, EventSink& sink) noexcept;
  void open_socket(int fd, ListenerId listener, EventSink& sink) noexcept;
  void open_parked(EventSink& sink) noexcept;
  void close_parked(ListenerId listener) noexcept;
  void park(int fd, ListenerId listener) noexcept;

  PendingOperations& operations_;
  UringSockets& sockets_;
  ChangedSlots& changed_;
  Statistics& statistics_;
  std::vector<Listener> listeners_;
  SpareDescriptor spare_;
  std::vector<Parked> parked_;
  size_t parked_first_ = 0;
};

}  // namespace sluice::io
