#include "io/sim/sim_client.hpp"

#include <algorithm>

namespace sluice::io {

void SimClient::write(std::span<const std::byte> bytes) {
  SimLink& to = link();
  ASSERT(!to.client_finished);
  if (to.server_closed) to.reset = true;  // the server's side is gone
  if (!to.reset && !to.refused) to.to_server.push(bytes);
}

size_t SimClient::read(std::vector<std::byte>& into, size_t bytes_max) {
  ByteQueue& arrived = link().to_client;
  const std::span<const std::byte> bytes =
      arrived.view().first(std::min(bytes_max, arrived.size()));
  into.insert(into.end(), bytes.begin(), bytes.end());
  arrived.pop(bytes.size());
  return bytes.size();
}

void SimClient::shutdown_write() noexcept {
  link().client_finished = true;
}

void SimClient::reset() noexcept {
  link().client_finished = true;
  link().abort();
}

// Bytes that the client did not read make its close a reset, as in Linux.
void SimClient::close() noexcept {
  SimLink& closed = link();
  closed.client_finished = true;
  closed.client_closed = true;
  if (!closed.to_client.empty()) closed.reset = true;
  closed.to_client.clear();
}

bool SimClient::accepted() const noexcept {
  return link().accepted;
}
bool SimClient::refused() const noexcept {
  return link().refused;
}
bool SimClient::was_reset() const noexcept {
  return link().reset;
}
bool SimClient::was_cut_by_network() const noexcept {
  return link().cut_by_network;
}

bool SimClient::end_of_stream() const noexcept {
  return link().server_finished && link().to_client.empty();
}

size_t SimClient::undelivered_bytes() const noexcept {
  return link().to_server.size();
}

}  // namespace sluice::io
