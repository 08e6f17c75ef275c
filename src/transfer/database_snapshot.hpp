// A SQLite database of another program, read as it is now and left as it is.
// Flow:   open(path) -> database() -> check_unchanged(), after the last row was read.
// Shape:  without a log beside it the file itself is read, as one that nobody changes: without
//         locks, FILE-wal or FILE-shm. What a FILE-wal or FILE-journal has belongs to the file, and
//         to read it SQLite must write: then copies of both are read, in a folder for temporary
//         files.
// Errors: no database, too large, a FILE-wal of another file, changed while it was read.
// Bounds: go_ratelimit_file_bytes_max, the log included.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/database.hpp"
#include "store/file_place.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {

class DatabaseSnapshot {
 public:
  static Complained<DatabaseSnapshot> open(const std::string& path);

  store::Database& database() noexcept { return database_; }
  Complained<void> check_unchanged() const;

 private:
  // The file, its FILE-wal and its FILE-journal.
  struct Files {
    std::optional<store::FileStatus> main;
    std::optional<store::FileStatus> wal;
    std::optional<store::FileStatus> journal;
    bool has_log() const noexcept;
    uint64_t bytes() const noexcept;
  };
  struct RemoveFolder {
    void operator()(std::string* folder) const noexcept;
  };
  using Folder = std::unique_ptr<std::string, RemoveFolder>;

  static Files files_of(const std::string& path) noexcept;
  Complained<void> copy();
  Complained<void> open_database();
  Complained<void> check_pages();

  std::string path_;
  Files before_;
  Folder copies_;  // null: the file itself is read
  store::Database database_;
};

}  // namespace sluice::transfer
