// Reads the state file: at the start, where each shard reads all parts on its own thread, and for
// the commands, also beside a running server.
// Flow:   open() -> meta(), quota_classes(), run_time_quotas(); next_part() until there is none.
// Shape:  parts come newest first: what a part says hides what later ones say.
// Errors: damaged, not_ours, newer_version as StateFile; nothing is ever written to the file, but
//         SQLite may make FILE-wal and FILE-shm. A user who may only read the file can do so while
//         FILE-wal has nothing: if a server changes the file meanwhile, expect_unchanged() fails.
// Lives:  everything is as of open(); FILE-wal cannot be reused before the reader ends. Views of a
//         part live until the next next_part().
// Threads: one; each thread opens its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "state/part_kind.hpp"
#include "store/database.hpp"
#include "store/file_place.hpp"
#include "store/state_store.hpp"

namespace sluice::store {

struct StoredPart {
  int64_t number = 0;
  uint64_t epoch = 0;
  uint32_t shard = 0;
  uint8_t kind = 0;
  std::span<const std::byte> bytes;
};

struct StoredClass {
  uint64_t id = 0;
  std::string quota;
  bool operator==(const StoredClass&) const = default;
};

struct StoredQuota {
  std::string name;
  std::string quota;
  int64_t put_at = 0;
  bool operator==(const StoredQuota&) const = default;
};

class StateReader {
 public:
  static Result<StateReader> open(const std::string& path, const char* vfs = nullptr);
  StateReader(StateReader&&) = default;
  StateReader& operator=(StateReader&&) = delete;  // would end a connection before its statements

  Result<std::vector<StoredMeta>> meta();
  Result<std::vector<StoredClass>> quota_classes();
  Result<std::vector<StoredQuota>> run_time_quotas();

  // Only the parts of this shard, from now on; to be called before the first next_part(). Of use
  // where the number of shards is the one that the file was written with.
  void only_shard(uint32_t shard) noexcept { shard_ = shard; }
  // Likewise only the parts of this kind.
  void only_kind(state::PartKind kind) noexcept { kind_ = static_cast<uint8_t>(kind); }
  // After a failure there is none.
  Result<std::optional<StoredPart>> next_part();
  // The next part is the newest one again, of all shards and kinds, as of the same instant.
  void begin_again() noexcept;

  // At the end of what is read.
  Result<void> expect_unchanged() const;

  Database& database() noexcept { return database_; }

 private:
  enum class Place : uint8_t { before_parts, within_parts, after_parts };

  explicit StateReader(Database database) : database_(std::move(database)) {}
  static Result<StateReader> open(const std::string& path, Access access, const char* vfs);
  Result<void> start_parts();

  Database database_;
  Statement parts_;
  Place place_ = Place::before_parts;
  std::optional<uint32_t> shard_;
  std::optional<uint8_t> kind_;
  std::optional<FileStatus> still_;  // of a file that is read without locks
};

}  // namespace sluice::store
