// Where a shard writes what has to survive a restart: all that it sees of state/.
// Flow:   a cut of the shard -> an append() for each subject and reservation that has changed ->
//         PartBuilder, or a list in a test.
// Errors: none: there is room for everything that a shard has.
// Lives:  one thread; what a record points to is read before append() returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "state/record.hpp"

namespace sluice::state {

// A quota that was put for a subject at run time, as JSON; without `quota`: it was removed.
struct QuotaChange {
  std::string_view name;
  std::optional<std::string_view> quota;
  int64_t wall_ms = 0;  // when
};

class StateSink {
 public:
  virtual ~StateSink() = default;

  virtual void append(const SubjectRecord& subject) noexcept = 0;
  virtual void append(const GoneSubject& gone) noexcept = 0;
  virtual void append(const ReservationRecord& reservation) noexcept = 0;
  virtual void append(const EndedReservation& ended) noexcept = 0;
  virtual void append(const GoneReservation& gone) noexcept = 0;

  // The quota that SubjectRecord::quota_class means, as JSON; not a record: a part does not have
  // it. It comes before the first record that needs it, once since the present lap began.
  virtual void add_class(uint64_t id, std::string_view quota) noexcept = 0;

  // Not a record either; one for each name.
  virtual void change_quota(const QuotaChange& change) noexcept = 0;
};

// Likewise for the windows of plain keys, which need not be of one instant.
class WindowSink {
 public:
  virtual ~WindowSink() = default;
  virtual void append(const WindowRecord& window) noexcept = 0;
};

}  // namespace sluice::state
