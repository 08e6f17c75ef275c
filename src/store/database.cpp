#include "store/database.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/assert.hpp"

namespace sluice::store {
namespace {

// A commit that finds the file locked is tried again by the writer; a reader has nobody who does.
constexpr int write_busy_timeout_ms = 100;
constexpr int read_busy_timeout_ms = 2'000;
constexpr int64_t copied_bytes = 64 * 1'024;  // of FILE-wal at a time; SQLite takes less than 128

FailureKind kind_of_io(int code, int system_errno) noexcept {
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) return FailureKind::fsync;
  if (system_errno == ENOSPC || system_errno == EDQUOT) return FailureKind::full;
  if (system_errno == EROFS) return FailureKind::readonly;
  return FailureKind::io;
}

FailureKind kind_of(int code, int system_errno) noexcept {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return FailureKind::full;
    case SQLITE_IOERR:
      return kind_of_io(code, system_errno);
    case SQLITE_READONLY:
      return code == SQLITE_READONLY_DBMOVED ? FailureKind::moved : FailureKind::readonly;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return FailureKind::busy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return FailureKind::corrupt;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return FailureKind::no_access;
    default:
      return FailureKind::io;
  }
}

int flags_of(Access access) noexcept {
  constexpr int common = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (access) {
    case Access::read:
      return common | SQLITE_OPEN_READONLY;
    case Access::write:
      return common | SQLITE_OPEN_READWRITE;
    case Access::immutable:
      break;
  }
  return common | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
}

// A URI, which is the only way to say so. Of a path, three characters would end it or begin
// another.
std::string immutable_name(const std::string& path) {
  std::string name = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      constexpr std::string_view digits = "0123456789ABCDEF";
      name.append({'%', digits[static_cast<size_t>(c) >> 4], digits[static_cast<size_t>(c) & 15]});
    } else {
      name.push_back(c);
    }
  }
  return name + "?immutable=1";
}

// What SQLite says, and what the system said where it was the system that failed.
std::string detail_of(int code, std::string text, int system_errno) {
  const int primary = code & 0xff;
  if ((primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) && system_errno != 0) {
    text.append(": ").append(std::generic_category().message(system_errno));
  }
  return text;
}

Failure failure_of(sqlite3* connection, int code) {
  const char* path = sqlite3_db_filename(connection, "main");
  const int system_errno = sqlite3_system_errno(connection);
  return make_failure(kind_of(code, system_errno), path != nullptr ? path : "",
                      detail_of(code, sqlite3_errmsg(connection), system_errno));
}

// The check reports a page that could not be read as a page that is damaged.
bool is_of_system(std::string_view complaint) noexcept {
  if (complaint.find("failed to get page") != std::string_view::npos) return true;
  constexpr std::string_view mark = "error code=";
  const size_t at = complaint.find(mark);
  if (at == std::string_view::npos) return false;
  int code = 0;
  std::from_chars(complaint.data() + at + mark.size(), complaint.data() + complaint.size(), code);
  return (code & 0xff) == SQLITE_IOERR;
}

// A row of the check has a title and several lines.
void add_lines(std::string_view row, std::vector<std::string>& complaints) {
  while (!row.empty()) {
    const std::string_view line = row.substr(0, row.find('\n'));
    row.remove_prefix(std::min(line.size() + 1, row.size()));
    if (!line.starts_with("***") && line != "ok") complaints.emplace_back(line);
  }
}

}  // namespace

// ---- Statement ---------------------------------------------------------------------------------

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

void Statement::note(int code) noexcept {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
}

Statement& Statement::bind(int parameter, int64_t value) noexcept {
  note(sqlite3_bind_int64(statement_.get(), parameter, value));
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) noexcept {
  const char* const begin = text.data() != nullptr ? text.data() : "";  // null would be NULL
  note(sqlite3_bind_text64(statement_.get(), parameter, begin, text.size(), SQLITE_STATIC,
                           SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int parameter, std::span<const std::byte> blob) noexcept {
  const void* const begin = blob.data() != nullptr ? static_cast<const void*>(blob.data()) : "";
  note(sqlite3_bind_blob64(statement_.get(), parameter, begin, blob.size(), SQLITE_STATIC));
  return *this;
}

Result<bool> Statement::step() {
  const int bound = std::exchange(bind_code_, SQLITE_OK);
  const int code = bound != SQLITE_OK ? bound : sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Failure failure = failure_of(sqlite3_db_handle(statement_.get()), code);
  reset();
  return tl::unexpected(std::move(failure));
}

Result<void> Statement::run() {
  while (true) {
    const Result<bool> row = step();
    if (!row) return tl::unexpected(row.error());
    if (!*row) return {};
  }
}

void Statement::reset() noexcept {
  sqlite3_reset(statement_.get());  // repeats the code of the last step
}

ValueType Statement::type(int column) const noexcept {
  switch (sqlite3_column_type(statement_.get(), column)) {
    case SQLITE_INTEGER:
      return ValueType::integer;
    case SQLITE_FLOAT:
      return ValueType::real;
    case SQLITE_TEXT:
      return ValueType::text;
    case SQLITE_BLOB:
      return ValueType::blob;
    default:
      return ValueType::null;
  }
}

int64_t Statement::integer(int column) const noexcept {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::text(int column) const noexcept {
  const unsigned char* const begin = sqlite3_column_text(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return {reinterpret_cast<const char*>(begin), static_cast<size_t>(bytes)};
}

std::span<const std::byte> Statement::blob(int column) const noexcept {
  const void* const begin = sqlite3_column_blob(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const std::byte*>(begin), static_cast<size_t>(bytes)};
}

// ---- Database ----------------------------------------------------------------------------------

void Database::Close::operator()(sqlite3* connection) const noexcept {
  const int code = sqlite3_close(connection);
  ASSERT(code == SQLITE_OK);  // else a statement has outlived its connection
}

Result<Database> Database::open(const std::string& path, Access access, const char* vfs) {
  const std::string name = access == Access::immutable ? immutable_name(path) : path;
  Database database;
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &connection, flags_of(access), vfs);
  database.connection_.reset(connection);
  if (code != SQLITE_OK) {
    const int system_errno = connection == nullptr ? 0 : sqlite3_system_errno(connection);
    return fail(kind_of(code, system_errno), path,
                detail_of(code, sqlite3_errstr(code), system_errno));
  }
  sqlite3_busy_timeout(connection,
                       access == Access::write ? write_busy_timeout_ms : read_busy_timeout_ms);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return database;
}

bool Database::is_readonly() const noexcept {
  return sqlite3_db_readonly(connection_.get(), "main") == 1;
}

std::string Database::path() const {
  return sqlite3_db_filename(connection_.get(), "main");
}

Result<void> Database::expect_ok(int code) const {
  if (code == SQLITE_OK) return {};
  return tl::unexpected(failure_of(connection_.get(), code));
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(failure_of(connection_.get(), code));
  return Statement(statement);
}

Result<void> Database::execute(const std::string& sql) {
  return expect_ok(sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr));
}

Result<int64_t> Database::integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return tl::unexpected(std::move(statement.error()));
  const Result<bool> row = statement->step();
  if (!row) return tl::unexpected(row.error());
  ASSERT(*row);
  return statement->integer(0);
}

Result<std::string> Database::text(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return tl::unexpected(std::move(statement.error()));
  const Result<bool> row = statement->step();
  if (!row) return tl::unexpected(row.error());
  ASSERT(*row);
  return std::string(statement->text(0));
}

Result<std::vector<std::string>> Database::quick_check() {
  Result<Statement> statement =
      prepare("PRAGMA quick_check(" + std::to_string(complaints_max) + ")");
  if (!statement) return tl::unexpected(std::move(statement.error()));
  std::vector<std::string> complaints;
  while (true) {
    const Result<bool> row = statement->step();
    // Damage of some kinds ends the check itself.
    if (!row && row.error().kind != FailureKind::corrupt) return tl::unexpected(row.error());
    if (!row) complaints.push_back(row.error().detail);
    if (!row || !*row) break;
    add_lines(statement->text(0), complaints);
  }
  const auto unread = std::ranges::find_if(complaints, is_of_system);
  if (unread != complaints.end()) return fail(FailureKind::io, path(), *unread);
  return complaints;
}

Result<void> Database::expect_sound_pages() {
  const auto complaints = quick_check();
  if (!complaints) return tl::unexpected(complaints.error());
  if (complaints->empty()) return {};
  return fail(FailureKind::damaged, path(), complaints->front());
}

// By SQLite's own descriptor: to close another one of this file would drop its locks. Returns how
// much of it there is.
Result<size_t> Database::read_begin(std::span<char> bytes) {
  sqlite3_file* file = nullptr;
  int code = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  sqlite3_int64 size_bytes = 0;
  if (code == SQLITE_OK) code = file->pMethods->xFileSize(file, &size_bytes);
  const size_t read = std::min(bytes.size(), static_cast<size_t>(size_bytes));
  if (code == SQLITE_OK)
    code = file->pMethods->xRead(file, bytes.data(), static_cast<int>(read), 0);
  if (code != SQLITE_OK) return fail(kind_of(code, 0), path(), sqlite3_errstr(code));
  return read;
}

Result<bool> Database::is_database() {
  constexpr std::string_view magic{"SQLite format 3\0", 16};
  std::array<char, magic.size()> begin{};
  const Result<size_t> read = read_begin(begin);
  if (!read) return tl::unexpected(read.error());
  return std::string_view(begin.data(), *read) == magic;
}

Result<bool> Database::is_in_wal_mode() {
  constexpr size_t version_at = 18;
  constexpr char wal_version = 2;
  std::array<char, version_at + 1> begin{};
  const Result<size_t> read = read_begin(begin);
  if (!read) return tl::unexpected(read.error());
  return begin[version_at] == wal_version;
}

Result<void> Database::distrust() {
  sqlite3_limit(connection_.get(), SQLITE_LIMIT_LENGTH, value_bytes_max);
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return execute("PRAGMA ignore_check_constraints=ON; PRAGMA cell_size_check=ON");
}

bool Database::in_transaction() const noexcept {
  return sqlite3_get_autocommit(connection_.get()) == 0;
}

void Database::count_wal_pages_in(int& pages) noexcept {
  const auto count = [](void* target, sqlite3*, const char*, int in_wal) {
    *static_cast<int*>(target) = in_wal;
    return SQLITE_OK;
  };
  sqlite3_wal_hook(connection_.get(), count, &pages);
}

Result<void> Database::checkpoint_passive() {
  const int code = sqlite3_wal_checkpoint_v2(connection_.get(), "main", SQLITE_CHECKPOINT_PASSIVE,
                                             nullptr, nullptr);
  if (code == SQLITE_BUSY) return {};  // another process does one just now
  return expect_ok(code);
}

Result<bool> Database::checkpoint_truncate() {
  const int code = sqlite3_wal_checkpoint_v2(connection_.get(), "main", SQLITE_CHECKPOINT_TRUNCATE,
                                             nullptr, nullptr);
  if (code == SQLITE_BUSY) return false;
  if (code != SQLITE_OK) return tl::unexpected(failure_of(connection_.get(), code));
  return true;
}

void Database::checkpoint_on_close() noexcept {
  sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

Result<void> Database::rewrite_wal() {
  sqlite3_file* wal = nullptr;
  const int found =
      sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (found != SQLITE_OK) return tl::unexpected(failure_of(connection_.get(), found));
  if (wal == nullptr || wal->pMethods == nullptr) return {};  // not in WAL mode
  const sqlite3_io_methods& methods = *wal->pMethods;
  sqlite3_int64 size_bytes = 0;
  int code = methods.xFileSize(wal, &size_bytes);
  std::vector<char> buffer(static_cast<size_t>(std::min<int64_t>(size_bytes, copied_bytes)));
  for (int64_t at = 0; code == SQLITE_OK && at < size_bytes; at += copied_bytes) {
    const int bytes = static_cast<int>(std::min<int64_t>(size_bytes - at, copied_bytes));
    code = methods.xRead(wal, buffer.data(), bytes, at);
    if (code == SQLITE_OK) code = methods.xWrite(wal, buffer.data(), bytes, at);
  }
  if (code == SQLITE_OK) code = methods.xSync(wal, SQLITE_SYNC_NORMAL);
  if (code == SQLITE_OK) return {};
  return fail(kind_of(code, 0), sqlite3_db_filename(connection_.get(), "main"),
              sqlite3_errstr(code));
}

Result<void> Database::sync_file() {
  sqlite3_file* file = nullptr;
  int code = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code == SQLITE_OK) code = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  if (code == SQLITE_OK) return {};
  return fail(kind_of(code, 0), path(), sqlite3_errstr(code));
}

void Database::remove_file(const std::string& path, const char* vfs) noexcept {
  sqlite3_vfs* const found = sqlite3_vfs_find(vfs);
  if (found != nullptr) found->xDelete(found, path.c_str(), 0);
}

}  // namespace sluice::store
