#include "io/epoll/epoll_io.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "io/clock.hpp"
#include "io/outgoing.hpp"

namespace sluice::io {
namespace {

constexpr uint32_t socket_buffers_max = 8;     // one socket must not take a whole poll()
constexpr uint32_t listener_accepts_max = 64;  // nor one listener

enum class Source : uint8_t { socket, listener, wake };

constexpr uint64_t tag(Source source, uint32_t index) {
  return uint64_t{static_cast<uint8_t>(source)} << 32 | index;
}

uint64_t tag_of(const epoll_event& event) {
  return event.data.u64;
}

constexpr size_t round_up_8(size_t bytes) {
  return (bytes + 7) & ~size_t{7};
}

int32_t pending_error(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return -errno;
  return -error;
}

}  // namespace

EpollIo::EpollIo(Options options)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_signal_(EFD_NONBLOCK),
      listeners_(options.listeners.size()),
      sockets_(options.sockets_max),
      changed_(sockets_.slots()),
      buffers_(options.receive_buffers),
      buffer_bytes_(options.receive_buffer_bytes),
      memory_(size_t{buffers_} * buffer_bytes_, "receive buffers"),
      now_(read_clock()),
      clock_offset_ns_(options.clock_offset_ns) {
  ASSERT(buffers_ > 0);
  ASSERT(buffer_bytes_ > 0 && buffer_bytes_ % 8 == 0);
  // Edge-triggered: each raise() is reported once, and nothing has to be read.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = tag(Source::wake, 0)}};
  if (!epoll_.is_open() ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_signal_.fd(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot set up epoll");
  }
  if (wait_for_events(1, 0) < 0) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot wait with epoll (a seccomp profile has to allow epoll_pwait2 "
                            "or epoll_wait)");
  }
  for (size_t index = 0; index < listeners_.size(); ++index) {
    listeners_[index].fd = std::move(options.listeners[index]);
  }
}

EpollIo::~EpollIo() {
  for (const Slot& slot : sockets_.slots()) {
    if (slot.fd >= 0) ::close(slot.fd);
  }
}

void EpollIo::accept_start(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].started = true;
}

void EpollIo::accept_finish(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].finishing = true;
}

tl::expected<SocketId, int32_t> EpollIo::connect(const PeerAddress& peer) noexcept {
  if (sockets_.full()) return tl::unexpected(no_free_slot);
  const SocketAddress address(peer);
  tl::expected<FileDescriptor, int32_t> fd = open_outgoing(address.family());
  if (!fd) return tl::unexpected(fd.error());
  const SocketId socket = sockets_.open_connecting(fd->release());
  // EINTR: it goes on, as with EINPROGRESS.
  if (::connect(sockets_[socket.index].fd, address.raw(), address.size()) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    sockets_.note_failure(socket.index, -errno);
  }
  changed_.push(socket.index);
  return socket;
}

void EpollIo::receive_start(SocketId socket) noexcept {
  sockets_.usable(socket).receiving = true;
  changed_.push(socket.index);
}

void EpollIo::receive_stop(SocketId socket) noexcept {
  sockets_.usable(socket).receiving = false;
  changed_.push(socket.index);
}

std::optional<std::span<std::byte>> EpollIo::receive_now(SocketId socket,
                                                         size_t bytes_max) noexcept {
  const DirectReceive::Taken taken = direct_.take(sockets_.usable(socket).fd, bytes_max);
  if (taken.failure != 0) sockets_.note_failure(socket.index, taken.failure);
  return taken.bytes;
}

void EpollIo::send(SocketId socket, std::span<const std::byte> bytes) noexcept {
  sockets_.begin_send(sockets_.usable(socket), bytes);
  send_more(socket.index);
}

void EpollIo::send_finish(SocketId socket) noexcept {
  Slot& slot = sockets_.usable(socket);
  ASSERT(!slot.sending);
  ASSERT(!slot.send_finished);
  slot.send_finished = true;
  ::shutdown(slot.fd, SHUT_WR);
}

void EpollIo::close(SocketId socket) noexcept {
  Slot& slot = sockets_.closable(socket);
  sockets_.begin_close(socket.index);
  if (slot.sending && !slot.sent) {
    sockets_.note_send_failure(socket.index, -ECANCELED, slot.unsent);
  }
  ::close(std::exchange(slot.fd, -1));  // epoll forgets it
  sockets_.note_closed(socket.index);
}

void EpollIo::release(SocketId socket) noexcept {
  Slot& slot = sockets_.usable(socket);
  sockets_.begin_release(socket.index);
  // Unlike a closed descriptor, epoll would report this one for ever.
  if (slot.watched != unwatched) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, slot.fd, nullptr);
  sockets_.note_released(socket.index);
}

std::optional<SocketId> EpollIo::adopt(int fd) noexcept {
  const std::optional<SocketId> socket = sockets_.adopt(fd);
  if (socket) changed_.push(socket->index);
  return socket;
}

size_t EpollIo::poll(std::span<Event> events, int64_t wait_ns) noexcept {
  ASSERT(!events.empty());
  EventSink sink(events);
  memory_used_ = 0;
  const int64_t end_ns =
      wait_ns > 0 ? read_clock_ns(CLOCK_MONOTONIC) + std::min(wait_ns, poll_wait_ns_max) : 0;
  int64_t left_ns = std::clamp<int64_t>(wait_ns, 0, poll_wait_ns_max);
  for (;;) {
    apply_changes();
    sockets_.report(sink);
    for (uint32_t index = 0; index < listeners_.size(); ++index) {
      finish_listener(index, sink);
      watch_listener(index, sink);
    }
    const bool busy = !sink.empty() || !sockets_.all_reported();
    if (!sink.full()) wait(sink, busy ? 0 : until_retry(left_ns));
    sockets_.report(sink);
    now_ = read_clock();
    left_ns = end_ns - now_.monotonic_ns;
    if (!sink.empty() || left_ns <= 0) return sink.count();
  }
}

int64_t EpollIo::pause() noexcept {
  pause_processor();
  return read_clock_ns(CLOCK_MONOTONIC) + clock_offset_ns_;
}

// A listener that failed is tried again within a wait.
int64_t EpollIo::until_retry(int64_t wait_ns) const noexcept {
  for (const Listener& listener : listeners_) {
    const int64_t pause_ns = listener.retry_ns - now_.monotonic_ns;
    if (listener.started && pause_ns > 0) wait_ns = std::min(wait_ns, pause_ns);
  }
  return wait_ns;
}

uint32_t EpollIo::interest(const Slot& slot) const noexcept {
  const bool readable = slot.receiving && !slot.drained;
  if (slot.failure_reported || (slot.hung_up && !readable)) return unwatched;
  if (slot.connecting) return EPOLLOUT;
  uint32_t wanted = 0;  // errors and hang-ups are reported in any case
  if (readable) wanted |= EPOLLIN;
  if (!slot.receiving && !slot.hang_up_reported && !slot.end_reported) wanted |= EPOLLRDHUP;
  if (!slot.unsent.empty()) wanted |= EPOLLOUT;
  return wanted;
}

void EpollIo::apply_changes() noexcept {
  while (!changed_.empty()) {
    const uint32_t index = changed_.pop();
    Slot& slot = sockets_[index];
    if (!slot.open || slot.leaving()) continue;
    const uint32_t wanted = interest(slot);
    if (wanted == slot.watched) continue;
    const int operation = wanted == unwatched         ? EPOLL_CTL_DEL
                          : slot.watched == unwatched ? EPOLL_CTL_ADD
                                                      : EPOLL_CTL_MOD;
    epoll_event event{.events = wanted, .data = {.u64 = tag(Source::socket, index)}};
    if (::epoll_ctl(epoll_.get(), operation, slot.fd, &event) == 0) {
      slot.watched = wanted;
    } else {
      sockets_.note_failure(index, -errno);  // out of memory or of watches
    }
  }
}

void EpollIo::watch_listener(uint32_t index, EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  if (listener.finished) return;
  const bool wanted = listener.started && !listener.finishing && !sockets_.full() &&
                      now_.monotonic_ns >= listener.retry_ns;
  if (wanted == listener.watched || sink.full()) return;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag(Source::listener, index)}};
  const int operation = wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
  if (::epoll_ctl(epoll_.get(), operation, listener.fd.get(), &event) == 0) {
    listener.watched = wanted;
  } else {
    pause_accepting(index, -errno, sink);
  }
}

void EpollIo::pause_accepting(uint32_t index, int32_t failure, EventSink& sink) noexcept {
  listeners_[index].retry_ns = now_.monotonic_ns + accept_pause_ns;
  sink.push({.kind = EventKind::accept_failed, .listener = index, .result = failure});
}

void EpollIo::wait(EventSink& sink, int64_t wait_ns) noexcept {
  ++statistics_.enters;
  int ready = wait_for_events(sink.room(), wait_ns);
  // A process that was stopped is interrupted as it goes on. What has arrived meanwhile comes
  // before the time-outs that it would have prevented.
  if (ready < 0 && errno == EINTR) ready = wait_for_events(sink.room(), 0);
  if (ready < 0 && errno != EINTR) {
    const int32_t refusal = -errno;
    refusal_pause_.sleep();
    return sink.push({.kind = EventKind::refused, .result = refusal});
  }
  refusal_pause_.end();
  dispatch(sink, static_cast<size_t>(std::max(ready, 0)));
}

// How many are ready; -1 and errno: interrupted, or refused.
int EpollIo::wait_for_events(size_t events_max, int64_t wait_ns) noexcept {
  // Each socket that is ready gets a buffer: none is skipped again and again.
  const auto count = static_cast<int>(std::min({events_max, size_t{buffers_}, ready_.size()}));
  if (precise_wait_error_ == 0) {
    const timespec time{.tv_sec = wait_ns / base::ns_per_s, .tv_nsec = wait_ns % base::ns_per_s};
    const int ready = ::epoll_pwait2(epoll_.get(), ready_.data(), count, &time, nullptr);
    if (ready >= 0 || errno == EINTR) return ready;
    precise_wait_error_ = errno;  // before Linux 5.11, or forbidden
  }
  const auto wait_ms = static_cast<int>(base::ceil_ms(wait_ns));
  return ::epoll_wait(epoll_.get(), ready_.data(), count, wait_ms);
}

void EpollIo::dispatch(EventSink& sink, size_t ready_count) noexcept {
  if (ready_count == 0) return;
  const size_t share = std::min(sink.room(), size_t{buffers_}) / ready_count;
  const uint32_t most = receives_sparingly() ? 1 : socket_buffers_max;
  const auto buffers = static_cast<uint32_t>(std::clamp<size_t>(share, 1, most));
  const auto ready = std::span(ready_).first(ready_count);
  // While there is room: epoll does not report it again.
  if (std::ranges::find(ready, tag(Source::wake, 0), tag_of) != ready.end()) {
    wake_signal_.acknowledge();
    sink.push({.kind = EventKind::woken});
  }
  for (const epoll_event& event : ready) {
    if (sink.full()) return;  // what is left is reported again
    const auto index = static_cast<uint32_t>(event.data.u64);
    switch (static_cast<Source>(event.data.u64 >> 32)) {
      case Source::socket:
        socket_ready(index, event.events, sink, buffers);
        break;
      case Source::listener:
        accept_ready(index, sink);
        break;
      case Source::wake:
        break;
    }
  }
}

void EpollIo::accept_ready(uint32_t index, EventSink& sink) noexcept {
  for (uint32_t accepts = 0; accepts < listener_accepts_max; ++accepts) {
    if (sink.full() || sockets_.full() || !accept_one(index, sink)) return;
  }
}

// False: nothing is queued any more, or accepting failed.
bool EpollIo::accept_one(uint32_t index, EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  const int fd = ::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    const SocketId socket = sockets_.open(fd);
    changed_.push(socket.index);
    sink.push({.kind = EventKind::accepted, .listener = index, .socket = socket});
    return true;
  }
  const int32_t failure = -errno;
  if (failure == -EAGAIN) return false;
  if (is_transient_accept_failure(failure)) return true;
  spare_.refuse_one(listener.fd.get());
  pause_accepting(index, failure, sink);
  return false;
}

void EpollIo::finish_listener(uint32_t index, EventSink& sink) noexcept {
  Listener& listener = listeners_[index];
  if (!listener.finishing || listener.finished) return;
  while (!sink.full() && !sockets_.full() && accept_one(index, sink)) {
  }
  if (sink.full()) return;
  // The connections for which there is no slot are refused by closing the listener.
  listener.fd.reset();
  listener.finished = true;
  sink.push({.kind = EventKind::listener_closed, .listener = index});
}

void EpollIo::socket_ready(uint32_t index, uint32_t ready, EventSink& sink,
                           uint32_t buffers) noexcept {
  Slot& slot = sockets_[index];
  ASSERT(slot.open && !slot.leaving());
  if (slot.receiving && !slot.drained) {
    if ((ready & ~uint32_t{EPOLLOUT}) != 0) receive(index, sink, buffers);
  } else if (slot.connecting) {
    connect_ready(index);
  } else if ((ready & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    hung_up(index, ready);
  }
  const bool writable = (ready & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
  if (writable && !slot.unsent.empty()) send_more(index);
}

void EpollIo::connect_ready(uint32_t index) noexcept {
  changed_.push(index);
  const int32_t failure = pending_error(sockets_[index].fd);
  failure == 0 ? sockets_.note_connected(index) : sockets_.note_failure(index, failure);
}

void EpollIo::receive(uint32_t index, EventSink& sink, uint32_t buffers) noexcept {
  Slot& slot = sockets_[index];
  for (; buffers > 0 && !sink.full(); --buffers) {
    ASSERT(memory_used_ + buffer_bytes_ <= memory_.size());  // dispatch() shares the buffers out
    std::byte* buffer = memory_.data() + memory_used_;
    const ssize_t result = ::recv(slot.fd, buffer, buffer_bytes_, MSG_DONTWAIT);
    if (result > 0) {
      const auto bytes = static_cast<size_t>(result);
      sink.push(
          {.kind = EventKind::received, .socket = sockets_.id_of(index), .bytes = {buffer, bytes}});
      // The next piece follows close behind: few cache lines and pages are in use.
      memory_used_ += round_up_8(bytes);
      if (bytes < buffer_bytes_) return;
      continue;
    }
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) return;
    changed_.push(index);
    if (result < 0) return sockets_.note_failure(index, -errno);
    slot.drained = true;
    return sockets_.note_end(index);
  }
}

// The peer or the connection is gone while nothing is being received.
void EpollIo::hung_up(uint32_t index, uint32_t ready) noexcept {
  Slot& slot = sockets_[index];
  changed_.push(index);
  const int32_t failure = (ready & EPOLLERR) != 0 ? pending_error(slot.fd) : 0;
  if (failure != 0) return sockets_.note_failure(index, failure);
  if ((ready & EPOLLRDHUP) != 0) sockets_.note_hang_up(index);
  if ((ready & (EPOLLHUP | EPOLLERR)) != 0) slot.hung_up = true;
}

void EpollIo::send_more(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  while (!slot.unsent.empty()) {
    const ssize_t result =
        ::send(slot.fd, slot.unsent.data(), slot.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result >= 0) {
      slot.unsent = slot.unsent.subspan(static_cast<size_t>(result));
    } else if (errno == EAGAIN) {
      changed_.push(index);
      return;
    } else if (errno != EINTR) {
      const int32_t failure = -errno;
      changed_.push(index);
      return sockets_.note_send_failure(index, failure, std::exchange(slot.unsent, {}));
    }
  }
  if (slot.watched != unwatched && (slot.watched & EPOLLOUT) != 0) changed_.push(index);
  sockets_.note_sent(index);
}

}  // namespace sluice::io
