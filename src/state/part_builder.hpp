// Makes the parts of one shard's cut, one behind another in memory that is used again for the next
// cut.
// Flow:   append() each record -> finish(), which writes the headers -> parts() -> once they are
//         committed: clear().
// Shape:  address space for all that a shard can have to write at once; its pages are committed as
//         they are needed, and freed by clear() but for the first few MiB.
// Errors: the constructor throws as MappedRegion does. append() always has room: there is no cut
//         before clear(), so a disk that stands still costs no more memory.
//         Classes of quotas, and quotas put at run time, which are few, lie on the heap.
// Bounds: arena_bytes().
// Lives:  one thread; parts() until clear(). Another thread may read the parts meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_region.hpp"
#include "state/part.hpp"
#include "state/state_sink.hpp"

namespace sluice::state {

// What a shard can have at most.
struct ArenaBounds {
  uint32_t subjects_max = 0;
  uint32_t name_bytes_max = 0;
  uint32_t reservations_max = 0;  // in their places; as many have ended
};

// Every subject and reservation once, and as many that are gone; of reservations, these or their
// ends, and as many ends that are remembered.
size_t arena_bytes(const ArenaBounds& bounds) noexcept;

// A quota as JSON, by its number in records.
struct QuotaClass {
  uint64_t id = 0;
  std::string quota;
};

struct OwnedQuotaChange {
  std::string name;
  std::optional<std::string> quota;
  int64_t wall_ms = 0;
};

class PartBuilder final : public StateSink {
 public:
  using Part = std::span<const std::byte>;

  explicit PartBuilder(const ArenaBounds& bounds);

  void append(const SubjectRecord& subject) noexcept override;
  void append(const GoneSubject& gone) noexcept override;
  void append(const ReservationRecord& reservation) noexcept override;
  void append(const EndedReservation& ended) noexcept override;
  void append(const GoneReservation& gone) noexcept override;
  void add_class(uint64_t id, std::string_view quota) noexcept override;
  void change_quota(const QuotaChange& change) noexcept override;

  // Ends the cut. The header is that of all its parts but for lengths and counts; its time and
  // order are the present ones. There is a part even without records, if only for its header.
  void finish(const PartHeader& header) noexcept;
  std::span<const Part> parts() const noexcept { return parts_; }
  // Of the same cut.
  std::span<const QuotaClass> quota_classes() const noexcept { return classes_; }
  std::span<const OwnedQuotaChange> quota_changes() const noexcept { return quota_changes_; }
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

  template <typename Record>
  void add(const Record& record) noexcept;
  void begin_part() noexcept;
  void end_part() noexcept;

  base::MappedRegion arena_;
  size_t used_bytes_ = 0;
  uint64_t records_count_ = 0;
  Stage stage_ = Stage::between_parts;
  Body body_;                 // of the present part
  std::vector<Body> bodies_;  // of those before; both lists have room for all from the start
  std::vector<Part> parts_;
  std::vector<QuotaClass> classes_;
  std::vector<OwnedQuotaChange> quota_changes_;
};

}  // namespace sluice::state
