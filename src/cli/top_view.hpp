// The display of `sluicegate top`, as lines of text, independent of terminal and server.
// Flow:   the body of GET /top -> read_top() -> Traffic -> TopView::lines() -> screen, or stdout.
// Shape:  a title line, a table of shards with their sum, a table of keys. The key is the last
//         column, and printable.
// Units:  per second where the column says so; columns of the terminal.
// Errors: read_top() throws std::runtime_error for a body that is no answer of GET /top.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

struct TrafficRates {
  double decisions = 0;
  double approved = 0;
  double denied = 0;
  double queued = 0;
};

struct ShardTraffic {
  uint32_t shard = 0;
  TrafficRates rates;
  uint64_t waiting = 0;
  uint64_t keys = 0;
  uint64_t connections = 0;
};

struct KeyRow {
  std::string key;
  bool cut = false;
  uint32_t shard = 0;
  TrafficRates rates;
  std::optional<uint64_t> waiting;
};

struct Traffic {
  std::string version;
  std::vector<ShardTraffic> shards;
  std::vector<KeyRow> keys;
};

Traffic read_top(std::string_view body);

enum class SortBy : uint8_t { decisions, approved, denied, waiting };

struct Line {
  enum class Style : uint8_t { plain, title, header, warning };
  std::string text;
  Style style = Style::plain;
};

struct TopView {
  std::string address;
  Traffic traffic;
  SortBy sort_by = SortBy::decisions;
  std::string fault;                  // why the last request failed; empty: it did not
  std::chrono::seconds fault_age{0};  // since when

  // Everything, or what fits. A narrow line is cut at the right, also within a key.
  std::vector<Line> lines() const;
  std::vector<Line> lines(size_t columns, size_t rows) const;
};

// "0", "3.1", "204", "12.3k", "4.56M".
std::string compact(double number);

// Its first `columns` columns; wide characters take two.
std::string cut_to(std::string_view text, size_t columns);

}  // namespace sluice::cli
