#include "transfer/go_time.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/time.hpp"

namespace sluice::transfer {
namespace {

constexpr std::string_view no_time = "is no time such as 2026-02-19T10:00:00.5+01:00";
constexpr std::string_view too_early = "is before 1970";
constexpr std::string_view too_late = "is after 2262, which does not fit into 64 bits";
constexpr size_t fraction_digits_max = 9;

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// Takes the parts of a text off its begin; after the first that is not there, nothing more counts.
class Parts {
 public:
  explicit Parts(std::string_view text) noexcept : rest_(text) {}

  bool good() const noexcept { return good_; }
  bool at_end() const noexcept { return rest_.empty(); }
  bool next_is(char c) const noexcept { return good_ && rest_.starts_with(c); }

  void take(char c) noexcept {
    good_ = next_is(c);
    if (good_) rest_.remove_prefix(1);
  }

  // Exactly so many digits, and at most that number.
  int64_t number(size_t digits, int64_t max) noexcept {
    good_ =
        good_ && rest_.size() >= digits && std::ranges::all_of(rest_.substr(0, digits), is_digit);
    if (!good_) return 0;
    int64_t value = 0;
    for (const char c : rest_.substr(0, digits)) value = 10 * value + (c - '0');
    rest_.remove_prefix(digits);
    good_ = value <= max;
    return value;
  }

  int64_t fraction_ns() noexcept {
    if (!next_is('.')) return 0;
    take('.');
    const auto digits =
        static_cast<size_t>(std::ranges::find_if_not(rest_, is_digit) - rest_.begin());
    good_ = digits >= 1 && digits <= fraction_digits_max;
    int64_t ns = good_ ? number(digits, base::ns_per_s) : 0;
    for (size_t i = digits; i < fraction_digits_max; ++i) ns *= 10;
    return ns;
  }

  int64_t offset_s() noexcept {
    if (next_is('Z')) {
      take('Z');
      return 0;
    }
    const int64_t sign = next_is('-') ? -1 : 1;
    take(sign < 0 ? '-' : '+');
    const int64_t hours = number(2, 23);
    take(':');
    return sign * (hours * base::s_per_hour + number(2, 59) * 60);
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

// Of a day that there is; else nothing counts any more.
std::optional<int64_t> day_begin_s(int64_t year, int64_t month, int64_t day) noexcept {
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * base::s_per_day;
}

constexpr int64_t zero_time_s = -62'135'596'800;  // 0001-01-01T00:00:00Z

GoTime time_of(int64_t seconds, int64_t ns) noexcept {
  if (seconds == zero_time_s && ns == 0) return std::nullopt;
  int64_t wall_ns = 0;
  if (__builtin_mul_overflow(seconds, base::ns_per_s, &wall_ns) ||
      __builtin_add_overflow(wall_ns, ns, &wall_ns)) {
    return tl::unexpected(seconds < 0 ? too_early : too_late);
  }
  return go_time_of(wall_ns);
}

}  // namespace

GoTime parse_go_time(std::string_view text) noexcept {
  Parts parts(text);
  const int64_t year = parts.number(4, 9'999);
  parts.take('-');
  const int64_t month = parts.number(2, 12);
  parts.take('-');
  const int64_t day = parts.number(2, 31);
  parts.take('T');
  int64_t seconds = parts.number(2, 23) * base::s_per_hour;
  parts.take(':');
  seconds += parts.number(2, 59) * 60;
  parts.take(':');
  seconds += parts.number(2, 59);
  const int64_t ns = parts.fraction_ns();
  seconds -= parts.offset_s();
  if (!parts.good() || !parts.at_end()) return tl::unexpected(no_time);
  const std::optional<int64_t> begin_s = day_begin_s(year, month, day);
  if (!begin_s) return tl::unexpected(no_time);
  return time_of(*begin_s + seconds, ns);
}

GoTime go_time_of(int64_t unix_ns) noexcept {
  if (unix_ns == zero_time_unix_ns) return std::nullopt;
  if (unix_ns < 0) return tl::unexpected(too_early);
  return unix_ns;
}

std::string go_time_text(std::optional<int64_t> wall_ns) {
  if (!wall_ns) return "0001-01-01T00:00:00Z";
  using std::chrono::days;
  const days day{*wall_ns / base::ns_per_day};
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const int64_t seconds = *wall_ns % base::ns_per_day / base::ns_per_s;
  std::array<char, 64> buffer{};
  const int bytes = std::snprintf(
      buffer.data(), buffer.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%09d", int{date.year()},
      unsigned{date.month()}, unsigned{date.day()}, static_cast<int>(seconds / base::s_per_hour),
      static_cast<int>(seconds / 60 % 60), static_cast<int>(seconds % 60),
      static_cast<int>(*wall_ns % base::ns_per_s));
  std::string text(buffer.data(), static_cast<size_t>(bytes));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "Z";
}

}  // namespace sluice::transfer
