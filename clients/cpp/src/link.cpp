#include "sluicegate/link.hpp"

#include <poll.h>

#include "option_bounds.hpp"
#include "sluicegate/address.hpp"
#include "socket.hpp"

namespace sluicegate {

void throw_unexpected(const Answer& answer) {
  if (const auto* refusal = std::get_if<Refusal>(&answer)) {
    throw Refused(refusal->code, std::string{refusal->text});
  }
  throw ProtocolError("the server sent an answer of an unexpected kind");
}

Link::Link(const std::string& host, uint16_t port, const ConnectOptions& options,
           const std::atomic<bool>* stop, Platform& platform)
    : platform_{platform},
      peer_{to_text(Address{host, port})},
      stop_{stop},
      writer_{peer_},
      reader_{peer_} {
  require_all_within(connect_options, options);
  const auto deadline = platform_.now() + options.connect_timeout;
  socket_ = platform_.connect(host, port, options.connect_timeout, stop_);
  try {
    greet(options, deadline);
  } catch (...) {
    platform_.close(socket_);  // the destructor does not run for a constructor that throws
    throw;
  }
}

Link::~Link() {
  platform_.close(socket_);
}

void Link::greet(const ConnectOptions& options, Clock::time_point deadline) {
  encode(0, Hello{options.client_name, options.wanted_shard}, output());
  const auto frame = wait_frame(deadline);
  if (!frame) throw TimedOut("no Welcome from " + peer_ + " in time");
  const Answer answer = decode(*frame);
  const auto* welcome = std::get_if<Welcome>(&answer);
  if (welcome == nullptr) throw_unexpected(answer);
  if (welcome->version != protocol_version) {
    throw ProtocolError("the server at " + peer_ + " speaks version " +
                        std::to_string(welcome->version) + " of the protocol, this client " +
                        std::to_string(protocol_version));
  }
  welcome_ = *welcome;
}

Traffic Link::traffic() const noexcept {
  return {.bytes_sent = sent_.bytes_sent,
          .bytes_received = received_.bytes_received,
          .system_calls = sent_.system_calls + received_.system_calls};
}

bool Link::poll_until(short events, Deadline deadline) {
  ++received_.system_calls;
  return wait_for(platform_, socket_, events, deadline, stop_);
}

std::optional<FrameReader::Frame> Link::wait_frame(Deadline deadline) {
  for (;;) {
    if (const auto frame = next_frame()) return frame;
    const bool all_written = write_some();
    if (read_some()) continue;  // usually bytes have arrived: no need to poll first
    if (deadline && platform_.now() >= *deadline) return std::nullopt;
    if (!poll_until(static_cast<short>(all_written ? POLLIN : POLLIN | POLLOUT), deadline)) {
      return std::nullopt;
    }
  }
}

void Link::shut_down() noexcept {
  platform_.shut_down(socket_);
}

}  // namespace sluicegate
