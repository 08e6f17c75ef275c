// The effects of the simulated kernel and network on one socket (declared in sim_io.hpp).
#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "io/sim/sim_io.hpp"

namespace sluice::io {

uint64_t SimIo::checksum(std::span<const std::byte> bytes) noexcept {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return std::hash<std::string_view>{}({text, bytes.size()});
}

void SimIo::reset_some() noexcept {
  for (const Slot& slot : slots_) {
    if (!slot.open || slot.closing || link_of(slot).reset) continue;
    SimLink& link = link_of(slot);
    const Fault fault = slot.send.in_flight       ? Fault::reset_mid_send
                        : !link.to_server.empty() ? Fault::reset_mid_receive
                                                  : Fault::reset_idle;
    if (!faults_.fires(fault)) continue;
    faults_.count(fault);
    link.abort();
    link.cut_by_network = true;
  }
}

void SimIo::move_send(Slot& slot) noexcept {
  Send& send = slot.send;
  if (!send.in_flight || send.done) return;
  if (send.bytes.size() <= checksum_bytes_each_poll) ASSERT(checksum(send.bytes) == send.checksum);

  SimLink& link = link_of(slot);
  if (link.client_closed) link.abort();
  if (link.reset) return finish_send(slot, -ECONNRESET);
  if (slot.closing) return finish_send(slot, -EPIPE);

  ASSERT(link.to_client.size() <= options_.peer_window_bytes);
  const size_t room_bytes = options_.peer_window_bytes - link.to_client.size();
  if (room_bytes == 0) return faults_.count(Fault::peer_window_full);
  size_t piece_bytes = std::min(room_bytes, send.bytes.size() - send.taken_bytes);
  if (piece_bytes > 1 && faults_.fires(Fault::short_send)) {
    faults_.count(Fault::short_send);
    piece_bytes = 1 + random_.below(piece_bytes - 1);
  }
  const auto piece = send.bytes.subspan(send.taken_bytes, piece_bytes);
  if (taken_watch_ != nullptr) taken_watch_->on_taken(slot.link, piece);
  link.to_client.push(piece);
  send.taken_bytes += piece_bytes;
  if (send.taken_bytes == send.bytes.size()) {
    finish_send(slot, static_cast<int32_t>(send.bytes.size()));
  }
}

void SimIo::finish_send(Slot& slot, int32_t result) noexcept {
  slot.send.done = true;
  slot.send.result = result;
}

std::optional<Event> SimIo::sent_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (!slot.send.in_flight || !slot.send.done) return {};
  if (faults_.fires(Fault::delayed_sent)) {
    faults_.count(Fault::delayed_sent);
    return {};
  }
  ASSERT(checksum(slot.send.bytes) == slot.send.checksum);
  slot.send.in_flight = false;
  const size_t untaken_bytes = slot.send.bytes.size() - slot.send.taken_bytes;
  return Event{.kind = EventKind::sent,
               .socket = id_of(index, slot),
               .result = slot.send.result,
               .untaken_bytes = static_cast<uint32_t>(untaken_bytes)};
}

// Of a socket whose connect() is not done. A failed one is left to be closed.
std::optional<Event> SimIo::connecting_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.closing) return closed_event(index);
  const SimLink& link = link_of(slot);
  const int32_t failure =
      link.connect_failure == 0 && link.reset ? -ECONNRESET : link.connect_failure;
  if (failure != 0) {
    if (std::exchange(slot.failure_reported, true)) return {};
    return Event{.kind = EventKind::failed, .socket = id_of(index, slot), .result = failure};
  }
  if (!link.established) return {};
  slot.connecting = false;
  return Event{.kind = EventKind::connected, .socket = id_of(index, slot)};
}

// Completions of the multishot receive, as long as it is in flight.
std::optional<Event> SimIo::receive_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (!slot.arming.in_flight()) return {};
  if (slot.cancelling) return cancel_event(index);
  if (slot.armed_in_poll == polls_) return {};
  if (receives_sparingly() && slot.reported_in_poll == polls_) return {};

  SimLink& link = link_of(slot);
  const bool has_bytes = !link.to_server.empty();
  if (!has_bytes && !link.reset && !link.client_finished) return {};
  if (faults_.fires(Fault::delayed_receive)) {
    faults_.count(Fault::delayed_receive);
    return {};
  }
  if (has_bytes) {
    const bool exhausted = buffers_out_ == options_.receive_buffers || polls_ < buffers_gone_until_;
    if (!exhausted && !faults_.fires(Fault::no_buffer)) return deliver(index);
    faults_.count(Fault::no_buffer);
    ++statistics_.buffers_exhausted;
    act(index, slot.arming.complete(-ENOBUFS, false));
    return {};
  }
  act(index, slot.arming.complete(link.reset ? -ECONNRESET : 0, false));
  if (link.reset) return hang_up_event(index);
  return Event{.kind = EventKind::end_of_stream, .socket = id_of(index, slot)};
}

// A cancel and the bytes race: bytes that had arrived may still be delivered, then the receive has
// ended.
std::optional<Event> SimIo::cancel_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const bool late = !slot.closing && !link_of(slot).to_server.empty() &&
                    buffers_out_ < options_.receive_buffers &&
                    slot.late_deliveries < 2 * options_.receive_buffers;
  const Fault fault = slot.releasing ? Fault::release_late_bytes : Fault::late_bytes;
  if (late && faults_.fires(fault)) {
    faults_.count(fault);
    ++slot.late_deliveries;
    return deliver(index);
  }
  slot.cancelling = false;
  act(index, slot.arming.complete(-ECANCELED, false));
  return {};
}

Event SimIo::deliver(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  ASSERT(!slot.closing);
  ByteQueue& arrived = link_of(slot).to_server;
  size_t bytes = std::min<size_t>(arrived.size(), options_.receive_buffer_bytes);
  if (bytes > 1 && faults_.fires(Fault::split_receive)) {
    faults_.count(Fault::split_receive);
    // Half of the pieces are tiny, so that every boundary of a head or a frame table is hit.
    const size_t most = random_.chance(0.5) ? std::min<size_t>(bytes - 1, 16) : bytes - 1;
    bytes = 1 + random_.below(most);
  }
  const std::span<std::byte> buffer = take_buffer(bytes);
  std::ranges::copy(arrived.view().first(bytes), buffer.begin());
  arrived.pop(bytes);

  const bool more = !overflows_ && !faults_.fires(Fault::multishot_ended);
  if (!more) {
    faults_.count(Fault::multishot_ended);
    ++statistics_.rearms;
    slot.cancelling = false;  // the cancel finds nothing
  }
  slot.reported_in_poll = polls_;
  act(index, slot.arming.complete(static_cast<int32_t>(bytes), more, !starved_.empty()));
  return Event{.kind = EventKind::received, .socket = id_of(index, slot), .bytes = buffer};
}

// Reports what the watch sees while the socket is stopped, each once: failures, and that the peer
// has ended (then bytes may still lie before the end).
std::optional<Event> SimIo::hang_up_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.closing || slot.releasing) return {};
  if (slot.arming.wanted() || slot.arming.in_flight()) return {};
  const SimLink& link = link_of(slot);
  if (link.reset && !slot.failure_reported) {
    slot.failure_reported = true;
    return Event{.kind = EventKind::failed, .socket = id_of(index, slot), .result = -ECONNRESET};
  }
  if (link.client_finished && !slot.hang_up_reported && !slot.arming.ended() &&
      !slot.failure_reported) {
    slot.hang_up_reported = true;
    return Event{.kind = EventKind::hung_up, .socket = id_of(index, slot)};
  }
  return {};
}

std::optional<Event> SimIo::closed_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (!slot.closing || slot.arming.in_flight() || slot.send.in_flight) return {};
  if (faults_.fires(Fault::delayed_closed)) {
    faults_.count(Fault::delayed_closed);
    return {};
  }
  link_of(slot).close_server_side();
  free_slot(index);
  return Event{.kind = EventKind::closed, .socket = id_of(index, slot)};
}

std::optional<Event> SimIo::released_event(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (!slot.releasing || slot.arming.in_flight() || slot.reported_in_poll == polls_) return {};
  if (faults_.fires(Fault::delayed_released)) {
    faults_.count(Fault::delayed_released);
    return {};
  }
  free_slot(index);
  return Event{.kind = EventKind::released,
               .socket = id_of(index, slot),
               .result = network_.release(slot.link)};
}

}  // namespace sluice::io
