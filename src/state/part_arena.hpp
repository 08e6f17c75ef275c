// Parts of records, one behind another in memory that is used again for the next cut.
// Flow:   add() each record -> finish(), which writes the headers -> parts() -> once they are
//         committed: clear().
// Shape:  address space for all that there can be to write at once; its pages are committed as
//         they are needed, and freed by clear() but for the first few MiB.
// Errors: the constructor throws as MappedRegion does. add() always has room: there is no cut
//         before clear(), so a disk that stands still costs no more memory.
// Bounds: the bytes that it is made with.
// Lives:  one thread; parts() until clear(). Another thread may read the parts meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/mapped_region.hpp"
#include "state/byte_writer.hpp"
#include "state/part.hpp"
#include "state/record.hpp"

namespace sluice::state {

using PartBytes = std::span<const std::byte>;

// With the headers of its parts, for records that take so much.
constexpr size_t part_arena_bytes(size_t records_bytes) noexcept {
  return records_bytes + (records_bytes / full_part_bytes + 2) * PartHeader::bytes;
}

class PartArena {
 public:
  // `what` it is, for the message when there is no such address space.
  PartArena(size_t bytes, const std::string& what);

  template <typename Record>
  void add(const Record& record) noexcept {
    ASSERT(stage_ != Stage::finished);
    if (stage_ == Stage::between_parts) begin_part();
    const size_t bytes_max = record_bytes_max(record);
    ASSERT(bytes_max <= arena_.size() - used_bytes_);
    ByteWriter writer({arena_.data() + used_bytes_, bytes_max});
    write_record(writer, record);
    count(writer.size());
  }

  // Ends the cut. The header is that of all its parts but for lengths and counts; its time and
  // order are the present ones. There is a part even without records, if only for its header.
  void finish(const PartHeader& header) noexcept;
  bool is_finished() const noexcept { return stage_ == Stage::finished; }
  std::span<const PartBytes> parts() const noexcept { return parts_; }
  // Begins anew.
  void clear() noexcept;

  uint64_t records_count() const noexcept { return records_count_; }
  uint64_t used_bytes() const noexcept { return used_bytes_; }
  uint64_t reserved_bytes() const noexcept { return arena_.size(); }

 private:
  enum class Stage : uint8_t { between_parts, in_part, finished };
  // A part whose header is not written yet.
  struct Body {
    size_t begin = 0;
    uint32_t records_bytes = 0;
    uint32_t records_count = 0;
    uint64_t hash = 0;
  };

  void count(size_t record_bytes) noexcept;
  void begin_part() noexcept;
  void end_part() noexcept;

  base::MappedRegion arena_;
  size_t used_bytes_ = 0;
  uint64_t records_count_ = 0;
  Stage stage_ = Stage::between_parts;
  Body body_;                 // of the present part
  std::vector<Body> bodies_;  // of those before; both lists have room for all from the start
  std::vector<PartBytes> parts_;
};

}  // namespace sluice::state
