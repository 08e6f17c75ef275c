// Which reservations clients may know of: those in answers of which the kernel has taken all.
// Flow:   SimIo, with what it takes of each connection's sends -> whole answers -> reservations.
// Lives:  one per run.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "frames.hpp"
#include "io/sim/sim_io.hpp"

namespace sluice::simulation {

class QuotaReports final : public io::TakenWatch {
 public:
  void on_taken(uint32_t link, std::span<const std::byte> bytes) override;
  bool knows(uint64_t reservation) const { return given_.contains(reservation); }

 private:
  struct Stream {
    Bytes frames;      // native: from the last one on that is not whole yet
    std::string text;  // REST: its end
  };

  void read_frames(Bytes& frames);
  void read_text(std::string& text);

  std::map<uint32_t, Stream> streams_;  // by link
  std::set<uint64_t> given_;
};

}  // namespace sluice::simulation
