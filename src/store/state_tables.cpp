#include "store/state_tables.hpp"

#include <bit>
#include <utility>

#include "base/assert.hpp"
#include "state/part_kind.hpp"

namespace sluice::store {
namespace {

constexpr auto windows = static_cast<uint8_t>(state::PartKind::windows);
static_assert(windows == 2);  // as in the statements

int64_t as_stored(uint64_t number) noexcept {
  return std::bit_cast<int64_t>(number);
}

}  // namespace

Result<StateTables> StateTables::prepare(Database& database) {
  StateTables tables;
  const std::pair<Statement*, const char*> all[] = {
      {&tables.begin_, "BEGIN IMMEDIATE"},
      {&tables.commit_, "COMMIT"},
      {&tables.rollback_, "ROLLBACK"},
      {&tables.read_end_,
       "SELECT coalesce(max(number),0) + 1, coalesce(sum(length(bytes)) FILTER (WHERE kind <> "
       "2),0),"
       " coalesce((SELECT epoch FROM part ORDER BY number DESC LIMIT 1),0) FROM part"},
      {&tables.first_needed_, "SELECT number FROM part WHERE epoch >= ?1 ORDER BY number LIMIT 1"},
      {&tables.older_parts_,
       "SELECT coalesce(sum(length(bytes)),0) FROM part WHERE number < ?1 AND kind <> 2"},
      {&tables.add_part_, "INSERT INTO part VALUES(?1,?2,?3,?4,?5)"},
      {&tables.delete_parts_, "DELETE FROM part WHERE number < ?1 AND kind <> 2"},
      {&tables.delete_windows_, "DELETE FROM part WHERE number < ?1 AND kind = 2"},
      {&tables.add_class_, "INSERT OR REPLACE INTO quota_class VALUES(?1,?2,?3)"},
      {&tables.delete_classes_, "DELETE FROM quota_class WHERE epoch < ?1"},
      {&tables.put_quota_, "INSERT OR REPLACE INTO run_time_quota VALUES(?1,?2,?3)"},
      {&tables.remove_quota_, "DELETE FROM run_time_quota WHERE name = ?1"},
      {&tables.set_meta_, "INSERT OR REPLACE INTO meta VALUES(?1,?2)"},
  };
  for (const auto& [statement, sql] : all) {
    Result<Statement> prepared = database.prepare(sql);
    if (!prepared) return tl::unexpected(std::move(prepared.error()));
    *statement = std::move(*prepared);
  }
  return tables;
}

Result<LogEnd> StateTables::read_end() {
  const Result<bool> row = read_end_.step();
  if (!row) return tl::unexpected(row.error());
  ASSERT(*row);  // an aggregate always has one
  const LogEnd end{.next_number = read_end_.integer(0),
                   .last_epoch = static_cast<uint64_t>(read_end_.integer(2)),
                   .bytes = static_cast<uint64_t>(read_end_.integer(1))};
  read_end_.reset();
  return end;
}

Result<void> StateTables::write(std::span<const StoredMeta> values) {
  for (const StoredMeta& value : values) {
    Result<void> done = set_meta_.bind(1, value.key).bind(2, value.value).run();
    if (!done) return done;
  }
  return {};
}

// What is deleted goes first: its pages have room for what comes.
Result<void> StateTables::write(const Batch& batch, LogEnd& end) {
  Result<void> done;
  if (batch.delete_before_epoch != 0) done = delete_before(batch.delete_before_epoch, end);
  if (done && batch.delete_windows_before_epoch != 0) {
    done = delete_windows_before(batch.delete_windows_before_epoch, end);
  }
  for (const ShardCut& cut : batch.cuts) {
    if (done) done = write(cut, end);
  }
  end.last_epoch = batch.epoch;
  return done;
}

Result<void> StateTables::write(const ShardCut& cut, LogEnd& end) {
  Result<void> done;
  for (const QuotaClass& quota : cut.quota_classes) {
    if (done) done = write(quota, cut.epoch);
  }
  for (const QuotaChange& quota : cut.quota_changes) {
    if (done) done = write(quota);
  }
  for (const Part& part : cut.parts) {
    if (!done) return done;
    add_part_.bind(1, end.next_number).bind(2, as_stored(cut.epoch)).bind(3, int64_t{cut.shard});
    done = add_part_.bind(4, int64_t{part.kind}).bind(5, part.bytes).run();
    ++end.next_number;
    if (part.kind != windows) end.bytes += part.bytes.size();
  }
  return done;
}

Result<void> StateTables::write(const QuotaClass& quota, uint64_t epoch) {
  return add_class_.bind(1, as_stored(quota.id))
      .bind(2, quota.quota)
      .bind(3, as_stored(epoch))
      .run();
}

Result<void> StateTables::write(const QuotaChange& quota) {
  if (!quota.quota) return remove_quota_.bind(1, quota.name).run();
  return put_quota_.bind(1, quota.name).bind(2, *quota.quota).bind(3, quota.put_at).run();
}

// Epochs grow with the numbers, so the older parts are those before the first needed one.
Result<int64_t> StateTables::first_number_of(uint64_t epoch, const LogEnd& end) {
  const Result<bool> first = first_needed_.bind(1, as_stored(epoch)).step();
  if (!first) return tl::unexpected(first.error());
  const int64_t number = *first ? first_needed_.integer(0) : end.next_number;
  first_needed_.reset();
  return number;
}

Result<void> StateTables::delete_before(uint64_t epoch, LogEnd& end) {
  const Result<int64_t> number = first_number_of(epoch, end);
  if (!number) return tl::unexpected(number.error());
  const Result<bool> older = older_parts_.bind(1, *number).step();
  if (!older) return tl::unexpected(older.error());
  end.bytes -= static_cast<uint64_t>(older_parts_.integer(0));
  older_parts_.reset();
  Result<void> done = delete_parts_.bind(1, *number).run();
  if (!done) return done;
  return delete_classes_.bind(1, as_stored(epoch)).run();
}

Result<void> StateTables::delete_windows_before(uint64_t epoch, const LogEnd& end) {
  const Result<int64_t> number = first_number_of(epoch, end);
  if (!number) return tl::unexpected(number.error());
  return delete_windows_.bind(1, *number).run();
}

}  // namespace sluice::store
