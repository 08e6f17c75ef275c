#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "text/utf8.hpp"
#include "transfer/complaints.hpp"
#include "transfer/database_rows.hpp"
#include "transfer/database_snapshot.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/go_ratelimit_tables.hpp"
#include "transfer/go_time.hpp"
#include "transfer/table_check.hpp"

namespace sluice::transfer {
namespace {

struct Row {
  int64_t number = 0;
  std::string model;
  std::array<int64_t, table_numbers_max> numbers{};
};

std::string_view words_of(store::ValueType type) noexcept {
  switch (type) {
    case store::ValueType::null:
      return "is NULL";
    case store::ValueType::integer:
      return "is a number";
    case store::ValueType::real:
      return "is no whole number";
    case store::ValueType::text:
      return "is a text";
    case store::ValueType::blob:
      break;
  }
  return "is a blob";
}

// Empty: the number may be there.
std::string complaint_of(std::string_view column, int64_t number) {
  const bool is_day_start = column == daily_table.numbers[0];
  if (!is_day_start && column != requests_table.numbers[0]) {
    return number < 0 ? std::to_string(number) + " is negative" : "";
  }
  const GoTime time = go_time_of(number);
  if (!time) return std::to_string(number) + " " + std::string(time.error());
  return *time || is_day_start ? "" : "is Go's zero time, at which nothing happened";
}

class Rows {
 public:
  Rows(store::Database& database, Complaints& complaints) noexcept
      : database_(database), complaints_(complaints) {}

  // Sorted by time.
  GoRatelimitFile read() {
    each(quotas_table, [this](const Row& row) { take_quota(row); });
    each(daily_table, [this](const Row& row) { take_day(row); });
    each(requests_table, [this](const Row& row) {
      file_.usage[row.model].requests_wall_ns.push_back(row.numbers[0]);
    });
    each(tokens_table, [this](const Row& row) {
      file_.usage[row.model].tokens.push_back({.wall_ns = row.numbers[0], .count = row.numbers[1]});
    });
    for (auto& [model, usage] : file_.usage) {
      std::ranges::sort(usage.requests_wall_ns);
      std::ranges::stable_sort(usage.tokens, {}, &TokenEvent::wall_ns);
    }
    return std::move(file_);
  }

 private:
  void take_quota(const Row& row) {
    const ModelQuota quota{
        .max_rpm = row.numbers[0], .max_tpm = row.numbers[1], .max_rpd = row.numbers[2]};
    if (!file_.quotas.emplace(row.model, quota).second) complain_twice(quotas_table, row);
  }

  void take_day(const Row& row) {
    const ModelUsage usage{.day_start_wall_ns = go_time_of(row.numbers[0]).value_or(std::nullopt),
                           .day_count = row.numbers[1]};
    if (!file_.usage.emplace(row.model, usage).second) complain_twice(daily_table, row);
  }

  template <typename Take>
  void each(const GoRatelimitTable& table, Take take) {
    std::string sql = "SELECT rowid, model";
    for (size_t i = 0; i < table.numbers_count; ++i) sql.append(", ").append(table.numbers[i]);
    sql.append(" FROM ").append(table.name).append(" ORDER BY rowid");
    each_row(database_, {.place = place_of(table), .sql = sql}, complaints_,
             [&](const store::Statement& statement) {
               Row row{.number = statement.integer(0)};
               const bool has_model = read_model(table, statement, row);
               if (read_numbers(table, statement, row) && has_model) take(row);
             });
  }

  bool read_model(const GoRatelimitTable& table, const store::Statement& statement, Row& row) {
    const store::ValueType type = statement.type(1);
    if (type != store::ValueType::text) {
      complain(table, row, "model", std::string(words_of(type)));
      return false;
    }
    row.model = statement.text(1);
    if (text::is_utf8(row.model)) return true;
    complain(table, row, "model", "is no UTF-8");
    return false;
  }

  bool read_numbers(const GoRatelimitTable& table, const store::Statement& statement, Row& row) {
    bool is_good = true;
    for (size_t i = 0; i < table.numbers_count; ++i) {
      const int column = static_cast<int>(i) + 2;
      const store::ValueType type = statement.type(column);
      row.numbers[i] = statement.integer(column);
      std::string complaint{words_of(type)};
      if (type == store::ValueType::integer) {
        complaint = complaint_of(table.numbers[i], row.numbers[i]);
      }
      if (complaint.empty()) continue;
      is_good = false;
      complain(table, row, table.numbers[i], std::move(complaint));
    }
    return is_good;
  }

  void complain_twice(const GoRatelimitTable& table, const Row& row) {
    complain(table, row, "model", shown_name(row.model) + " is there twice");
  }

  void complain(const GoRatelimitTable& table, const Row& row, std::string_view column,
                std::string text) {
    complaints_.add(
        place_of(table) + ", row " + std::to_string(row.number) + ": " + std::string(column),
        std::move(text));
  }

  store::Database& database_;
  Complaints& complaints_;
  GoRatelimitFile file_;
};

}  // namespace

Complained<GoRatelimitFile> read_go_ratelimit_sqlite(const std::string& path) {
  Complained<DatabaseSnapshot> snapshot = DatabaseSnapshot::open(path);
  if (!snapshot) return tl::unexpected(std::move(snapshot.error()));
  Complaints complaints;
  check_database(snapshot->database(), complaints);
  GoRatelimitFile file;
  if (complaints.empty()) file = Rows(snapshot->database(), complaints).read();
  const Complained<void> unchanged = snapshot->check_unchanged();
  if (!unchanged) return tl::unexpected(unchanged.error());
  if (!complaints.empty()) return tl::unexpected(complaints.take());
  return file;
}

}  // namespace sluice::transfer
