#include <string_view>
#include <utility>

#include "store/database.hpp"
#include "transfer/complaints.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/go_ratelimit_tables.hpp"
#include "transfer/go_time.hpp"
#include "transfer/new_file.hpp"
#include "transfer/writable.hpp"

namespace sluice::transfer {
namespace {

// The file has no name yet: nothing needs to survive a crash before publish() asks for it.
constexpr const char* begin_sql = R"(
  PRAGMA journal_mode=OFF;
  PRAGMA synchronous=OFF;
  BEGIN;
  CREATE TABLE quotas(model TEXT PRIMARY KEY, max_rpm INTEGER NOT NULL DEFAULT 0,
    max_tpm INTEGER NOT NULL DEFAULT 0, max_rpd INTEGER NOT NULL DEFAULT 0);
  CREATE TABLE requests(model TEXT NOT NULL, ts INTEGER NOT NULL);
  CREATE TABLE tokens(model TEXT NOT NULL, ts INTEGER NOT NULL, count INTEGER NOT NULL);
  CREATE TABLE daily(model TEXT PRIMARY KEY, day_start INTEGER NOT NULL,
    day_count INTEGER NOT NULL DEFAULT 0);
)";
// Faster when the rows are there.
constexpr const char* end_sql = R"(
  CREATE INDEX idx_requests_model_ts ON requests(model, ts);
  CREATE INDEX idx_tokens_model_ts ON tokens(model, ts);
  COMMIT;
)";

class Insert {
 public:
  static store::Result<Insert> prepare(store::Database& database, const GoRatelimitTable& table) {
    std::string sql = "INSERT INTO " + std::string(table.name) + " VALUES(?1";
    for (size_t i = 0; i < table.numbers_count; ++i) sql.append(",?").append(std::to_string(i + 2));
    store::Result<store::Statement> statement = database.prepare(sql.append(")"));
    if (!statement) return tl::unexpected(std::move(statement.error()));
    return Insert(std::move(*statement));
  }

  template <typename... Number>
  store::Result<void> run(std::string_view model, Number... numbers) {
    statement_.bind(1, model);
    int parameter = 1;
    (statement_.bind(++parameter, int64_t{numbers}), ...);
    return statement_.run();
  }

 private:
  explicit Insert(store::Statement&& statement) noexcept : statement_(std::move(statement)) {}

  store::Statement statement_;
};

store::Result<void> insert_quotas(store::Database& database, const GoRatelimitFile& file) {
  store::Result<Insert> insert = Insert::prepare(database, quotas_table);
  if (!insert) return tl::unexpected(std::move(insert.error()));
  for (const auto& [model, quota] : file.quotas) {
    const auto done = insert->run(model, quota.max_rpm, quota.max_tpm, quota.max_rpd);
    if (!done) return done;
  }
  return {};
}

store::Result<void> insert_requests(store::Database& database, const GoRatelimitFile& file) {
  store::Result<Insert> insert = Insert::prepare(database, requests_table);
  if (!insert) return tl::unexpected(std::move(insert.error()));
  for (const auto& [model, usage] : file.usage) {
    for (const int64_t wall_ns : usage.requests_wall_ns) {
      const auto done = insert->run(model, wall_ns);
      if (!done) return done;
    }
  }
  return {};
}

store::Result<void> insert_tokens(store::Database& database, const GoRatelimitFile& file) {
  store::Result<Insert> insert = Insert::prepare(database, tokens_table);
  if (!insert) return tl::unexpected(std::move(insert.error()));
  for (const auto& [model, usage] : file.usage) {
    for (const TokenEvent& event : usage.tokens) {
      const auto done = insert->run(model, event.wall_ns, event.count);
      if (!done) return done;
    }
  }
  return {};
}

store::Result<void> insert_days(store::Database& database, const GoRatelimitFile& file) {
  store::Result<Insert> insert = Insert::prepare(database, daily_table);
  if (!insert) return tl::unexpected(std::move(insert.error()));
  for (const auto& [model, usage] : file.usage) {
    const int64_t start_ns = usage.day_start_wall_ns.value_or(zero_time_unix_ns);
    const auto done = insert->run(model, start_ns, usage.day_count);
    if (!done) return done;
  }
  return {};
}

store::Result<void> fill(const std::string& path, const GoRatelimitFile& file) {
  store::Result<store::Database> database =
      store::Database::open(path, store::Access::write, nullptr);
  if (!database) return tl::unexpected(std::move(database.error()));
  store::Result<void> done = database->execute(begin_sql);
  if (done) done = insert_quotas(*database, file);
  if (done) done = insert_requests(*database, file);
  if (done) done = insert_tokens(*database, file);
  if (done) done = insert_days(*database, file);
  if (done) done = database->execute(end_sql);
  return done;
}

}  // namespace

Complained<void> write_go_ratelimit_sqlite(const std::string& path, const GoRatelimitFile& file) {
  const Complained<void> is_writable = check_writable(file);
  if (!is_writable) return is_writable;
  Complained<NewFile> written = NewFile::create(path);
  if (!written) return tl::unexpected(std::move(written.error()));
  const store::Result<void> done = fill(written->path(), file);
  if (!done) return complain(text_of(done.error()));
  return written->publish();
}

}  // namespace sluice::transfer
