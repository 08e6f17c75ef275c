#include "cli/top_view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cwchar>
#include <stdexcept>

#include "cli/native_server.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

using text::Json;

constexpr const char* help_text = "q quit   sort by: d decisions  a approved  n denied  w waiting";

TrafficRates rates_of(const Json& json) {
  return {.decisions = json.at("decisionsPerSecond"),
          .approved = json.at("approvedPerSecond"),
          .denied = json.at("deniedPerSecond"),
          .queued = json.at("queuedPerSecond")};
}

ShardTraffic shard_of(const Json& json) {
  return {.shard = json.at("shard"),
          .rates = rates_of(json),
          .waiting = json.at("waiting"),
          .keys = json.at("keys"),
          .connections = json.at("connections")};
}

KeyRow key_of(const Json& json) {
  KeyRow row{.key = json.at("key"), .shard = json.at("shard"), .rates = rates_of(json)};
  // Not by length: a key that was no UTF-8 is longer now. The server does not know a cut key's
  // queue.
  row.cut = json.at("waiting").is_null();
  if (!row.cut) row.waiting = json.at("waiting").get<uint64_t>();
  return row;
}

double sort_value(const KeyRow& row, SortBy by) {
  switch (by) {
    case SortBy::approved:
      return row.rates.approved;
    case SortBy::denied:
      return row.rates.denied;
    case SortBy::waiting:
      return static_cast<double>(row.waiting.value_or(0));
    case SortBy::decisions:
      break;
  }
  return row.rates.decisions;
}

const char* sort_name(SortBy by) {
  constexpr const char* names[] = {"decisions", "approved", "denied", "waiting"};
  return names[static_cast<size_t>(by)];
}

ShardTraffic sum_of(const std::vector<ShardTraffic>& shards) {
  ShardTraffic sum;
  for (const ShardTraffic& shard : shards) {
    sum.rates.decisions += shard.rates.decisions;
    sum.rates.approved += shard.rates.approved;
    sum.rates.denied += shard.rates.denied;
    sum.rates.queued += shard.rates.queued;
    sum.waiting += shard.waiting;
    sum.keys += shard.keys;
    sum.connections += shard.connections;
  }
  return sum;
}

std::string rate_columns(const TrafficRates& rates) {
  return fmt::format("{:>11}  {:>10}  {:>8}  {:>8}", compact(rates.decisions),
                     compact(rates.approved), compact(rates.denied), compact(rates.queued));
}

Line shard_line(const std::string& name, const ShardTraffic& shard) {
  return {fmt::format("{:>5}  {}  {:>7}  {:>7}  {:>11}", name, rate_columns(shard.rates),
                      shard.waiting, compact(static_cast<double>(shard.keys)), shard.connections)};
}

Line key_line(const KeyRow& row) {
  const std::string waiting = row.waiting ? std::to_string(*row.waiting) : "?";
  return {fmt::format("{:>5}  {}  {:>7}  {}{}", row.shard, rate_columns(row.rates), waiting,
                      printable(row.key), row.cut ? "..." : "")};
}

std::vector<Line> head_lines(const TopView& view) {
  const std::string title =
      fmt::format("sluicegate {} at {}", printable(view.traffic.version), printable(view.address));
  if (view.fault.empty()) return {{title, Line::Style::title}, {""}};
  return {{title, Line::Style::title},
          {fmt::format("NO ANSWER since {} s, the figures below are old: {}",
                       view.fault_age.count(), view.fault),
           Line::Style::warning}};
}

// The first `rows_max` of them, and how many more there are.
std::vector<Line> shard_lines(const TopView& view, size_t rows_max) {
  std::vector<Line> lines{
      {"SHARD  DECISIONS/S  APPROVED/S  DENIED/S  QUEUED/S  WAITING     KEYS  CONNECTIONS",
       Line::Style::header}};
  const auto& shards = view.traffic.shards;
  const size_t shown = shards.size() <= rows_max ? shards.size() : rows_max - 1;
  for (const ShardTraffic& shard : std::span(shards).first(shown)) {
    lines.push_back(shard_line(std::to_string(shard.shard), shard));
  }
  if (shown < shards.size()) {
    lines.push_back({fmt::format("{:>5}  shards more", shards.size() - shown)});
  }
  if (shards.size() > 1) lines.push_back(shard_line("all", sum_of(shards)));
  return lines;
}

std::vector<Line> key_lines(const TopView& view) {
  std::vector<Line> lines{
      {fmt::format("SHARD  DECISIONS/S  APPROVED/S  DENIED/S  QUEUED/S  WAITING  KEY (by {})",
                   sort_name(view.sort_by)),
       Line::Style::header}};
  std::vector<KeyRow> keys = view.traffic.keys;
  std::ranges::stable_sort(keys, [&](const KeyRow& a, const KeyRow& b) {
    return sort_value(a, view.sort_by) > sort_value(b, view.sort_by);
  });
  for (const KeyRow& row : keys) lines.push_back(key_line(row));
  if (keys.empty()) lines.push_back({"       no requests"});
  return lines;
}

// The whole of it with at most so many rows of shards.
std::vector<Line> body_lines(const TopView& view, size_t shard_rows_max) {
  std::vector<Line> lines = head_lines(view);
  const auto append = [&](std::vector<Line> more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  append(shard_lines(view, shard_rows_max));
  lines.push_back({""});
  append(key_lines(view));
  return lines;
}

}  // namespace

Traffic read_top(std::string_view body) {
  try {
    const Json json = Json::parse(body);
    Traffic traffic{.version = json.at("version")};
    for (const Json& shard : json.at("shards")) traffic.shards.push_back(shard_of(shard));
    for (const Json& key : json.at("keys")) traffic.keys.push_back(key_of(key));
    return traffic;
  } catch (const Json::exception& error) {
    throw std::runtime_error(std::string{"the body is not an answer to GET /top: "} + error.what());
  }
}

std::vector<Line> TopView::lines() const {
  return body_lines(*this, std::max<size_t>(traffic.shards.size(), 1));
}

// Shards take half of the screen at most; the last row is the help.
std::vector<Line> TopView::lines(size_t columns, size_t rows) const {
  std::vector<Line> lines = body_lines(*this, std::max<size_t>(rows / 2, 4) - 2);
  lines.resize(std::max<size_t>(rows, 1) - 1);
  lines.push_back({help_text, Line::Style::title});
  for (Line& line : lines) line.text = cut_to(line.text, columns);
  return lines;
}

std::string compact(double number) {
  constexpr const char* units[] = {"", "k", "M", "G"};
  size_t unit = 0;
  while (number >= 999.5 && unit + 1 < std::size(units)) {
    number /= 1'000;
    ++unit;
  }
  if (unit == 0) {
    const bool whole = number >= 99.95 || number == static_cast<double>(static_cast<int>(number));
    return fmt::format("{:.{}f}", number, whole ? 0 : 1);
  }
  const int digits = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", number, digits, units[unit]);
}

std::string cut_to(std::string_view text, size_t columns) {
  std::mbstate_t state{};
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    wchar_t character = 0;
    const size_t bytes = std::mbrtowc(&character, &text[at], text.size() - at, &state);
    const bool known = bytes > 0 && bytes <= text.size() - at;
    if (!known) state = {};
    const int width = known ? std::max(::wcwidth(character), 0) : 1;
    if (used + static_cast<size_t>(width) > columns) break;
    used += static_cast<size_t>(width);
    at += known ? bytes : 1;
  }
  return std::string{text.substr(0, at)};
}

}  // namespace sluice::cli
