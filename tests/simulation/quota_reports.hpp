// The reservations that clients may have received: those in answers that the kernel has taken
// whole.
// Flow:   SimIo, with the bytes it takes of each connection -> whole answers -> reservations.
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
  bool knows(uint64_t reservation) const { return delivered_.contains(reservation); }

 private:
  struct Stream {
    Bytes frames;      // native: the last frame, while it is not whole
    std::string text;  // REST: the end of the stream
  };

  void read_frames(Bytes& frames);
  void read_text(std::string& text);

  std::map<uint32_t, Stream> streams_;  // by link
  std::set<uint64_t> delivered_;
};

}  // namespace sluice::simulation
