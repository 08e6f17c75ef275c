// SQLite behind two small classes: a connection, and a prepared statement.
// Flow:   StateFile and StateReader, and transfer/ with databases of other programs -> Database,
//         Statement -> SQLite. sqlite3.h is included by the .cpp files of this folder only.
// Errors: every code of SQLite becomes a Failure with its kind and the file's path.
// Lives:  a connection ends without a checkpoint and leaves FILE-wal as it is, unless
//         checkpoint_on_close() was called. Statements end before their connection.
// Threads: one thread uses a connection and its statements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/failure.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace sluice::store {

// Of a value in a row; SQLite's columns may have any, whatever their declaration is.
enum class ValueType : uint8_t { null, integer, real, text, blob };

class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) noexcept : statement_(statement) {}

  // Parameters count from 1. The bytes of text and blobs must live until the statement has run.
  Statement& bind(int parameter, int64_t value) noexcept;
  Statement& bind(int parameter, std::string_view text) noexcept;
  Statement& bind(int parameter, std::span<const std::byte> blob) noexcept;

  // True: there is a row, which is valid until the next step() or reset(). False: no further one;
  // the statement is reset then, as after a failure.
  Result<bool> step();
  Result<void> run();
  void reset() noexcept;

  // Columns count from 0. type() comes first: the others turn the value into theirs.
  ValueType type(int column) const noexcept;
  int64_t integer(int column) const noexcept;
  std::string_view text(int column) const noexcept;
  std::span<const std::byte> blob(int column) const noexcept;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  void note(int code) noexcept;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_code_ = 0;  // the first that was no success
};

// Of a database that is not trusted.
inline constexpr int value_bytes_max = 1'024 * 1'024;

// Of a check of the whole file.
inline constexpr size_t complaints_max = 100;

// immutable: the file is read without locks and without its log, as if nobody could change it.
enum class Access : uint8_t { read, write, immutable };

class Database {
 public:
  Database() = default;

  // The file must exist. `vfs` names SQLite's layer above the system; null: the default one.
  static Result<Database> open(const std::string& path, Access access, const char* vfs);

  bool is_open() const noexcept { return connection_ != nullptr; }
  bool is_readonly() const noexcept;
  std::string path() const;
  Result<Statement> prepare(std::string_view sql);
  // One statement or several, without parameters; rows are passed over.
  Result<void> execute(const std::string& sql);
  // The first column of the first row, which there must be.
  Result<int64_t> integer(std::string_view sql);
  Result<std::string> text(std::string_view sql);
  // `PRAGMA quick_check`: at most complaints_max complaints; none when the file is sound.
  Result<std::vector<std::string>> quick_check();
  // Fails with `damaged` and the first of them.
  Result<void> expect_sound_pages();

  // Of the file itself, without its log, before the first statement: whether it begins as every
  // database of SQLite, and whether it says that it has a log.
  Result<bool> is_database();
  Result<bool> is_in_wal_mode();
  // For a database that another program made, before the first statement: nothing in it is run,
  // and no value is longer than value_bytes_max.
  Result<void> distrust();
  bool in_transaction() const noexcept;
  // Called after each commit with the number of pages in FILE-wal.
  void count_wal_pages_in(int& pages) noexcept;
  // Copies what it can from FILE-wal to FILE without waiting for readers.
  Result<void> checkpoint_passive();
  // Copies everything and empties FILE-wal. False: a reader was in the way, nothing is wrong.
  Result<bool> checkpoint_truncate();
  // The end of the last connection then does a checkpoint and deletes FILE-wal and FILE-shm.
  void checkpoint_on_close() noexcept;
  // Writes every byte of FILE-wal again, and has the disk confirm it.
  Result<void> rewrite_wal();
  // Has the disk confirm every byte of FILE.
  Result<void> sync_file();

  // Of a file that no connection has open; there need not be one.
  static void remove_file(const std::string& path, const char* vfs) noexcept;

 private:
  struct Close {
    void operator()(sqlite3* connection) const noexcept;
  };
  Result<void> expect_ok(int code) const;
  Result<size_t> read_begin(std::span<char> bytes);

  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace sluice::store
