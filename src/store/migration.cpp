#include "store/migration.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "log/log.hpp"
#include "store/copy.hpp"
#include "store/file_place.hpp"
#include "store/schema.hpp"
#include "store/unfinished_file.hpp"

namespace sluice::store {
namespace {

static_assert(migration_steps.front().from == oldest_schema_version);
static_assert(migration_steps.back().from + 1 == schema_version);

// A server refuses a file with a damaged part when it loads it, and must not have changed it then.
Result<void> check_parts(const MigrationOptions& options) {
  if (!options.verify) return {};
  Result<StateReader> reader = StateReader::open(options.path, options.vfs);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  while (true) {
    const auto part = reader->next_part();
    if (!part) return tl::unexpected(part.error());
    if (!*part) return {};
    const std::optional<std::string> damage = options.verify(**part);
    if (!damage) continue;
    return fail(FailureKind::damaged, options.path,
                "part " + std::to_string((*part)->number) + ": " + *damage);
  }
}

bool have_same_bytes(const std::string& one, const std::string& other) {
  using Bytes = std::istreambuf_iterator<char>;
  std::ifstream first(one, std::ios::binary);
  std::ifstream second(other, std::ios::binary);
  return first.is_open() && second.is_open() &&
         std::equal(Bytes(first), Bytes(), Bytes(second), Bytes());
}

// Of a start that died before it had migrated the file.
Result<void> keep_earlier(const UnfinishedFile& copy) {
  if (have_same_bytes(copy.path(), copy.target())) return {};
  return fail(FailureKind::exists, copy.target(),
              "it is a copy of the file from before an earlier migration");
}

Result<void> copy_older(Database& database, const MigrationOptions& options,
                        const std::string& target) {
  Result<UnfinishedFile> copy = UnfinishedFile::make(target, options.vfs);
  if (!copy) return tl::unexpected(std::move(copy.error()));
  Result<void> done = copy_into(database, *copy, options.vfs);
  if (done) done = copy->set_owner_of(options.path);
  if (!done) return done;
  return status_of(target) ? keep_earlier(*copy) : copy->publish();
}

Result<void> run_steps(Database& database, const MigrationOptions& options, uint32_t version) {
  Result<void> done = database.execute("BEGIN IMMEDIATE");
  for (const MigrationStep& step : options.steps) {
    if (done && step.from >= version) done = database.execute(step.sql);
  }
  if (done) done = database.execute("PRAGMA user_version=" + std::to_string(schema_version));
  if (done) done = check_tables(database, options.path);
  if (done) done = database.execute("COMMIT");
  if (!done && database.in_transaction()) static_cast<void>(database.execute("ROLLBACK"));
  return done;
}

}  // namespace

Result<void> migrate(Database& database, const MigrationOptions& options) {
  const Result<uint32_t> version = read_version(database);
  if (!version) return tl::unexpected(version.error());
  if (*version == schema_version) return {};
  ASSERT(*version < schema_version && *version >= options.steps.front().from);
  const std::string copy = options.path + ".v" + std::to_string(*version);
  Result<void> done = check_parts(options);
  if (done) done = copy_older(database, options, copy);
  if (!done) return done;
  log::info("the state file has an older version: it was copied before it is migrated",
            {{"state", options.path}, {"version", *version}, {"copy", copy}});
  done = run_steps(database, options, *version);
  if (!done) return done;
  log::info("the state file was migrated",
            {{"state", options.path}, {"from", *version}, {"to", schema_version}});
  return {};
}

}  // namespace sluice::store
