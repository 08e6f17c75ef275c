// The state of an earlier start, as this one finds it.
#include <algorithm>
#include <optional>

#include "base/assert.hpp"
#include "quota/engine.hpp"
#include "quota/reservation_restorer.hpp"
#include "quota/subject_restorer.hpp"

namespace sluice::quota {

// Its times, and the resets that its records may not have seen.
void Engine::resume_clock(const StoredState& stored, base::Now now) noexcept {
  limiter::Moment last;
  uint64_t reset_all_order = 0;
  for (const StoredShard& shard : stored.shards) {
    last.ns = std::max(last.ns, shard.last.ns);
    last.wall_ns = std::max(last.wall_ns, shard.last.wall_ns);
    last.order = std::max(last.order, shard.last.order);
    reset_all_order = std::max(reset_all_order, shard.reset_all_order);
  }
  // The records of each shard count its own resets. With other shards all are written anew, as if
  // they had seen the last one.
  if (stored.shards.size() == options_.shards) {
    reset_all_order = stored.shards[options_.shard].reset_all_order;
  }
  subjects_.resume_resets(reset_all_order);
  clock_.resume(last);
  clock_.begin(now);
  wheel_.advance(clock_.ms());
}

Restored Engine::restore(const StoredState& stored, base::Now now) {
  ASSERT(subjects_.pool().used() == 0 && book_.version() == 0);
  const auto shards_count = static_cast<uint32_t>(stored.shards.size());
  Restored report;
  if (shards_count == 0) return report;
  resume_clock(stored, now);

  SubjectRestorer subjects(options_, book_, subjects_, stored);
  std::optional<uint32_t> own;
  if (shards_count == options_.shards) own = options_.shard;
  const bool has_subjects = stored.records.read(subjects, own);
  subjects.put_quotas();
  ReservationRestorer reservations(options_, clock_, subjects_, reservations_, shards_count);
  bool is_read = has_subjects && stored.records.read(reservations.records(), own);
  if (is_read && reservations.needs_homes()) {
    is_read = stored.records.read(reservations.homes(), {});
  }
  report.damage = subjects.damage();
  report.is_unusable = subjects.is_unusable();
  if (report.damage.empty() && !is_read) report.damage = "the records cannot be read";
  if (!report.damage.empty()) return report;
  reservations.finish();

  if (shards_count != options_.shards) cut_writer_.write_all();
  report.subjects = subjects.count();
  report.subjects_left_out = subjects.left_out_count();
  report.subjects_of_other_nodes = subjects.of_other_nodes_count();
  report.moved_quotas = subjects.take_moved();
  report.reservations = reservations.count();
  report.ends = reservations.ends_count();
  report.reservations_left_out = reservations.left_out_count();
  report.parts_refunded = reservations.refunded_count();
  return report;
}

}  // namespace sluice::quota
