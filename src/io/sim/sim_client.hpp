// The peer's side of one simulated connection. One that does not read() lets its window fill up.
// Flow:   SimIo::connect() -> SimClient <-> SimLink, whichever SimIo holds the other side.
// Lives:  refers to the SimNetwork; a copy stands for the same connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/sim/sim_network.hpp"

namespace sluice::io {

class SimClient {
 public:
  SimClient(SimNetwork& network, uint32_t link) noexcept : network_(&network), link_(link) {}

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Appends up to `bytes_max` of what has arrived to `into`; returns how many.
  size_t read(std::vector<std::byte>& into, size_t bytes_max = SIZE_MAX);
  void shutdown_write() noexcept;
  void reset() noexcept;
  void close() noexcept;

  uint32_t link_id() const noexcept { return link_; }
  bool accepted() const noexcept;
  bool refused() const noexcept;
  bool was_reset() const noexcept;
  bool was_cut_by_network() const noexcept;
  bool end_of_stream() const noexcept;        // everything was read, and no more comes
  size_t undelivered_bytes() const noexcept;  // written, but not yet delivered to the server

 private:
  SimLink& link() const noexcept { return network_->link(link_); }

  SimNetwork* network_;
  uint32_t link_;
};

}  // namespace sluice::io
