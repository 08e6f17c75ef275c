#include "text/duration.hpp"

#include <algorithm>
#include <array>

#include "text/number.hpp"

namespace sluice::text {
namespace {

struct Unit {
  std::string_view name;
  int64_t ns;
};

// "us" and "ms" stand before "s", which they end with.
constexpr std::array<Unit, 6> units{{{"us", 1'000},
                                     {"ms", 1'000'000},
                                     {"s", 1'000'000'000},
                                     {"m", 60'000'000'000},
                                     {"h", 3'600'000'000'000},
                                     {"d", 86'400'000'000'000}}};

}  // namespace

std::optional<int64_t> parse_duration(std::string_view text) noexcept {
  const auto unit =
      std::ranges::find_if(units, [&](const Unit& each) { return text.ends_with(each.name); });
  if (unit == units.end()) return std::nullopt;
  text.remove_suffix(unit->name.size());
  const auto number = parse_whole<uint64_t>(text);
  int64_t duration_ns = 0;
  if (!number || __builtin_mul_overflow(*number, unit->ns, &duration_ns)) {
    return std::nullopt;
  }
  return duration_ns;
}

std::string duration_text(uint64_t duration_ms) {
  const auto ms_of = [](const Unit& unit) { return static_cast<uint64_t>(unit.ns / 1'000'000); };
  const auto ms = units.rend() - 2;  // the last resort, which divides all
  const auto longest = std::find_if(
      units.rbegin(), ms, [&](const Unit& unit) { return duration_ms % ms_of(unit) == 0; });
  return std::to_string(duration_ms / ms_of(*longest)) + std::string{longest->name};
}

}  // namespace sluice::text
