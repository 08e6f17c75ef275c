// The tables of the state file, and the checks that a file has them.
// Flow:   check_header(), before SQLite touches the file -> Database::open() -> check_schema().
// Shape:  a SQLite database in WAL mode; application_id 'SLGS', user_version: the version. Tables:
//           meta(key, value)                    names and values of the server, as text
//           quota_class(id, quota, epoch)       quotas as JSON, by the number that records have,
//                                               and the last epoch that named it
//           run_time_quota(name, quota, put_at) what callers have put for subjects
//           part(number, epoch, shard, kind, bytes)  the log; numbers grow, the last record counts
//         Version 1 is the same; a part of version 2 may be of any kind.
// Errors: empty, not_ours, newer_version, damaged; the file is left as it is.
#pragma once

#include <cstdint>
#include <string>

#include "store/database.hpp"
#include "store/failure.hpp"

namespace sluice::store {

inline constexpr uint32_t application_id = 0x534C4753;  // "SLGS"

// With the next one comes a further step in migration.hpp.
inline constexpr uint32_t schema_version = 2;
inline constexpr uint32_t oldest_schema_version = 1;  // that can be read, and migrated

// Of a new file, which keeps it, as its copies do: files of earlier versions have 16 KiB. SQLite
// takes longer for two pages than for one of twice the size; what a quiet server writes are pages.
inline constexpr uint32_t page_bytes = 32'768;

// Makes the file whole under another name and then renames it, so that a crash never leaves one
// that is empty or lacks tables. There must be no such file. Only its user may read it.
Result<void> create_file(const std::string& path, const char* vfs);

// Reads the first bytes itself. No connection to the file may be open in this process. `oldest`: of
// the versions that are accepted.
Result<void> check_header(const std::string& path, uint32_t oldest = oldest_schema_version);

// Whether FILE-wal belongs to the file, as far as both show it: it may have been left beside
// another one. Opens and closes both: no other connection to them may be open in this process.
Result<void> check_log_belongs(const std::string& path, const char* vfs);

// Also what FILE-wal says about it, and whether that belongs to it. Before the first statement.
Result<void> check_schema(Database& database, const std::string& path,
                          uint32_t oldest = oldest_schema_version);

// The same but for the tables, of which some may be missing.
Result<void> check_marks(Database& database, const std::string& path, uint32_t oldest);

// The tables, and what marks a file as ours, in an empty database. Outside of a transaction.
Result<void> create_tables(Database& database);

// Of a file that has passed.
Result<uint32_t> read_version(Database& database);

// Whether the tables of the present version are there.
Result<void> check_tables(Database& database, const std::string& path);

}  // namespace sluice::store
