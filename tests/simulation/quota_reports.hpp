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
#include "sent_frames.hpp"

namespace sluice::simulation {

class QuotaReports final : public io::TakenWatch {
 public:
  void on_taken(uint32_t link, std::span<const std::byte> bytes) override;
  bool knows(uint64_t reservation) const { return delivered_.contains(reservation); }

 private:
  enum class Protocol : uint8_t { unknown, native, http1, http2 };

  struct Stream {
    Protocol protocol = Protocol::unknown;
    Bytes bytes;       // while it is unknown; native: the last frame, while it is not whole
    std::string text;  // HTTP/1.1: the end of the stream
    FrameCutter frames;
    std::map<int32_t, std::string> bodies;  // HTTP/2: of answers that have not ended
  };

  static Protocol protocol_of(const Bytes& begin);
  void read_frames(Bytes& frames);
  void read_text(std::string& text);
  void read_http2(Stream& stream, std::span<const std::byte> bytes);

  std::map<uint32_t, Stream> streams_;  // by link
  std::set<uint64_t> delivered_;
};

}  // namespace sluice::simulation
