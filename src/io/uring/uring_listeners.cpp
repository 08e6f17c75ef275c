#include "io/uring/uring_listeners.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"

namespace sluice::io {

UringListeners::UringListeners(size_t count, size_t parked_max, PendingOperations& operations,
                               UringSockets& sockets, ChangedSlots& changed, Statistics& statistics)
    : operations_(operations),
      sockets_(sockets),
      changed_(changed),
      statistics_(statistics),
      listeners_(count) {
  parked_.reserve(parked_max);
}

UringListeners::~UringListeners() {
  for (; parked_first_ < parked_.size(); ++parked_first_) {
    if (parked_[parked_first_].fd >= 0) ::close(parked_[parked_first_].fd);
  }
}

void UringListeners::take(std::vector<FileDescriptor>&& descriptors) noexcept {
  ASSERT(descriptors.size() == listeners_.size());
  for (size_t index = 0; index < listeners_.size(); ++index) {
    listeners_[index].fd = std::move(descriptors[index]);
  }
}

void UringListeners::start(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].started = true;
}

void UringListeners::finish(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].finishing = true;
}

void UringListeners::work(int64_t now_ns, EventSink& sink) noexcept {
  open_parked(sink);
  for (uint32_t index = 0; index < listeners_.size(); ++index) work_listener(index, now_ns, sink);
}

int64_t UringListeners::until_retry(int64_t wait_ns, int64_t now_ns) const noexcept {
  for (const Listener& listener : listeners_) {
    const int64_t pause_ns = listener.retry_ns - now_ns;
    if (listener.started && pause_ns > 0) wait_ns = std::min(wait_ns, pause_ns);
  }
  return wait_ns;
}

void UringListeners::work_listener(uint32_t index, int64_t now_ns, EventSink& sink) noexcept {
  const Listener& listener = listeners_[index];
  if (listener.finished) return;
  if (listener.armed) {
    if ((is_full() || listener.finishing) && !listener.cancelling) cancel(index);
  } else if (listener.finishing) {
    close_listener(index, now_ns, sink);
  } else if (listener.started && !is_full() && now_ns >= listener.retry_ns) {
    arm(index);
  }
}

void UringListeners::arm(uint32_t index) noexcept {
  io_uring_sqe* sqe = operations_.prepare({.operation = Operation::accept, .index = index});
  if (sqe == nullptr) return;
  // No address: the next connection would overwrite it.
  io_uring_prep_multishot_accept(sqe, listeners_[index].fd.get(), nullptr, nullptr,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
  listeners_[index].armed = true;
}

void UringListeners::cancel(uint32_t index) noexcept {
  io_uring_sqe* sqe = operations_.prepare({.operation = Operation::cancel_accept, .index = index});
  if (sqe == nullptr) return;
  io_uring_prep_cancel64(sqe, pack({.operation = Operation::accept, .index = index}), 0);
  listeners_[index].cancelling = true;
}

void UringListeners::close_listener(uint32_t index, int64_t now_ns, EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  while (!sink.full() && !sockets_.full()) {
    const int fd = ::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd == -1 && errno == EAGAIN) break;
    const int32_t result = fd >= 0 ? fd : -errno;
    accept_result(result, index, now_ns, sink);
    if (result < 0 && !is_transient_accept_failure(result)) break;
  }
  if (sink.full()) return;
  // The connections for which there is no slot are refused by closing the listener.
  close_parked(index);
  listener.fd.reset();
  listener.finished = true;
  sink.push({.kind = EventKind::listener_closed, .listener = index});
}

void UringListeners::complete(const io_uring_cqe& cqe, uint32_t index, int64_t now_ns,
                              EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  if ((cqe.flags & IORING_CQE_F_MORE) == 0) {
    listener.armed = listener.cancelling = false;  // work() arms it again
    if (cqe.res >= 0) ++statistics_.rearms;
  }
  accept_result(cqe.res, index, now_ns, sink);
}

void UringListeners::accept_result(int32_t result, uint32_t index, int64_t now_ns,
                                   EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  if (result >= 0) {
    if (is_full()) return park(result, index);
    open_socket(result, index, sink);
  } else if (!is_transient_accept_failure(result)) {
    spare_.refuse_one(listener.fd.get());
    listener.retry_ns = now_ns + accept_pause_ns;
    sink.push({.kind = EventKind::accept_failed, .listener = index, .result = result});
  }
}

void UringListeners::open_socket(int fd, ListenerId listener, EventSink& sink) noexcept {
  const SocketId socket = sockets_.open(fd);
  changed_.push(socket.index);
  sink.push({.kind = EventKind::accepted, .listener = listener, .socket = socket});
}

void UringListeners::open_parked(EventSink& sink) noexcept {
  while (parked_first_ < parked_.size() && !sockets_.full() && !sink.full()) {
    const Parked parked = parked_[parked_first_++];
    if (parked.fd >= 0) open_socket(parked.fd, parked.listener, sink);
  }
  if (parked_first_ == parked_.size()) {
    parked_.clear();
    parked_first_ = 0;
  }
}

void UringListeners::close_parked(ListenerId listener) noexcept {
  for (size_t place = parked_first_; place < parked_.size(); ++place) {
    Parked& parked = parked_[place];
    if (parked.listener == listener && parked.fd >= 0) ::close(std::exchange(parked.fd, -1));
  }
}

void UringListeners::park(int fd, ListenerId listener) noexcept {
  if (parked_.size() == parked_.capacity()) {
    ::close(fd);  // more than twice what the completion queue holds: the cancel has no effect
    return;
  }
  parked_.push_back({.fd = fd, .listener = listener});
}

}  // namespace sluice::io
