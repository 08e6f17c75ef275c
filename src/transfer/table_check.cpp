#include "transfer/table_check.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "transfer/database_rows.hpp"
#include "transfer/go_ratelimit_tables.hpp"

namespace sluice::transfer {
namespace {

// A view or a virtual table could have any number of rows, and any code behind each.
void check_tables(store::Database& database, Complaints& complaints) {
  std::array<bool, go_ratelimit_tables.size()> found{};
  constexpr std::string_view sql =
      "SELECT name, type, rootpage FROM sqlite_schema"
      " WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
  each_row(database, {.sql = sql}, complaints, [&](const store::Statement& row) {
    const auto table = std::ranges::find(go_ratelimit_tables, row.text(0), &GoRatelimitTable::name);
    if (table == go_ratelimit_tables.end()) {
      return complaints.add("table " + shown_name(row.text(0)), "is unknown");
    }
    found[static_cast<size_t>(table - go_ratelimit_tables.begin())] = true;
    if (row.text(1) != "table" || row.integer(2) == 0) {
      complaints.add(place_of(**table), "is a view or a virtual table");
    }
  });
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) complaints.add(place_of(*go_ratelimit_tables[i]), "is missing");
  }
}

std::string_view column_name(const GoRatelimitTable& table, size_t column) noexcept {
  return column == 0 ? "model" : table.numbers[column - 1];
}

// One more than there are: it is none of them.
size_t column_of(const GoRatelimitTable& table, std::string_view name) noexcept {
  size_t column = 0;
  while (column <= table.numbers_count && column_name(table, column) != name) ++column;
  return column;
}

void check_columns(store::Database& database, const GoRatelimitTable& table,
                   Complaints& complaints) {
  std::array<bool, table_numbers_max + 2> found{};
  const Query query{.place = place_of(table),
                    .sql = "SELECT name, hidden FROM pragma_table_xinfo(?1)",
                    .parameter = table.name};
  each_row(database, query, complaints, [&](const store::Statement& row) {
    const size_t column = column_of(table, row.text(0));
    const std::string place = place_of(table) + ", column " + shown_name(row.text(0));
    found[column] = true;
    if (column > table.numbers_count) return complaints.add(place, "is unknown");
    if (row.integer(1) != 0) complaints.add(place, "is generated");
  });
  for (size_t i = 0; i <= table.numbers_count; ++i) {
    if (found[i]) continue;
    complaints.add(place_of(table) + ", column " + std::string(column_name(table, i)),
                   "is missing");
  }
}

// A damaged file could have the same page at many places, and so rows without end.
void check_pages(store::Database& database, Complaints& complaints) {
  const auto damage = database.quick_check();
  if (!damage) return complaints.add({}, text_of(damage.error()));
  for (const std::string& text : *damage) complaints.add({}, "is damaged: " + text);
}

}  // namespace

void check_database(store::Database& database, Complaints& complaints) {
  check_tables(database, complaints);
  if (!complaints.empty()) return;
  for (const GoRatelimitTable* table : go_ratelimit_tables) {
    check_columns(database, *table, complaints);
  }
  if (complaints.empty()) check_pages(database, complaints);
}

}  // namespace sluice::transfer
