// The parts of one shard's cut of the windows of its keys, apart from the others: they are
// superseded by laps of their own.
// Errors: as PartArena.
// Bounds: every key once, and each that a full table makes in the place of another meanwhile.
// Lives:  as PartArena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "state/part_arena.hpp"
#include "state/state_sink.hpp"

namespace sluice::state {

class WindowParts final : public WindowSink {
 public:
  // `text_bytes_max` of all keys together.
  WindowParts(uint32_t keys_max, size_t text_bytes_max)
      : arena_(part_arena_bytes(2 * (keys_max * record_bytes_max(WindowRecord{}) + text_bytes_max)),
               "windows that survive a restart (--max-keys, --max-key-bytes)") {}

  void append(const WindowRecord& window) noexcept override { arena_.add(window); }

  // Without records there is no part.
  void finish(const PartHeader& header) noexcept {
    if (arena_.records_count() > 0) arena_.finish(header);
  }
  std::span<const PartBytes> parts() const noexcept { return arena_.parts(); }
  void clear() noexcept { arena_.clear(); }

  uint64_t records_count() const noexcept { return arena_.records_count(); }
  uint64_t reserved_bytes() const noexcept { return arena_.reserved_bytes(); }

 private:
  PartArena arena_;
};

}  // namespace sluice::state
