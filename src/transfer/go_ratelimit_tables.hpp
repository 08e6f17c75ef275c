// The tables of go-ratelimit's database.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::transfer {

inline constexpr size_t table_numbers_max = 3;

struct GoRatelimitTable {
  std::string_view name;
  // Behind "model", which each has first; all are whole numbers.
  std::array<std::string_view, table_numbers_max> numbers;
  size_t numbers_count;
};

inline constexpr GoRatelimitTable quotas_table{"quotas", {"max_rpm", "max_tpm", "max_rpd"}, 3};
inline constexpr GoRatelimitTable requests_table{"requests", {"ts"}, 1};
inline constexpr GoRatelimitTable tokens_table{"tokens", {"ts", "count"}, 2};
inline constexpr GoRatelimitTable daily_table{"daily", {"day_start", "day_count"}, 2};

inline constexpr std::array<const GoRatelimitTable*, 4> go_ratelimit_tables{
    &quotas_table, &requests_table, &tokens_table, &daily_table};

// Of a complaint.
inline std::string place_of(const GoRatelimitTable& table) {
  return "table " + std::string(table.name);
}

}  // namespace sluice::transfer
