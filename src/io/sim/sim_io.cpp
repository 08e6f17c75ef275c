#include "io/sim/sim_io.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"

// Reading a returned buffer is then a report, not just garbage.
#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) \
  (static_cast<void>(address), static_cast<void>(size))
#endif

namespace sluice::io {
namespace {

constexpr uint64_t overflow_events_max = 3;
constexpr uint64_t buffers_gone_polls_max = 200;

}  // namespace

SimIo::SimIo(const SimOptions& options, Random& random)
    : SimIo(options, std::make_unique<SimNetwork>(random, options.start)) {}

SimIo::SimIo(const SimOptions& options, std::unique_ptr<SimNetwork> own_network)
    : SimIo(options, *own_network) {
  own_network_ = std::move(own_network);
}

SimIo::SimIo(const SimOptions& options, SimNetwork& network)
    : options_(options),
      network_(network),
      random_(network.random()),
      faults_(network.faults()),
      now_(network.clock()),
      slots_(options.sockets_max),
      listeners_(options.listeners_count),
      buffers_(size_t{options.receive_buffers} * options.receive_buffer_bytes) {
  ASSERT(options.receive_buffer_bytes % 8 == 0);
  for (uint32_t index = options.sockets_max; index > 0; --index) free_slots_.push_back(index - 1);
}

// As a process that dies: its kernel closes what it had, and resets what waited to be accepted.
SimIo::~SimIo() {
  network_.wires().forget(*this);
  for (const Slot& slot : slots_) {
    if (slot.open && network_.wires().has(slot.link)) link_of(slot).close_server_side();
  }
  for (const Listener& listener : listeners_) {
    for (const uint32_t link : listener.backlog) {
      if (network_.wires().has(link)) network_.link(link).abort();
    }
  }
  ASAN_UNPOISON_MEMORY_REGION(buffers_.data(), buffers_.size());
}

void SimIo::accept_start(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].accepting = true;
}

void SimIo::accept_finish(ListenerId listener) noexcept {
  ASSERT(!listeners_[listener].finishing);
  listeners_[listener].finishing = true;
}

tl::expected<SocketId, int32_t> SimIo::connect(const PeerAddress& peer) noexcept {
  if (free_slots_.empty()) return tl::unexpected(no_free_slot);
  const int64_t now_ns = network_.clock().monotonic_ns;
  const SocketId socket = open_slot(network_.wires().connect(options_.node, peer, now_ns));
  slots_[socket.index].connecting = true;
  return socket;
}

void SimIo::receive_start(SocketId socket) noexcept {
  act(socket.index, slot_of(socket).arming.start());
}

void SimIo::receive_stop(SocketId socket) noexcept {
  act(socket.index, slot_of(socket).arming.stop());
}

std::optional<std::span<std::byte>> SimIo::receive_now(SocketId socket, size_t bytes_max) noexcept {
  Slot& slot = slot_of(socket);
  if (slot.arming.in_flight()) return {};
  ByteQueue& arrived = link_of(slot).to_server;
  size_t bytes = std::min(arrived.size(), bytes_max);
  if (bytes > 1 && faults_.fires(Fault::split_receive)) {
    faults_.count(Fault::split_receive);
    bytes = 1 + random_.below(bytes - 1);
  }
  const auto taken = arrived.view().first(bytes);
  taken_.assign(taken.begin(), taken.end());
  arrived.pop(bytes);
  return std::span(taken_);
}

void SimIo::send(SocketId socket, std::span<const std::byte> bytes) noexcept {
  Slot& slot = slot_of(socket);
  ASSERT(!slot.send.in_flight);
  ASSERT(!slot.send_finished);
  ASSERT(!bytes.empty());
  slot.send = {.bytes = bytes, .checksum = checksum(bytes), .in_flight = true};
}

void SimIo::send_finish(SocketId socket) noexcept {
  Slot& slot = slot_of(socket);
  ASSERT(!slot.send.in_flight);
  ASSERT(!slot.send_finished);
  slot.send_finished = true;
  link_of(slot).server_finished = true;
}

void SimIo::close(SocketId socket) noexcept {
  Slot& slot = closable_slot_of(socket);
  slot.closing = true;
  slot.releasing = false;
  act(socket.index, slot.arming.close());
}

void SimIo::release(SocketId socket) noexcept {
  Slot& slot = slot_of(socket);
  ASSERT(!slot.send.in_flight);
  ASSERT(!slot.send_finished);
  slot.releasing = true;
  slot.late_deliveries = 0;
  act(socket.index, slot.arming.close());
}

std::optional<SocketId> SimIo::adopt(int fd) noexcept {
  ASSERT(network_.is_released(fd));
  if (free_slots_.empty()) return {};
  if (faults_.fires(Fault::adopt_refused)) {
    faults_.count(Fault::adopt_refused);
    return {};
  }
  const uint32_t link = network_.take(fd);
  if (!network_.link(link).reset && faults_.fires(Fault::reset_in_transit)) {
    faults_.count(Fault::reset_in_transit);
    network_.link(link).abort();
    network_.link(link).cut_by_network = true;
  }
  return open_slot(link);
}

void SimIo::discard(int fd) noexcept {
  network_.link(network_.take(fd)).close_server_side();
}

std::string SimIo::peer(SocketId socket) noexcept {
  return "sim:" + std::to_string(link_of(socket));
}

size_t SimIo::poll(std::span<Event> events, int64_t wait_ns) noexcept {
  ASSERT(!events.empty());
  ++polls_;
  ++statistics_.enters;
  return_buffers();
  move_clock();
  reset_some();
  for (Slot& slot : slots_) {
    if (slot.open) move_send(slot);
  }
  network_.wires().move(network_.clock().monotonic_ns);
  const size_t count = collect(events);
  if (count == 0 && wait_ns > 0) sleep(wait_ns);
  now_ = network_.clock();
  return count;
}

// Until something arrives from another SimIo, at most.
void SimIo::sleep(int64_t wait_ns) noexcept {
  const int64_t now_ns = network_.clock().monotonic_ns;
  const int64_t due_ns = std::max(network_.wires().due_ns(now_ns), now_ns);
  advance(std::min({wait_ns, options_.wait_ns_max, due_ns - now_ns}));
}

bool SimIo::is_quiet() const noexcept {
  const int64_t now_ns = network_.clock().monotonic_ns;
  return !has_event_pending() && !is_sending() && network_.wires().due_ns(now_ns) > now_ns;
}

SimClient SimIo::connect(ListenerId listener) {
  const uint32_t link = network_.add_link();
  if (listeners_[listener].closed) {
    network_.link(link).refused = true;
  } else {
    listeners_[listener].backlog.push_back(link);
  }
  return {network_, link};
}

uint32_t SimIo::sends_in_flight() const noexcept {
  uint32_t count = 0;
  for (const Slot& slot : slots_) count += slot.open && slot.send.in_flight;
  return count;
}

// A socket that the code under test may still use: a late call on a closed one is its bug.
SimIo::Slot& SimIo::slot_of(SocketId socket) noexcept {
  Slot& slot = closable_slot_of(socket);
  ASSERT(!slot.releasing);
  ASSERT(!slot.connecting);
  return slot;
}

SimIo::Slot& SimIo::closable_slot_of(SocketId socket) noexcept {
  ASSERT(socket.index < slots_.size());
  Slot& slot = slots_[socket.index];
  ASSERT(slot.open);
  ASSERT(slot.generation == socket.generation);
  ASSERT(!slot.closing);
  return slot;
}

SocketId SimIo::open_slot(uint32_t link) noexcept {
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  const uint32_t generation = (slot.generation + 1) & generation_mask;
  slot = {.generation = generation, .link = link, .open = true};
  opened_.push_back({.socket = {.index = index, .generation = generation}, .link = link});
  ++sockets_open_;
  return id_of(index, slot);
}

void SimIo::free_slot(uint32_t index) noexcept {
  slots_[index].open = false;
  std::erase(starved_, index);
  free_slots_.push_back(index);
  --sockets_open_;
}

void SimIo::act(uint32_t index, ReceiveAction action) noexcept {
  Slot& slot = slots_[index];
  switch (action) {
    case ReceiveAction::none:
      break;
    case ReceiveAction::arm:
      slot.armed_in_poll = polls_;
      slot.late_deliveries = 0;
      break;
    case ReceiveAction::cancel:
      slot.cancelling = true;
      break;
    case ReceiveAction::wait_for_buffers:
      starved_.push_back(index);
      break;
  }
}

void SimIo::move_clock() noexcept {
  if (options_.turn_ns_max > 0) advance(random_.between(0, options_.turn_ns_max));
  if (faults_.fires(Fault::clock_jump)) {
    faults_.count(Fault::clock_jump);
    advance(random_.between(0, options_.clock_jump_ns_max));
  }
  if (faults_.fires(Fault::wall_clock_back)) {
    faults_.count(Fault::wall_clock_back);
    set_wall_clock(network_.clock().wall_ns - random_.between(0, options_.clock_jump_ns_max));
  }
}

void SimIo::return_buffers() noexcept {
  ASAN_UNPOISON_MEMORY_REGION(buffers_.data(), buffers_.size());
  const auto garbage = static_cast<std::byte>(random_.next());
  const size_t used_bytes = size_t{buffers_out_} * options_.receive_buffer_bytes;
  std::fill_n(buffers_.begin(), used_bytes, garbage);
  ASAN_POISON_MEMORY_REGION(buffers_.data(), buffers_.size());
  buffers_out_ = 0;
  for (const uint32_t index : std::exchange(starved_, {})) {
    act(index, slots_[index].arming.buffers_returned());
  }
}

std::span<std::byte> SimIo::take_buffer(size_t bytes) noexcept {
  ASSERT(buffers_out_ < options_.receive_buffers);
  ASSERT(bytes > 0 && bytes <= options_.receive_buffer_bytes);
  std::byte* buffer = buffers_.data() + size_t{buffers_out_} * options_.receive_buffer_bytes;
  ++buffers_out_;
  ASAN_UNPOISON_MEMORY_REGION(buffer, bytes);
  return {buffer, bytes};
}

bool SimIo::wake_seen() noexcept {
  if (!woken_.load(std::memory_order_acquire)) return false;
  if (faults_.fires(Fault::delayed_wake)) {
    faults_.count(Fault::delayed_wake);
    return false;
  }
  return woken_.exchange(false, std::memory_order_acquire);
}

// Every socket and listener in order, an event at a time, until none is left: so completions of
// different sockets interleave, and those of one socket stay in order.
size_t SimIo::collect(std::span<Event> events) noexcept {
  size_t count = 0;
  overflows_ = faults_.fires(Fault::overflow);
  if (overflows_) {
    faults_.count(Fault::overflow);
    events = events.first(std::min<size_t>(events.size(), 1 + random_.below(overflow_events_max)));
  }
  if (faults_.fires(Fault::buffers_gone)) {
    faults_.count(Fault::buffers_gone);
    buffers_gone_until_ = polls_ + random_.below(buffers_gone_polls_max);
  }
  const bool woken = wake_seen();
  const bool spurious = !woken && faults_.fires(Fault::spurious_wake);
  if (spurious) faults_.count(Fault::spurious_wake);
  if (woken || spurious) events[count++] = {.kind = EventKind::woken};

  candidates_.clear();
  for (uint32_t index = 0; index < listeners_.size(); ++index) candidates_.push_back({index, true});
  for (uint32_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index].open) candidates_.push_back({index, false});
  }
  const bool reordered = faults_.fires(Fault::reordered);
  if (reordered) faults_.count(Fault::reordered);
  size_t place = 0;
  while (count < events.size() && !candidates_.empty()) {
    place = reordered ? random_.below(candidates_.size()) : place % candidates_.size();
    if (const std::optional<Event> event = next_event(candidates_[place])) {
      events[count++] = *event;
      ++place;
    } else {
      candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(place));
    }
  }
  return count;
}

std::optional<Event> SimIo::next_event(Candidate candidate) noexcept {
  return candidate.listener ? accept_next(candidate.index) : socket_event(candidate.index);
}

std::optional<Event> SimIo::accept_next(ListenerId id) noexcept {
  Listener& listener = listeners_[id];
  if (listener.closed) return {};
  if (listener.finishing && listener.backlog.empty()) {
    listener.closed = true;
    return Event{.kind = EventKind::listener_closed, .listener = id};
  }
  if (!accept_due(listener) || listener.failed_in_poll == polls_) return {};
  if (faults_.fires(Fault::accept_failed)) {
    faults_.count(Fault::accept_failed);
    listener.failed_in_poll = polls_;
    return Event{.kind = EventKind::accept_failed, .listener = id, .result = -EMFILE};
  }
  const uint32_t link = listener.backlog.front();
  listener.backlog.pop_front();
  network_.link(link).accepted = true;
  return Event{.kind = EventKind::accepted, .listener = id, .socket = open_slot(link)};
}

std::optional<Event> SimIo::socket_event(uint32_t index) noexcept {
  if (!slots_[index].open) return {};
  if (slots_[index].connecting) return connecting_event(index);
  const bool sent_first = random_.chance(0.5);
  std::optional<Event> event = sent_first ? sent_event(index) : receive_event(index);
  if (!event) event = sent_first ? receive_event(index) : sent_event(index);
  if (!event) event = hang_up_event(index);
  if (!event) event = closed_event(index);
  if (!event) event = released_event(index);
  return event;
}

bool SimIo::has_event_pending() const noexcept {
  const auto listener_due = [this](const Listener& listener) {
    const bool ends = listener.finishing && !listener.closed && listener.backlog.empty();
    return ends || accept_due(listener);
  };
  const auto socket_due = [this](const Slot& slot) { return event_due(slot); };
  return woken_.load(std::memory_order_acquire) || std::ranges::any_of(listeners_, listener_due) ||
         std::ranges::any_of(slots_, socket_due);
}

size_t SimIo::backlog_count() const noexcept {
  size_t count = 0;
  for (const Listener& listener : listeners_) count += listener.backlog.size();
  return count;
}

bool SimIo::is_sending() const noexcept {
  return std::ranges::any_of(slots_, [this](const Slot& slot) {
    return slot.open && slot.send.in_flight &&
           link_of(slot).to_client.size() < options_.peer_window_bytes;
  });
}

bool SimIo::enqueue(ListenerId listener, uint32_t link) {
  if (listeners_[listener].closed || listeners_[listener].finishing) return false;
  listeners_[listener].backlog.push_back(link);
  return true;
}

bool SimIo::accept_due(const Listener& listener) const noexcept {
  const bool open = listener.accepting || listener.finishing;
  return open && !listener.backlog.empty() && !free_slots_.empty();
}

bool SimIo::event_due(const Slot& slot) const noexcept {
  if (!slot.open) return false;
  if (slot.closing || slot.releasing) return true;
  const SimLink& link = link_of(slot);
  if (slot.connecting) {
    const bool failed = link.connect_failure != 0 || link.reset;
    return link.established || (failed && !slot.failure_reported);
  }
  const Send& send = slot.send;
  if (send.in_flight) {
    const size_t room_bytes = options_.peer_window_bytes - link.to_client.size();
    const bool fits = send.bytes.size() - send.taken_bytes <= room_bytes;
    if (send.done || link.reset || link.client_closed || fits) return true;
  }
  if (link.reset) return !slot.failure_reported;
  if (slot.arming.wanted()) return !link.to_server.empty() || link.client_finished;
  return link.client_finished && !slot.hang_up_reported && !slot.arming.ended() &&
         !slot.failure_reported;
}

}  // namespace sluice::io
