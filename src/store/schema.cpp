#include "store/schema.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "io/file_descriptor.hpp"
#include "store/file_place.hpp"

namespace sluice::store {
namespace {

constexpr std::string_view tables_sql = R"(
  CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE quota_class(id INTEGER PRIMARY KEY, quota TEXT NOT NULL, epoch INTEGER NOT NULL)
    STRICT;
  CREATE TABLE run_time_quota(name TEXT PRIMARY KEY NOT NULL, quota TEXT NOT NULL,
    put_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE part(number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, shard INTEGER NOT NULL,
    kind INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
)";
constexpr int64_t tables_count = 4;
constexpr uint32_t first_version_with_these_tables = 1;

// SQLite's header: a text at first, both numbers big-endian at these places.
constexpr std::string_view magic{"SQLite format 3\0", 16};
constexpr size_t header_bytes = 100;
constexpr size_t version_at = 60;
constexpr size_t application_at = 68;
using Header = std::array<char, header_bytes>;

uint32_t number_at(const Header& header, size_t at) noexcept {
  uint32_t number = 0;
  std::memcpy(&number, header.data() + at, sizeof number);
  return __builtin_bswap32(number);
}

Result<void> check_identity(uint32_t application, uint32_t version, uint32_t oldest,
                            const std::string& path) {
  if (application != application_id) return fail(FailureKind::not_ours, path);
  if (version > schema_version) {
    return fail(FailureKind::newer_version, path,
                "it has version " + std::to_string(version) + ", this program knows " +
                    std::to_string(schema_version));
  }
  if (version < oldest) {
    return fail(FailureKind::damaged, path, "there never was a version " + std::to_string(version));
  }
  return {};
}

// WAL mode comes last: what is before it goes into the file itself.
Result<void> write_schema(const std::string& path, const char* vfs) {
  Result<Database> database = Database::open(path, Access::write, vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  Result<void> done = create_tables(*database);
  if (done) done = database->execute("PRAGMA journal_mode=WAL;");
  if (done) database->checkpoint_on_close();
  return done;
}

// A backup has no log. One beside it is of the file whose place the backup has taken, and SQLite
// would mix the two.
Result<void> check_log(Database& database, const std::string& path) {
  const auto log = status_of(path + "-wal");
  if (!log || log->bytes == 0) return {};
  const Result<bool> has_log = database.is_in_wal_mode();
  if (!has_log) return tl::unexpected(has_log.error());
  if (*has_log) return {};
  return fail(FailureKind::moved, path,
              "it is a backup, and the FILE-wal is of another file: delete the FILE-wal");
}

Result<void> make_empty(const std::string& path) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    ::unlink((path + suffix).c_str());  // of a process that died in the middle
  }
  const io::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail_to_open(path, errno);
  return {};
}

}  // namespace

Result<void> create_tables(Database& database) {
  std::string sql = "PRAGMA synchronous=FULL;";
  sql.append("PRAGMA page_size=").append(std::to_string(page_bytes)).append("; BEGIN;");
  sql.append("PRAGMA application_id=").append(std::to_string(application_id)).append(";");
  sql.append("PRAGMA user_version=").append(std::to_string(schema_version)).append(";");
  sql.append(tables_sql).append("COMMIT;");
  return database.execute(sql);
}

Result<void> create_file(const std::string& path, const char* vfs) {
  const std::string unfinished = path + ".new";
  Result<void> done = make_empty(unfinished);
  if (done) done = write_schema(unfinished, vfs);
  if (!done) return done;
  if (::rename(unfinished.c_str(), path.c_str()) != 0) {
    return fail(FailureKind::io, path, error_text(errno));
  }
  return sync_folder_of(path);
}

Result<void> check_header(const std::string& path, uint32_t oldest) {
  const io::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return fail_to_open(path, errno);
  Header header{};
  const ssize_t bytes = ::pread(file.get(), header.data(), header.size(), 0);
  if (bytes < 0) return fail(FailureKind::io, path, error_text(errno));
  if (bytes == 0) return fail(FailureKind::empty, path);
  if (bytes < static_cast<ssize_t>(header.size()) ||
      std::string_view(header.data(), magic.size()) != magic) {
    return fail(FailureKind::not_ours, path, "no SQLite database");
  }
  return check_identity(number_at(header, application_at), number_at(header, version_at), oldest,
                        path);
}

namespace {

// What never changes in a file, and what only grows. Nothing of what cannot be read.
struct Traits {
  std::string seed;
  std::optional<int64_t> epoch;
};

Traits traits_of(const std::string& path, Access access, const char* vfs) {
  Traits traits;
  Result<Database> database = Database::open(path, access, vfs);
  if (!database) return traits;
  const auto seed =
      database->text("SELECT coalesce((SELECT value FROM meta WHERE key = 'name_seed'),'')");
  if (seed) traits.seed = *seed;
  const auto epoch =
      database->integer("SELECT coalesce((SELECT epoch FROM part ORDER BY number DESC LIMIT 1),0)");
  if (epoch) traits.epoch = *epoch;
  return traits;
}

}  // namespace

// Without its log the file may be half a checkpoint: what cannot be read says nothing.
Result<void> check_log_belongs(const std::string& path, const char* vfs) {
  const auto log = status_of(path + "-wal");
  if (!log || log->bytes == 0) return {};
  const Traits without = traits_of(path, Access::immutable, vfs);
  const Traits with = traits_of(path, Access::read, vfs);
  const bool is_other = !without.seed.empty() && !with.seed.empty() && without.seed != with.seed;
  const bool is_older = without.epoch && with.epoch && *without.epoch > *with.epoch;
  if (!is_other && !is_older) return {};
  return fail(FailureKind::moved, path, "the FILE-wal beside it is another file's");
}

Result<uint32_t> read_version(Database& database) {
  const auto version = database.integer("PRAGMA user_version");
  if (!version) return tl::unexpected(version.error());
  return static_cast<uint32_t>(*version);
}

Result<void> check_tables(Database& database, const std::string& path) {
  const auto found = database.integer(
      "SELECT count(*) FROM sqlite_schema WHERE type='table' AND"
      " name IN ('meta','quota_class','run_time_quota','part')");
  if (!found) return tl::unexpected(found.error());
  if (*found != tables_count) return fail(FailureKind::damaged, path, "a table is missing");
  return {};
}

Result<void> check_marks(Database& database, const std::string& path, uint32_t oldest) {
  const Result<void> log = check_log(database, path);
  if (!log) return log;
  const auto application = database.integer("PRAGMA application_id");
  if (!application) return tl::unexpected(application.error());
  const auto version = read_version(database);
  if (!version) return tl::unexpected(version.error());
  return check_identity(static_cast<uint32_t>(*application), *version, oldest, path);
}

Result<void> check_schema(Database& database, const std::string& path, uint32_t oldest) {
  const Result<void> marks = check_marks(database, path, oldest);
  if (!marks) return marks;
  const auto version = read_version(database);
  if (!version) return tl::unexpected(version.error());
  if (*version < first_version_with_these_tables) return {};
  return check_tables(database, path);
}

}  // namespace sluice::store
