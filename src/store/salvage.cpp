#include "store/salvage.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/file_place.hpp"
#include "store/schema.hpp"

namespace sluice::store {
namespace {

constexpr int64_t number_max = std::numeric_limits<int64_t>::max();

// Adjacent ranges become one.
void add_range(std::vector<NumberRange>& ranges, const NumberRange& range) {
  if (!ranges.empty() && ranges.back().last + 1 >= range.first) {
    ranges.back().last = std::max(ranges.back().last, range.last);
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

// SQLite refuses a file that lacks its end, or whose schema is damaged, unless its schema may be
// written: this connection writes nothing.
Result<Salvage> Salvage::open(const std::string& path, const char* vfs) {
  const std::string real = real_path(path);
  const auto status = status_of(real);
  if (status && status->bytes == 0) return fail(FailureKind::empty, real);
  Result<Database> database = Database::open(real, Access::read, vfs);
  if (!database) return tl::unexpected(std::move(database.error()));
  const Result<bool> is_database = database->is_database();
  if (!is_database) return tl::unexpected(is_database.error());
  if (!*is_database) return fail(FailureKind::not_ours, real, "no SQLite database");
  Result<void> done = database->execute(
      "PRAGMA writable_schema=ON; PRAGMA cell_size_check=OFF; PRAGMA trusted_schema=OFF;"
      "PRAGMA temp_store=MEMORY; BEGIN");
  if (done) done = check_marks(*database, real, oldest_schema_version);
  Salvage salvage;
  salvage.database_ = std::move(*database);
  const std::pair<Statement*, const char*> all[] = {
      {&salvage.ascending_,
       "SELECT number, epoch, shard, kind FROM part WHERE number BETWEEN ?1 AND ?2 ORDER BY "
       "number"},
      {&salvage.descending_,
       "SELECT number, epoch, shard, kind FROM part WHERE number BETWEEN ?1 AND ?2 ORDER BY number "
       "DESC"},
      {&salvage.part_, "SELECT epoch, shard, kind, bytes FROM part WHERE number = ?1"}};
  for (const auto& [statement, sql] : all) {
    if (!done) break;
    Result<Statement> prepared = salvage.database_.prepare(sql);
    if (!prepared) done = fail(FailureKind::damaged, real, prepared.error().detail);
    if (prepared) *statement = std::move(*prepared);
  }
  if (done) return salvage;
  return tl::unexpected(before_use(std::move(done.error()), real));
}

// ---- tables of few rows ------------------------------------------------------------------------

// From both ends, which meet at the damage.
template <typename Row, typename Read>
SalvagedTable<Row> Salvage::read_table(const std::string& columns, const char* table,
                                       const char* key, Read read) {
  const std::string sql = "SELECT " + columns + " FROM " + table + " ORDER BY " + key;
  SalvagedTable<Row> found;
  found.damage = read_rows(sql, read, found.rows);
  if (found.damage.empty()) return found;
  std::vector<Row> downwards;
  read_rows(sql + " DESC", read, downwards);
  const auto met =
      found.rows.empty() ? downwards.end() : std::ranges::find(downwards, found.rows.back());
  found.rows.insert(found.rows.end(), downwards.begin(), met);
  return found;
}

// Up to the first damage, which it returns.
template <typename Row, typename Read>
std::string Salvage::read_rows(const std::string& sql, Read read, std::vector<Row>& rows) {
  Result<Statement> statement = database_.prepare(sql);
  if (!statement) return statement.error().detail;
  while (true) {
    const Result<bool> row = statement->step();
    if (!row) return row.error().detail;
    if (!*row) return {};
    rows.push_back(read(*statement));
  }
}

SalvagedTable<StoredMeta> Salvage::meta() {
  return read_table<StoredMeta>("key, value", "meta", "key", [](const Statement& row) {
    return StoredMeta{.key = std::string(row.text(0)), .value = std::string(row.text(1))};
  });
}

SalvagedTable<StoredClass> Salvage::quota_classes() {
  return read_table<StoredClass>("id, quota", "quota_class", "id", [](const Statement& row) {
    return StoredClass{.id = static_cast<uint64_t>(row.integer(0)),
                       .quota = std::string(row.text(1))};
  });
}

SalvagedTable<StoredQuota> Salvage::run_time_quotas() {
  return read_table<StoredQuota>("name, quota, put_at", "run_time_quota", "name",
                                 [](const Statement& row) {
                                   return StoredQuota{.name = std::string(row.text(0)),
                                                      .quota = std::string(row.text(1)),
                                                      .put_at = row.integer(2)};
                                 });
}

// ---- parts -------------------------------------------------------------------------------------

// True: to the end of the range.
bool Salvage::read_rows(Statement& statement, NumberRange range, std::vector<PartRow>& rows) {
  statement.bind(1, range.first).bind(2, range.last);
  while (true) {
    const Result<bool> row = statement.step();
    if (!row || !*row) return row.has_value();
    rows.push_back({.number = statement.integer(0),
                    .epoch = static_cast<uint64_t>(statement.integer(1)),
                    .shard = static_cast<uint32_t>(statement.integer(2)),
                    .kind = static_cast<uint8_t>(statement.integer(3))});
  }
}

// What is left lies between the first damaged page and the last one.
void Salvage::read_range(NumberRange range, std::vector<PartRow>& rows,
                         std::vector<NumberRange>& left) {
  std::vector<PartRow> lower;
  const bool is_sound = read_rows(ascending_, range, lower);
  rows.insert(rows.end(), lower.begin(), lower.end());
  if (is_sound) return;
  if (!lower.empty()) range.first = lower.back().number + 1;
  if (lower.empty() || range.first <= range.last) {
    std::vector<PartRow> upper;
    read_rows(descending_, range, upper);
    rows.insert(rows.end(), upper.begin(), upper.end());
    if (!upper.empty()) range.last = upper.back().number - 1;
  }
  if (range.first <= range.last) left.push_back(range);
}

// Lower halves first: behind the last part there is no end to seek.
PartList Salvage::list_parts() {
  PartList found;
  std::vector<NumberRange> left{{1, number_max}};
  uint32_t seeks = 0;
  while (!left.empty()) {
    const NumberRange range = left.back();
    left.pop_back();
    std::vector<NumberRange> damaged;
    if (seeks < seeks_max) read_range(range, found.rows, damaged);
    if (seeks >= seeks_max) damaged.push_back(range);
    if (damaged.empty()) continue;
    ++seeks;
    const NumberRange rest = damaged.front();
    if (rest.first == rest.last || seeks >= seeks_max) {
      add_range(found.lost, rest);
      continue;
    }
    const int64_t middle = rest.first + (rest.last - rest.first) / 2;
    left.push_back({middle + 1, rest.last});
    left.push_back({rest.first, middle});
  }
  std::ranges::sort(found.rows, {}, &PartRow::number);
  const auto is_same = [](const PartRow& one, const PartRow& other) {
    return one.number == other.number;
  };
  found.rows.erase(std::unique(found.rows.begin(), found.rows.end(), is_same), found.rows.end());
  return found;
}

std::optional<StoredPart> Salvage::part(int64_t number) {
  part_.reset();
  const Result<bool> row = part_.bind(1, number).step();
  if (!row || !*row) return std::nullopt;
  return StoredPart{.number = number,
                    .epoch = static_cast<uint64_t>(part_.integer(0)),
                    .shard = static_cast<uint32_t>(part_.integer(1)),
                    .kind = static_cast<uint8_t>(part_.integer(2)),
                    .bytes = part_.blob(3)};
}

}  // namespace sluice::store
