// The statements that write the tables of the state file, prepared once.
// Flow:   StateFile::commit() -> begin(), write(), commit(), or rollback().
// Errors: after a failure the transaction is to be rolled back, and the changed LogEnd dropped.
// Lives:  ends before its Database.
#pragma once

#include <cstdint>
#include <span>

#include "store/database.hpp"
#include "store/state_store.hpp"

namespace sluice::store {

// The parts that there are.
struct LogEnd {
  int64_t next_number = 1;
  uint64_t last_epoch = 0;
  uint64_t bytes = 0;  // but of windows
};

class StateTables {
 public:
  StateTables() = default;
  static Result<StateTables> prepare(Database& database);

  Result<void> begin() { return begin_.run(); }
  Result<void> commit() { return commit_.run(); }
  Result<void> rollback() { return rollback_.run(); }

  Result<void> write(std::span<const StoredMeta> values);
  // `end` follows what is written.
  Result<void> write(const Batch& batch, LogEnd& end);
  Result<LogEnd> read_end();

 private:
  Result<void> write(const ShardCut& cut, LogEnd& end);
  Result<void> write(const QuotaClass& quota, uint64_t epoch);
  Result<void> write(const QuotaChange& quota);
  Result<void> delete_before(uint64_t epoch, LogEnd& end);
  Result<void> delete_windows_before(uint64_t epoch, const LogEnd& end);
  Result<int64_t> first_number_of(uint64_t epoch, const LogEnd& end);

  Statement begin_, commit_, rollback_;
  Statement read_end_, first_needed_, older_parts_;
  Statement add_part_, delete_parts_, delete_windows_;
  Statement add_class_, delete_classes_;
  Statement put_quota_, remove_quota_, set_meta_;
};

}  // namespace sluice::store
