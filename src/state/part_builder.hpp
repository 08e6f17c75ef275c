// The parts of one shard's cut of quotas, their usage, and reservations; and, beside the parts,
// quotas by their class, and those that were put at run time.
// Flow:   append() each record -> finish() -> parts() -> once they are committed: clear().
// Errors: as PartArena. Classes of quotas, and quotas put at run time, which are few, lie on the
//         heap.
// Bounds: arena_bytes().
// Lives:  as PartArena.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "state/part_arena.hpp"
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
  using Part = PartBytes;

  explicit PartBuilder(const ArenaBounds& bounds);

  void append(const SubjectRecord& subject) noexcept override;
  void append(const GoneSubject& gone) noexcept override;
  void append(const ReservationRecord& reservation) noexcept override;
  void append(const EndedReservation& ended) noexcept override;
  void append(const GoneReservation& gone) noexcept override;
  void add_class(uint64_t id, std::string_view quota) noexcept override;
  void change_quota(const QuotaChange& change) noexcept override;

  void finish(const PartHeader& header) noexcept { arena_.finish(header); }
  std::span<const Part> parts() const noexcept { return arena_.parts(); }
  // Of the same cut.
  std::span<const QuotaClass> quota_classes() const noexcept { return classes_; }
  std::span<const OwnedQuotaChange> quota_changes() const noexcept { return quota_changes_; }
  // Begins anew.
  void clear() noexcept;

  uint64_t records_count() const noexcept { return arena_.records_count(); }
  uint64_t used_bytes() const noexcept { return arena_.used_bytes(); }
  uint64_t reserved_bytes() const noexcept { return arena_.reserved_bytes(); }

 private:
  PartArena arena_;
  std::vector<QuotaClass> classes_;
  std::vector<OwnedQuotaChange> quota_changes_;
};

}  // namespace sluice::state
