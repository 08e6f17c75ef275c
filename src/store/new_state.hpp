// Writes a whole state file, which has its name only when it is complete.
// Flow:   make() -> add() what it is to have, in one transaction -> finish() -> publish().
// Shape:  as a backup: one file without a FILE-wal.
// Errors: exists: there is such a file; it is never overwritten.
// Lives:  without publish() nothing is left.
#pragma once

#include <optional>
#include <string>

#include "store/database.hpp"
#include "store/state_reader.hpp"
#include "store/state_tables.hpp"
#include "store/unfinished_file.hpp"

namespace sluice::store {

class NewState {
 public:
  static Result<NewState> make(const std::string& target, const char* vfs = nullptr);
  NewState(NewState&&) = default;
  NewState& operator=(NewState&&) = delete;  // would end a connection before its statements

  Result<void> add(std::span<const StoredMeta> values) { return tables_.write(values); }
  // Epochs do not decrease.
  Result<void> add(const Batch& batch) { return tables_.write(batch, end_); }

  // The disk has confirmed it. It can be read then, under path().
  Result<void> finish();
  const std::string& path() const noexcept { return file_.path(); }
  Result<void> publish() { return file_.publish(); }

 private:
  explicit NewState(UnfinishedFile file) : file_(std::move(file)) {}

  UnfinishedFile file_;
  Database database_;
  StateTables tables_;
  LogEnd end_;
};

}  // namespace sluice::store
