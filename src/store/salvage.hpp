// Reads what can be read of a damaged state file.
// Flow:   open() -> meta(), quota_classes(), run_time_quotas(); list_parts() -> part() for each.
// Shape:  a table is read from both ends up to its first and last damaged page. Between these the
//         parts are sought by their numbers: half of the range at a time, down to single numbers.
// Errors: open(): what is no state file, and a damaged first page, without which no table is found.
//         Everything else is a finding. SQLite's own recovery is not in Debian's library.
// Bounds: seeks_max seeks that fail; what was not sought by then counts as lost.
// Lives:  everything is as of open(). Nothing is written. A part lives until the next one.
// Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/database.hpp"
#include "store/state_reader.hpp"

namespace sluice::store {

inline constexpr uint32_t seeks_max = 20'000;

// The columns of a part that lie in its own page.
struct PartRow {
  int64_t number = 0;
  uint64_t epoch = 0;
  uint32_t shard = 0;
  uint8_t kind = 0;
};

// Numbers that lead to damaged pages; `last` may be far behind the last part.
struct NumberRange {
  int64_t first = 0;
  int64_t last = 0;
  bool operator==(const NumberRange&) const = default;
};

struct PartList {
  std::vector<PartRow> rows;      // by number
  std::vector<NumberRange> lost;  // likewise
};

template <typename Row>
struct SalvagedTable {
  std::vector<Row> rows;
  std::string damage;  // empty: it was read from end to end
};

class Salvage {
 public:
  static Result<Salvage> open(const std::string& path, const char* vfs = nullptr);
  Salvage(Salvage&&) = default;
  Salvage& operator=(Salvage&&) = delete;  // would end a connection before its statements

  SalvagedTable<StoredMeta> meta();
  SalvagedTable<StoredClass> quota_classes();
  SalvagedTable<StoredQuota> run_time_quotas();

  PartList list_parts();
  // None: its bytes cannot be read.
  std::optional<StoredPart> part(int64_t number);

 private:
  Salvage() = default;
  bool read_rows(Statement& statement, NumberRange range, std::vector<PartRow>& rows);
  void read_range(NumberRange range, std::vector<PartRow>& rows, std::vector<NumberRange>& left);
  template <typename Row, typename Read>
  std::string read_rows(const std::string& sql, Read read, std::vector<Row>& rows);
  template <typename Row, typename Read>
  SalvagedTable<Row> read_table(const std::string& columns, const char* table, const char* key,
                                Read read);

  Database database_;
  Statement ascending_, descending_, part_;
};

}  // namespace sluice::store
