#include "store/info.hpp"

#include <utility>

#include "store/file_place.hpp"

namespace sluice::store {
namespace {

struct Count {
  uint64_t Info::*target;
  const char* sql;
};

constexpr Count counts[] = {
    {&Info::unused_bytes,
     "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"},
    {&Info::parts_count, "SELECT count(*) FROM part"},
    {&Info::parts_bytes, "SELECT coalesce(sum(length(bytes)),0) FROM part"},
    {&Info::first_epoch, "SELECT coalesce((SELECT epoch FROM part ORDER BY number LIMIT 1),0)"},
    {&Info::quota_classes_count, "SELECT count(*) FROM quota_class"},
    {&Info::run_time_quotas_count, "SELECT count(*) FROM run_time_quota"},
};

uint64_t bytes_of(const std::string& path) noexcept {
  const auto status = status_of(path);
  return status ? status->bytes : 0;
}

Result<void> read_newest(Database& database, const ReadPartTime& time_of, Info& info) {
  Result<Statement> newest =
      database.prepare("SELECT epoch, bytes FROM part ORDER BY number DESC LIMIT 1");
  if (!newest) return tl::unexpected(std::move(newest.error()));
  const Result<bool> row = newest->step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return {};
  info.last_epoch = static_cast<uint64_t>(newest->integer(0));
  info.last_commit_wall_ns = time_of(newest->blob(1));
  return {};
}

}  // namespace

Result<Info> read_info(StateReader& reader, const ReadPartTime& time_of) {
  Info info;
  const auto version = reader.database().integer("PRAGMA user_version");
  if (!version) return tl::unexpected(version.error());
  info.schema_version = static_cast<uint32_t>(*version);
  for (const auto& [target, sql] : counts) {
    const auto count = reader.database().integer(sql);
    if (!count) return tl::unexpected(count.error());
    info.*target = static_cast<uint64_t>(*count);
  }
  auto meta = reader.meta();
  if (!meta) return tl::unexpected(std::move(meta.error()));
  info.meta = std::move(*meta);
  const Result<void> newest = read_newest(reader.database(), time_of, info);
  if (!newest) return tl::unexpected(newest.error());
  info.path = reader.database().path();
  info.file_bytes = bytes_of(info.path);
  info.wal_bytes = bytes_of(info.path + "-wal");
  const Result<void> still = reader.expect_unchanged();
  if (!still) return tl::unexpected(still.error());
  return info;
}

Result<Info> read_info(const std::string& path, const ReadPartTime& time_of, const char* vfs) {
  Result<StateReader> reader = StateReader::open(path, vfs);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  return read_info(*reader, time_of);
}

}  // namespace sluice::store
