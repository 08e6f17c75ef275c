#include "limiter/zone.hpp"

#include <date/tz.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::limiter {
namespace {

constexpr int first_year = 1677;
constexpr int last_year = 2262;
using base::s_per_day;
using base::s_per_hour;

int64_t day_begin_s(std::chrono::year_month_day date) noexcept {
  return std::chrono::sys_days{date}.time_since_epoch().count() * s_per_day;
}

int64_t year_begin_s(int year) noexcept {
  return day_begin_s(std::chrono::year{year} / 1 / 1);
}

// ---- The rule for the years to come: std offset dst [offset] , start [/time] , end [/time] ------

// A day of the year and a time of it, which may lie on another day.
struct RuleDate {
  char form = 'M';  // M: `day` is a weekday of a month; J: of 365, never February 29th; N: of all
  int month = 0;
  int week = 0;  // 5: the last one
  int day = 0;
  int64_t time_s = 2 * s_per_hour;

  int64_t local_s(int year) const noexcept {
    using namespace std::chrono;
    if (form != 'M') {
      const bool leap_day_before = form == 'J' && std::chrono::year{year}.is_leap() && day > 59;
      return year_begin_s(year) + (day - (form == 'J' ? 1 : 0) + leap_day_before) * s_per_day +
             time_s;
    }
    const year_month of = std::chrono::year{year} / std::chrono::month{unsigned(month)};
    const weekday on{unsigned(day)};
    const sys_days found = week == 5 ? sys_days{of / on[last]} : sys_days{of / on[unsigned(week)]};
    return found.time_since_epoch().count() * s_per_day + time_s;
  }
};

struct Rule {
  int64_t standard_offset_s = 0;
  int64_t summer_offset_s = 0;
  RuleDate summer_begin;
  RuleDate summer_end;
};

// Reads from the front of `text`; after the first mismatch the rule is not good.
class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : text_(text) {}

  // Nothing: no rule, or one without changes.
  std::optional<Rule> read() {
    Rule rule;
    skip_name();
    rule.standard_offset_s = -read_time();
    skip_name();
    rule.summer_offset_s =
        !text_.empty() && text_[0] != ',' ? -read_time() : rule.standard_offset_s + s_per_hour;
    rule.summer_begin = read_date();
    rule.summer_end = read_date();
    if (!good_ || !text_.empty()) return std::nullopt;
    return rule;
  }

 private:
  bool skip(char wanted) {
    if (text_.empty() || text_[0] != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }

  void skip_name() {
    const bool quoted = skip('<');
    const size_t end = quoted ? text_.find('>') : text_.find_first_of("+-0123456789,");
    const size_t bytes = end == text_.npos ? text_.size() : end;
    if (bytes < 3 || (quoted && end == text_.npos)) good_ = false;
    text_.remove_prefix(bytes + (quoted && end != text_.npos));
  }

  int read_number(int min, int max) {
    int number = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (error != std::errc{} || number < min || number > max) {
      good_ = false;
      return min;
    }
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return number;
  }

  // [+-]h[:m[:s]]; hours up to a week, as zone files have them.
  int64_t read_time() {
    const bool negative = skip('-');
    if (!negative) skip('+');
    int64_t time_s = read_number(0, 167) * s_per_hour;
    if (skip(':')) time_s += read_number(0, 59) * int64_t{60};
    if (skip(':')) time_s += read_number(0, 59);
    return negative ? -time_s : time_s;
  }

  RuleDate read_date() {
    RuleDate date;
    if (!skip(',')) good_ = false;
    if (skip('M')) {
      date.month = read_number(1, 12);
      if (!skip('.')) good_ = false;
      date.week = read_number(1, 5);
      if (!skip('.')) good_ = false;
      date.day = read_number(0, 6);
    } else {
      date.form = skip('J') ? 'J' : 'N';
      date.day = date.form == 'J' ? read_number(1, 365) : read_number(0, 365);
    }
    if (skip('/')) date.time_s = read_time();
    return date;
  }

  std::string_view text_;
  bool good_ = true;
};

// ---- The system's files -------------------------------------------------------------------------

std::vector<OffsetChange> changes_in_table(const date::time_zone& zone) {
  const date::sys_seconds end{std::chrono::seconds{year_begin_s(last_year + 1)}};
  date::sys_seconds at{std::chrono::seconds{year_begin_s(first_year)}};
  std::vector<OffsetChange> changes;
  while (at < end) {
    const date::sys_info info = zone.get_info(at);
    changes.push_back({.begin_s = at.time_since_epoch().count(), .offset_s = info.offset.count()});
    if (info.end <= at) break;
    at = info.end;
  }
  return changes;
}

// The last line of the zone's file, which the library leaves unread: it holds from the table's last
// change on.
std::string rule_of_file(const std::string& name) {
  std::ifstream file("/usr/share/zoneinfo/" + name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 2 || bytes.back() != '\n') {
    throw std::runtime_error("the file of the time zone " + name + " cannot be read");
  }
  const size_t before = bytes.rfind('\n', bytes.size() - 2);
  return bytes.substr(before + 1, bytes.size() - before - 2);
}

std::unique_ptr<const Zone> load_zone(const std::string& name) {
  if (name == "UTC") {
    return std::make_unique<Zone>(name, std::vector<OffsetChange>{{.begin_s = 0, .offset_s = 0}});
  }
  try {
    std::vector<OffsetChange> changes = changes_in_table(*date::locate_zone(name));
    const int64_t table_end_s = changes.back().begin_s;
    for (const auto& change : changes_of_rule(rule_of_file(name), first_year, last_year)) {
      if (change.begin_s > table_end_s) changes.push_back(change);
    }
    return std::make_unique<Zone>(name, changes);
  } catch (const std::exception&) {
    return nullptr;  // no such zone, or no zones at all
  }
}

}  // namespace

std::vector<OffsetChange> changes_of_rule(std::string_view text, int first, int last) {
  std::vector<OffsetChange> changes;
  const std::optional<Rule> rule = RuleReader(text).read();
  if (!rule) return changes;
  for (int year = first; year <= last; ++year) {
    changes.push_back({.begin_s = rule->summer_begin.local_s(year) - rule->standard_offset_s,
                       .offset_s = rule->summer_offset_s});
    changes.push_back({.begin_s = rule->summer_end.local_s(year) - rule->summer_offset_s,
                       .offset_s = rule->standard_offset_s});
  }
  std::ranges::sort(changes, {}, &OffsetChange::begin_s);
  return changes;
}

Zone::Zone(std::string name, const std::vector<OffsetChange>& changes) : name_(std::move(name)) {
  ASSERT(!changes.empty());
  for (const OffsetChange& change : changes) {
    if (stretches_.empty()) {
      stretches_.push_back(
          {.begin_s = INT64_MIN, .offset_s = change.offset_s, .local_end_s = INT64_MAX});
      continue;
    }
    Stretch& before = stretches_.back();
    ASSERT(change.begin_s > before.begin_s);
    if (change.offset_s == before.offset_s) continue;  // only the name of the time changes
    before.local_end_s = change.begin_s + before.offset_s;
    if (stretches_.size() > 1) {
      const Stretch& earlier = stretches_[stretches_.size() - 2];
      before.local_end_s = std::max(before.local_end_s, earlier.local_end_s);
    }
    stretches_.push_back(
        {.begin_s = change.begin_s, .offset_s = change.offset_s, .local_end_s = INT64_MAX});
  }
  stretches_.shrink_to_fit();
}

size_t Zone::stretch_at(int64_t s) const noexcept {
  const auto after = std::ranges::upper_bound(stretches_, s, {}, &Stretch::begin_s);
  return static_cast<size_t>(after - stretches_.begin()) - 1;
}

int64_t Zone::end_s(size_t stretch) const noexcept {
  return stretch + 1 < stretches_.size() ? stretches_[stretch + 1].begin_s : INT64_MAX;
}

int64_t Zone::first_at(int64_t local_s) const noexcept {
  const auto found = std::ranges::upper_bound(stretches_, local_s, {}, &Stretch::local_end_s);
  ASSERT(found != stretches_.end());
  return std::max(found->begin_s, local_s - found->offset_s);
}

int64_t Zone::latest_local(int64_t s) const noexcept {
  const size_t at = stretch_at(s);
  const int64_t local_s = s + stretches_[at].offset_s;
  return at == 0 ? local_s : std::max(local_s, stretches_[at - 1].local_end_s - 1);
}

const Zone* find_zone(std::string_view name) {
  // Never destroyed: zones outlive every thread that uses them. No more of them than the system has
  // names.
  static std::mutex mutex;
  static auto& zones = *new std::unordered_map<std::string, std::unique_ptr<const Zone>>;
  const std::lock_guard lock(mutex);
  const std::string wanted{name};
  if (const auto found = zones.find(wanted); found != zones.end()) return found->second.get();
  auto zone = load_zone(wanted);
  if (zone == nullptr) return nullptr;
  return (zones[wanted] = std::move(zone)).get();
}

void prepare_zones() {
  try {
    date::get_tzdb();
  } catch (const std::exception&) {
    return;  // the system has no zones: find_zone() fails when one is requested
  }
}

}  // namespace sluice::limiter
