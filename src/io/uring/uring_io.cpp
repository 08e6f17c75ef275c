#include "io/uring/uring_io.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "base/assert.hpp"
#include "io/clock.hpp"
#include "io/outgoing.hpp"

namespace sluice::io {
namespace {

constexpr uint32_t submissions_max = 1024;
constexpr uint32_t completions_min = 4096;
constexpr uint32_t completions_max = 65'536;  // the kernel's bound
constexpr int reap_rounds_max = 8;            // of some twenty completions each

// Multishot operations do not wait for room: every buffer and every socket's send, watch and
// cancel may complete between two polls.
uint32_t completions_for(const Options& options) {
  if (options.completions > 0) return options.completions;
  const uint64_t wanted = uint64_t{options.receive_buffers} + 3 * uint64_t{options.sockets_max};
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, completions_min, completions_max));
}

uint32_t submissions_for(const Options& options) {
  return std::clamp(completions_for(options) / 2, 1u, submissions_max);
}

}  // namespace

UringIo::UringIo(Options&& options)
    : ring_(submissions_for(options), completions_for(options)),
      buffers_(ring_.raw(), options.receive_buffers, options.receive_buffer_bytes),
      sockets_(options.sockets_max),
      peers_(size_t{options.sockets_max} * sizeof(SocketAddress), "addresses of peers"),
      changed_(sockets_.slots()),
      starved_(sockets_.slots()),
      starved_after_bytes_(sockets_.slots()),
      now_(read_clock()),
      clock_offset_ns_(options.clock_offset_ns),
      listeners_(options.listeners.size(), size_t{2} * ring_.completions_max(), operations_,
                 sockets_, changed_, statistics_) {
  listeners_.take(std::move(options.listeners));
}

// The kernel must not write into buffers that are gone: everything is cancelled and awaited.
UringIo::~UringIo() {
  for (const Slot& slot : sockets_.slots()) {
    if (slot.fd >= 0) ::shutdown(slot.fd, SHUT_RDWR);
  }
  constexpr int rounds_max = 100;
  constexpr int refusals_max = 10;
  int refusals = 0;
  for (int round = 0; round < rounds_max && refusals < refusals_max && operations_.count() > 0;
       ++round) {
    if (io_uring_sqe* sqe = operations_.prepare({.operation = Operation::finish})) {
      io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY);
    }
    if (ring_.enter(10 * base::ns_per_ms) != 0) ++refusals;
    ring_.completions([this](const io_uring_cqe& cqe) {
      operations_.completed(cqe);
      if (unpack(cqe.user_data).operation == Operation::accept && cqe.res >= 0) ::close(cqe.res);
      return true;
    });
  }
  for (const Slot& slot : sockets_.slots()) {
    if (slot.fd >= 0) ::close(slot.fd);
  }
}

const Statistics& UringIo::statistics() const noexcept {
  statistics_.enters = ring_.enters();
  return statistics_;
}

void UringIo::accept_start(ListenerId listener) noexcept {
  listeners_.start(listener);
}

void UringIo::accept_finish(ListenerId listener) noexcept {
  listeners_.finish(listener);
}

tl::expected<SocketId, int32_t> UringIo::connect(const PeerAddress& peer) noexcept {
  if (sockets_.full()) return tl::unexpected(no_free_slot);
  const SocketAddress address(peer);
  tl::expected<FileDescriptor, int32_t> fd = open_outgoing(address.family());
  if (!fd) return tl::unexpected(fd.error());
  const SocketId socket = sockets_.open_connecting(fd->release());
  peer_of(socket.index) = address;
  sockets_[socket.index].connect_due = true;
  changed_.push(socket.index);
  return socket;
}

void UringIo::receive_start(SocketId socket) noexcept {
  Slot& slot = sockets_.usable(socket);
  if (!slot.failure_reported) act(socket.index, slot.arming.start());
}

void UringIo::receive_stop(SocketId socket) noexcept {
  act(socket.index, sockets_.usable(socket).arming.stop());
  changed_.push(socket.index);  // the watch is armed where no receive is
}

std::optional<std::span<std::byte>> UringIo::receive_now(SocketId socket,
                                                         size_t bytes_max) noexcept {
  const Slot& slot = sockets_.usable(socket);
  if (slot.arming.in_flight()) return {};
  const DirectReceive::Taken taken = direct_.take(slot.fd, bytes_max);
  if (taken.failure != 0) sockets_.note_failure(socket.index, taken.failure);
  return taken.bytes;
}

void UringIo::send(SocketId socket, std::span<const std::byte> bytes) noexcept {
  Slot& slot = sockets_.usable(socket);
  sockets_.begin_send(slot, bytes);
  slot.send_due = true;
  changed_.push(socket.index);
}

void UringIo::send_finish(SocketId socket) noexcept {
  Slot& slot = sockets_.usable(socket);
  ASSERT(!slot.sending);
  ASSERT(!slot.send_finished);
  slot.send_finished = true;
  ::shutdown(slot.fd, SHUT_WR);
}

void UringIo::close(SocketId socket) noexcept {
  Slot& slot = sockets_.closable(socket);
  sockets_.begin_close(socket.index);
  stop_for_good(socket.index);
  if (std::exchange(slot.send_due, false)) {
    sockets_.note_send_failure(socket.index, -ECANCELED, slot.unsent);
  }
  if (slot.in_flight > 0) ::shutdown(slot.fd, SHUT_RDWR);
}

void UringIo::release(SocketId socket) noexcept {
  std::ignore = sockets_.usable(socket);
  sockets_.begin_release(socket.index);
  stop_for_good(socket.index);
}

std::optional<SocketId> UringIo::adopt(int fd) noexcept {
  const std::optional<SocketId> socket = sockets_.adopt(fd);
  if (socket) changed_.push(socket->index);
  return socket;
}

size_t UringIo::poll(std::span<Event> events, int64_t wait_ns) noexcept {
  ASSERT(!events.empty());
  EventSink sink(events);
  buffers_.return_buffers();
  const int64_t end_ns =
      wait_ns > 0 ? read_clock_ns(CLOCK_MONOTONIC) + std::min(wait_ns, poll_wait_ns_max) : 0;
  int64_t left_ns = std::clamp<int64_t>(wait_ns, 0, poll_wait_ns_max);
  for (;;) {
    rearm_starved();
    apply_changes();
    wake_reader_.submit(operations_, now_.monotonic_ns);
    sockets_.report(sink);
    listeners_.work(now_.monotonic_ns, sink);
    const bool busy = !sink.empty() || !sockets_.all_reported() || !changed_.empty() ||
                      !starved_.empty() || !starved_after_bytes_.empty() ||
                      wake_reader_.is_due(now_.monotonic_ns);
    enter(busy ? 0 : until_retry(left_ns), sink);
    reap(sink);
    sockets_.report(sink);
    now_ = read_clock();
    left_ns = end_ns - now_.monotonic_ns;
    if (!sink.empty() || left_ns <= 0) return sink.count();
  }
}

int64_t UringIo::pause() noexcept {
  pause_processor();
  return read_clock_ns(CLOCK_MONOTONIC) + clock_offset_ns_;
}

// False: refused.
bool UringIo::enter(int64_t wait_ns, EventSink& sink) noexcept {
  const int32_t refusal = ring_.enter(wait_ns);
  if (refusal != 0 && !sink.full()) sink.push({.kind = EventKind::refused, .result = refusal});
  return refusal == 0;
}

io_uring_sqe* UringIo::prepare_socket(Operation operation, uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  io_uring_sqe* sqe =
      operations_.prepare({.operation = operation, .generation = slot.generation, .index = index});
  if (sqe != nullptr) ++slot.in_flight;
  return sqe;
}

void UringIo::act(uint32_t index, ReceiveAction action) noexcept {
  Slot& slot = sockets_[index];
  switch (action) {
    case ReceiveAction::none:
      return;
    case ReceiveAction::arm:
      slot.receive_due = true;
      break;
    case ReceiveAction::cancel:
      if (std::exchange(slot.receive_due, false)) {  // the kernel has not seen it
        std::ignore = slot.arming.complete(-ECANCELED, false);
      } else {
        slot.cancel_due = true;
      }
      break;
    case ReceiveAction::wait_for_buffers:
      slot.got_bytes ? starved_after_bytes_.push(index) : starved_.push(index);
      return;
  }
  changed_.push(index);
}

// One cancel, of apply_leave(), ends all operations of the socket.
void UringIo::stop_for_good(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  std::ignore = slot.arming.close();
  if (std::exchange(slot.receive_due, false)) {
    std::ignore = slot.arming.complete(-ECANCELED, false);
  }
  slot.cancel_due = false;
  changed_.push(index);
}

// Arms as many as there are buffers, in order: more would fail at once, even with nothing to
// receive. Sockets that received nothing come first: a busy one takes all buffers as soon as it is
// armed. While several wait each gets one buffer, else the first that is armed would take them all.
void UringIo::rearm_starved() noexcept {
  const auto next = [this]() -> auto& {
    return starved_.empty() ? starved_after_bytes_ : starved_;
  };
  buffers_contended_ = false;
  for (uint32_t left = buffers_.free(); left > 0 && !next().empty(); --left) {
    const uint32_t index = next().pop();
    buffers_contended_ |= !next().empty();
    sockets_[index].one_buffer = buffers_contended_;
    act(index, sockets_[index].arming.buffers_returned());
    changed_.push(index);
  }
}

void UringIo::apply_changes() noexcept {
  while (!changed_.empty()) {
    const uint32_t index = changed_.pop();
    if (apply(index)) continue;
    changed_.push(index);
    return;
  }
}

bool UringIo::apply(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  ASSERT(slot.open);
  if (slot.leaving()) return apply_leave(index);
  if (slot.connecting) return submit_connect(index);
  report_hang_up(index);
  return submit_send(index) && submit_receive(index) && submit_cancel(index) && submit_watch(index);
}

bool UringIo::apply_leave(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (slot.in_flight > 0 && !slot.cancelling_all) {
    io_uring_sqe* sqe = prepare_socket(Operation::cancel_all, index);
    if (sqe == nullptr) return false;
    io_uring_prep_cancel_fd(sqe, slot.fd, IORING_ASYNC_CANCEL_ALL);
    slot.cancelling_all = true;
  }
  leave_if_quiet(index);
  return true;
}

SocketAddress& UringIo::peer_of(uint32_t index) const noexcept {
  return reinterpret_cast<SocketAddress*>(peers_.data())[index];
}

bool UringIo::submit_connect(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (!slot.connect_due) return true;
  io_uring_sqe* sqe = prepare_socket(Operation::connect, index);
  if (sqe == nullptr) return false;
  const SocketAddress& peer = peer_of(index);
  io_uring_prep_connect(sqe, slot.fd, peer.raw(), peer.size());
  slot.connect_due = false;
  return true;
}

bool UringIo::submit_send(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (!slot.send_due) return true;
  io_uring_sqe* sqe = prepare_socket(Operation::send, index);
  if (sqe == nullptr) return false;
  io_uring_prep_send(sqe, slot.fd, slot.unsent.data(), slot.unsent.size(),
                     MSG_NOSIGNAL | MSG_WAITALL);
  slot.send_due = false;
  return true;
}

bool UringIo::submit_receive(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (!slot.receive_due) return true;
  io_uring_sqe* sqe = prepare_socket(Operation::receive, index);
  if (sqe == nullptr) return false;
  if (std::exchange(slot.one_buffer, false) || receives_sparingly()) {
    io_uring_prep_recv(sqe, slot.fd, nullptr, 0, 0);
  } else {
    io_uring_prep_recv_multishot(sqe, slot.fd, nullptr, 0, 0);
  }
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = BufferRing::group;
  slot.got_bytes = false;
  slot.receive_due = false;
  return true;
}

bool UringIo::submit_cancel(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (!slot.cancel_due) return true;
  io_uring_sqe* sqe = prepare_socket(Operation::cancel_receive, index);
  if (sqe == nullptr) return false;
  const OperationTag target{
      .operation = Operation::receive, .generation = slot.generation, .index = index};
  io_uring_prep_cancel64(sqe, pack(target), 0);
  slot.cancel_due = false;
  slot.cancelling = true;
  return true;
}

// While no receive would see it, a poll reports the peer's hang-up; multishot, because a reset may
// follow a half-close. It stays armed when receiving goes on.
bool UringIo::submit_watch(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  const bool receiving = slot.arming.wanted() || slot.arming.in_flight();
  const bool over = slot.failure_reported || (slot.hang_up & (POLLERR | POLLHUP)) != 0;
  if (slot.watching || receiving || over) return true;
  io_uring_sqe* sqe = prepare_socket(Operation::watch, index);
  if (sqe == nullptr) return false;
  io_uring_prep_poll_multishot(sqe, slot.fd, POLLRDHUP);
  slot.watching = true;
  return true;
}

// Reports what the watch saw once no receive can report it, after the last bytes.
void UringIo::report_hang_up(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (slot.hang_up == 0 || slot.arming.wanted() || slot.arming.in_flight()) return;
  int error = 0;
  socklen_t size = sizeof error;
  if ((slot.hang_up & POLLERR) != 0) {
    ::getsockopt(slot.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    sockets_.note_failure(index, -error);
  } else if ((slot.hang_up & POLLRDHUP) != 0) {
    sockets_.note_hang_up(index);
  }
}

int64_t UringIo::until_retry(int64_t wait_ns) const noexcept {
  const int64_t now_ns = now_.monotonic_ns;
  return listeners_.until_retry(wake_reader_.until_retry(wait_ns, now_ns), now_ns);
}

void UringIo::reap(EventSink& sink) noexcept {
  for (int round = 0; round < reap_rounds_max; ++round) {
    const bool all = ring_.completions([&](const io_uring_cqe& cqe) {
      if (sink.full()) return false;
      complete(cqe, sink);
      return true;
    });
    if (!all || !ring_.more_expected() || !enter(0, sink)) return;
  }
}

void UringIo::complete(const io_uring_cqe& cqe, EventSink& sink) noexcept {
  const OperationTag tag = unpack(cqe.user_data);
  operations_.completed(cqe);
  switch (tag.operation) {
    case Operation::accept:
      return listeners_.complete(cqe, tag.index, now_.monotonic_ns, sink);
    case Operation::cancel_accept:
      return;
    case Operation::wake:
      return wake_reader_.complete(cqe.res, now_.monotonic_ns, sink);
    case Operation::connect:
      complete_connect(cqe, tag.index);
      return complete_socket(cqe, tag, sink);
    case Operation::receive:
    case Operation::cancel_receive:
    case Operation::watch:
    case Operation::send:
    case Operation::cancel_all:
      return complete_socket(cqe, tag, sink);
    case Operation::finish:
      break;
  }
  ASSERT(false && "an operation that is never submitted here");
}

void UringIo::complete_socket(const io_uring_cqe& cqe, OperationTag tag, EventSink& sink) noexcept {
  ASSERT(tag.index < sockets_.capacity());
  Slot& slot = sockets_[tag.index];
  ASSERT(slot.open);
  ASSERT(slot.generation == tag.generation);
  if ((cqe.flags & IORING_CQE_F_MORE) == 0) {
    ASSERT(slot.in_flight > 0);
    --slot.in_flight;
  }
  if (tag.operation == Operation::receive) complete_receive(cqe, tag.index, sink);
  if (tag.operation == Operation::watch) complete_watch(cqe, tag.index);
  if (tag.operation == Operation::send) complete_send(cqe, tag.index);
  // The target's own last completion is the only proof that it has ended; see complete_receive().
  if (tag.operation == Operation::cancel_receive) slot.cancelling = false;
  if (tag.operation == Operation::cancel_all) slot.cancelling_all = false;
  if (slot.closing) leave_if_quiet(tag.index);
  // The next poll() does it: the caller sees the last bytes first. It also repeats the cancel if
  // its target is still in flight, because nothing else would end a receive that the cancel did not
  // find.
  if (slot.releasing) changed_.push(tag.index);
}

// A connection that was there when the kernel asked again is one (Linux 6.1: EISCONN).
void UringIo::complete_connect(const io_uring_cqe& cqe, uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  ASSERT(slot.open);
  if (slot.leaving()) return;
  changed_.push(index);
  if (cqe.res == 0 || cqe.res == -EISCONN) {
    sockets_.note_connected(index);
  } else if (cqe.res == -EINTR) {
    slot.connect_due = true;
  } else {
    sockets_.note_failure(index, cqe.res);
  }
}

void UringIo::complete_receive(const io_uring_cqe& cqe, uint32_t index, EventSink& sink) noexcept {
  Slot& slot = sockets_[index];
  const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
  std::span<std::byte> bytes;
  if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) bytes = buffers_.take(cqe);
  if (!bytes.empty() && !slot.closing) {
    slot.got_bytes = true;
    sink.push({.kind = EventKind::received, .socket = sockets_.id_of(index), .bytes = bytes});
  }
  if (!more) {
    slot.cancel_due = false;
    if (cqe.res > 0) ++statistics_.rearms;
    if (cqe.res == -ENOBUFS) ++statistics_.buffers_exhausted;
  }
  act(index, slot.arming.complete(cqe.res, more, buffers_contended_));
  if (slot.leaving()) return;
  if (slot.arming.ended()) {
    cqe.res == 0 ? sockets_.note_end(index) : sockets_.note_failure(index, cqe.res);
  }
  // A cancel that was answered without having found its target is repeated.
  if (more && !slot.arming.wanted() && !slot.cancelling) slot.cancel_due = true;
  // rearm_starved() arms a socket that waits for a buffer.
  const bool over = !more && !slot.arming.starved();
  if (over || slot.cancel_due) changed_.push(index);
}

void UringIo::complete_watch(const io_uring_cqe& cqe, uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if ((cqe.flags & IORING_CQE_F_MORE) == 0) slot.watching = false;
  if (slot.leaving()) return;
  if (cqe.res > 0) slot.hang_up |= static_cast<uint32_t>(cqe.res);
  // For lack of memory, say. Watching again would fail again at once.
  if (cqe.res < 0 && cqe.res != -ECANCELED) sockets_.note_failure(index, cqe.res);
  changed_.push(index);
}

void UringIo::complete_send(const io_uring_cqe& cqe, uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  ASSERT(slot.sending && !slot.sent);
  if (cqe.res > 0) {
    ASSERT(static_cast<size_t>(cqe.res) <= slot.unsent.size());
    slot.unsent = slot.unsent.subspan(static_cast<size_t>(cqe.res));
  }
  if (slot.unsent.empty()) return sockets_.note_sent(index);
  const bool go_on = cqe.res >= 0 || cqe.res == -EINTR || cqe.res == -EAGAIN;
  if (!go_on) {
    // Linux 6.0 does not report how much it had taken of a cancelled send.
    const bool is_known = cqe.res != -ECANCELED;
    const auto untaken = is_known ? slot.unsent : std::span<const std::byte>{};
    return sockets_.note_send_failure(index, cqe.res, untaken);
  }
  if (slot.closing) return sockets_.note_send_failure(index, -ECANCELED, slot.unsent);
  slot.send_due = true;
  changed_.push(index);
}

void UringIo::leave_if_quiet(uint32_t index) noexcept {
  Slot& slot = sockets_[index];
  if (slot.in_flight > 0 || slot.starved.queued || slot.changed.queued || slot.closed) return;
  if (slot.releasing) return sockets_.note_released(index);
  ::close(std::exchange(slot.fd, -1));
  sockets_.note_closed(index);
}

}  // namespace sluice::io
