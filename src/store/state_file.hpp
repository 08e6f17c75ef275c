// The state file: a SQLite database that one server at a time writes.
// Flow:   open() -> StateReader, by any number of threads, loads -> set_meta(), commit() by the
//         writer's thread alone -> close().
// Shape:  schema.hpp; FILE, FILE-wal and FILE-shm are SQLite's, FILE.lock and FILE.new ours. open()
//         migrates a file of an older version (migration.hpp).
// Errors: open() leaves a file that it refuses as it is, and so does close() without a commit: a
//         server that cannot load it changes nothing. What a failed commit means: StateStore. moved
//         is found after each commit: SQLite itself goes on writing a removed file.
// Bounds: FILE-wal has at most what a reader keeps from being copied, and 16 MiB and a commit more.
// Lives:  the destructor without close() is as a crash: the next open() finds all commits.
// Threads: one at a time.
// Source: https://www.sqlite.org/wal.html; the design's table of PRAGMAs and its measurements.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/database.hpp"
#include "store/file_lock.hpp"
#include "store/file_place.hpp"
#include "store/migration.hpp"
#include "store/state_store.hpp"
#include "store/state_tables.hpp"

namespace sluice::store {

struct StateFileOptions {
  std::string path;
  bool checks_pages = true;  // PRAGMA quick_check, which reads the whole file
  std::chrono::milliseconds lock_patience = store::lock_patience;
  uint32_t checkpoint_bytes = 16 << 20;  // FILE-wal is copied to FILE from this size on
  const char* vfs = nullptr;             // SQLite's layer above the system; for tests
  VerifyPart verify;                     // of a file that is to be migrated
  std::span<const MigrationStep> migrations = migration_steps;
};

class StateFile final : public StateStore {
 public:
  static Result<std::unique_ptr<StateFile>> open(const StateFileOptions& options);

  // Whether open() has made the file.
  bool is_new() const noexcept { return is_new_; }
  const std::string& path() const noexcept { return options_.path; }
  // Of the newest part; 0: there is none.
  uint64_t last_epoch() const noexcept { return end_.last_epoch; }

  // Before the first commit, which writes them too: a start that fails changes nothing in a file.
  void set_meta(std::span<const MetaValue> values);

  Result<void> commit(const Batch& batch) override;
  Result<void> tidy() override;
  Result<void> reopen() override;
  Result<void> close() override;
  StoreSize size() const noexcept override;

 private:
  // FILE and FILE-wal, as they were when they were opened.
  struct Identity {
    FileIdentity file;
    FileIdentity wal;
  };
  StateFile(const StateFileOptions& options, FileLock lock);

  uint32_t oldest_version() const noexcept;
  Result<void> find_or_create();
  Result<void> prepare();
  Result<void> connect();
  Result<void> migrate();
  Result<void> begin_writing();
  Result<void> remember_identity();
  template <typename Write>
  Result<void> in_transaction(Write write);
  Result<void> check_place();
  void note(const Result<void>& done) noexcept;
  void disconnect() noexcept;

  StateFileOptions options_;
  FileLock lock_;
  Database database_;
  StateTables tables_;  // after the connection: its statements end first
  Identity identity_;
  std::vector<StoredMeta> meta_;  // for the next commit
  bool is_new_ = false;
  bool is_writing_ = false;  // since the first commit
  bool must_reopen_ = false;
  LogEnd end_;
  uint64_t file_bytes_ = 0;
  uint64_t page_bytes_ = 0;  // an older file has smaller ones
  int wal_pages_ = 0;        // as of the last commit; 0: they were copied since
};

}  // namespace sluice::store
