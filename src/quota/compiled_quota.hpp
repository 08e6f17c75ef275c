// A quota, compiled: shared by all subjects that have the same one.
// Flow:   a quota of the book, or one that was put -> CompiledQuotas -> a CompiledQuota,
//         which stays while it has references.
// Shape:  each has a place of its own that does not move; equal quotas share one. They lie in many
//         small tables, so that none takes long to grow.
// Lives:  one thread only. Making one allocates: when quotas change, and, while a book is being
//         adopted, for the first call that needs one of its quotas; never for a request after that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/limit.hpp"
#include "limiter/meter.hpp"

namespace sluice::quota {

struct CompiledQuota {
  api::Quota quota;
  std::vector<limiter::MeterShape> shapes;  // of its limits, in their order
  uint32_t limits_count = 0;                // how many these are: to count them is slower
  uint32_t head_words = 0;                  // of one subject's usage: what every call reads ...
  uint32_t ring_words = 0;                  // ... and the rings
  bool limits_anything = false;             // some limit has a number, or blocks
  bool slides = false;                      // all limits slide: RingMeters are enough
  mutable uint32_t references = 0;
  // Of RecordWriter: the class in records, and the lap in which it was written last.
  mutable uint64_t class_id = 0;
  mutable uint32_t written_in_lap = 0;
};

class CompiledQuotas {
 public:
  // The one for this quota, with one reference more.
  const CompiledQuota* hold(const api::Quota& quota);
  static void hold(const CompiledQuota* of) noexcept { ++of->references; }
  void drop_reference(const CompiledQuota* of) noexcept;
  size_t count() const noexcept;

 private:
  using Table = std::unordered_multimap<size_t, std::unique_ptr<CompiledQuota>>;
  static constexpr size_t tables_count = 256;

  Table& table_of(size_t hash) noexcept;

  std::array<Table, tables_count> tables_;
};

// The compiled quotas of a book, by their places in it, each made when it is first needed.
// References to those of earlier books are dropped piece by piece.
class BookCompiledQuotas {
 public:
  static constexpr uint32_t piece_places = 256;

  explicit BookCompiledQuotas(CompiledQuotas& classes) : classes_(classes) {}

  // The places are those of another book from now on.
  void begin(uint32_t places);
  const CompiledQuota* of(uint32_t place, const api::Quota& quota);

  // Whether compiled quotas of earlier books have references; free_earlier_slice() drops some.
  bool has_earlier() const noexcept { return !earlier_.empty(); }
  void free_earlier_slice() noexcept;

 private:
  using Piece = std::array<const CompiledQuota*, piece_places>;

  CompiledQuotas& classes_;
  std::vector<std::unique_ptr<Piece>> pieces_;   // null: none of its places was needed
  std::vector<std::unique_ptr<Piece>> earlier_;  // none is null; no more than were made
};

// Identifies a limit of a quota when the quota changes.
uint32_t limit_id(std::string_view name) noexcept;

// Whether the usage of the limit `before` is kept for the limit `now`.
bool continues(const limiter::MeterShape& before, const limiter::MeterShape& now) noexcept;

// Whether `now` may rule out for good what `before` did not. Null: it ruled out nothing.
bool rules_out_more(const CompiledQuota* before, const CompiledQuota& now) noexcept;

}  // namespace sluice::quota
