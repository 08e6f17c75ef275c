#include "store/state_reader.hpp"

#include <unistd.h>

#include <bit>
#include <utility>

#include "store/file_place.hpp"
#include "store/schema.hpp"

namespace sluice::store {
namespace {

uint64_t as_read(int64_t stored) noexcept {
  return std::bit_cast<uint64_t>(stored);
}

template <typename Row, typename Read>
Result<std::vector<Row>> read_all(Database& database, std::string_view sql, Read read) {
  Result<Statement> statement = database.prepare(sql);
  if (!statement) return tl::unexpected(std::move(statement.error()));
  std::vector<Row> rows;
  while (true) {
    const Result<bool> row = statement->step();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return rows;
    rows.push_back(read(*statement));
  }
}

// A message of SQLite's about such a file would speak of damage.
Result<void> check_is_database(Database& database, const std::string& path) {
  const Result<bool> is_database = database.is_database();
  if (!is_database) return tl::unexpected(is_database.error());
  if (!*is_database) return fail(FailureKind::not_ours, path, "no SQLite database");
  return {};
}

// SQLite needs to write FILE-shm, even to read. Whoever may only read the file lacks that right.
bool may_lack_rights(FailureKind kind, const std::string& path) noexcept {
  const bool is_access = kind == FailureKind::no_access || kind == FailureKind::readonly;
  return is_access && ::access(path.c_str(), R_OK) == 0;
}

Result<void> check_no_log(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal"}) {
    const auto log = status_of(path + suffix);
    if (!log || log->bytes == 0) continue;
    return fail(FailureKind::no_access, path,
                "its FILE" + std::string(suffix) +
                    " belongs to it, and only a user can read both who may write there");
  }
  return {};
}

}  // namespace

// The file's first bytes are left to SQLite: to open and close the file would drop the locks of a
// StateFile in this process.
Result<StateReader> StateReader::open(const std::string& path, const char* vfs) {
  const std::string real = real_path(path);
  const auto status = status_of(real);
  if (status && status->bytes == 0) return fail(FailureKind::empty, real);
  Result<StateReader> reader = open(real, Access::read, vfs);
  if (reader || !may_lack_rights(reader.error().kind, real)) return reader;
  const Result<void> has_all = check_no_log(real);
  if (!has_all) return tl::unexpected(has_all.error());
  Result<StateReader> still = open(real, Access::immutable, vfs);
  if (still) still->still_ = status;
  return still;
}

Result<StateReader> StateReader::open(const std::string& path, Access access, const char* vfs) {
  Result<Database> database = Database::open(path, access, vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  StateReader reader(std::move(*database));
  Result<void> done = check_is_database(reader.database_, path);
  if (done) done = check_schema(reader.database_, path);
  if (done) {
    done = reader.database_.execute(
        "PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY;"
        "BEGIN; SELECT count(*) FROM sqlite_schema;");
  }
  if (!done) return tl::unexpected(before_use(std::move(done.error()), path));
  return reader;
}

Result<void> StateReader::expect_unchanged() const {
  if (!still_) return {};
  const std::string path = database_.path();
  if (status_of(path) == still_ && check_no_log(path)) return {};
  return fail(FailureKind::no_access, path,
              "it was changed while it was read, and beside a running server only a user can read "
              "it who may write there");
}

Result<std::vector<StoredMeta>> StateReader::meta() {
  return read_all<StoredMeta>(
      database_, "SELECT key, value FROM meta ORDER BY key", [](const Statement& row) {
        return StoredMeta{.key = std::string(row.text(0)), .value = std::string(row.text(1))};
      });
}

Result<std::vector<StoredClass>> StateReader::quota_classes() {
  return read_all<StoredClass>(
      database_, "SELECT id, quota FROM quota_class", [](const Statement& row) {
        return StoredClass{.id = as_read(row.integer(0)), .quota = std::string(row.text(1))};
      });
}

Result<std::vector<StoredQuota>> StateReader::run_time_quotas() {
  return read_all<StoredQuota>(database_,
                               "SELECT name, quota, put_at FROM run_time_quota ORDER BY name",
                               [](const Statement& row) {
                                 return StoredQuota{.name = std::string(row.text(0)),
                                                    .quota = std::string(row.text(1)),
                                                    .put_at = row.integer(2)};
                               });
}

Result<void> StateReader::start_parts() {
  Result<Statement> prepared = database_.prepare(
      "SELECT number, epoch, shard, kind, bytes FROM part"
      " WHERE (?1 IS NULL OR shard = ?1) AND (?2 IS NULL OR kind = ?2) ORDER BY number DESC");
  if (!prepared) return tl::unexpected(std::move(prepared.error()));
  parts_ = std::move(*prepared);
  if (shard_) parts_.bind(1, int64_t{*shard_});
  if (kind_) parts_.bind(2, int64_t{*kind_});
  place_ = Place::within_parts;
  return {};
}

void StateReader::begin_again() noexcept {
  parts_ = {};
  place_ = Place::before_parts;
  shard_.reset();
  kind_.reset();
}

Result<std::optional<StoredPart>> StateReader::next_part() {
  if (place_ == Place::after_parts) return std::optional<StoredPart>();
  if (place_ == Place::before_parts) {
    const Result<void> done = start_parts();
    if (!done) return tl::unexpected(done.error());
  }
  const Result<bool> row = parts_.step();
  if (!row || !*row) place_ = Place::after_parts;
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<StoredPart>();
  return std::optional<StoredPart>(StoredPart{.number = parts_.integer(0),
                                              .epoch = as_read(parts_.integer(1)),
                                              .shard = static_cast<uint32_t>(parts_.integer(2)),
                                              .kind = static_cast<uint8_t>(parts_.integer(3)),
                                              .bytes = parts_.blob(4)});
}

}  // namespace sluice::store
