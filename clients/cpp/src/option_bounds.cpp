#include "option_bounds.hpp"

#include <stdexcept>
#include <string>

namespace sluicegate {
namespace {

std::string number(const Bound& bound, uint64_t value) {
  // A negative time has wrapped around.
  return bound.counted == Counted::milliseconds ? std::to_string(static_cast<int64_t>(value))
                                                : std::to_string(value);
}

// " ms"; of what has no unit of its own: "".
std::string_view unit(Counted counted) noexcept {
  switch (counted) {
    case Counted::number:
    case Counted::entries:
      return "";
    case Counted::milliseconds:
      return " ms";
    case Counted::bytes:
      return " bytes";
    case Counted::names:
      return " names";
  }
  return "";
}

std::string range(const Bound& bound) {
  std::string text = number(bound, bound.least) + " to " + number(bound, bound.greatest);
  text += unit(bound.counted);
  if (bound.besides) text.append(", or ").append(bound.besides_text);
  return text;
}

std::string complaint(const Bound& bound, uint64_t value) {
  const std::string most = number(bound, bound.greatest);
  const std::string given = number(bound, value);
  switch (bound.counted) {
    case Counted::bytes:
    case Counted::entries:
      if (value < bound.least) return "is empty";
      return std::string{"has "}.append(given).append(unit(bound.counted)) + "; at most " + most +
             " are allowed";
    case Counted::names:
      return "must have " + range(bound) + ", not " + given;
    case Counted::number:
    case Counted::milliseconds:
      break;
  }
  const bool is_range = bound.least > 0 || bound.besides || bound.counted == Counted::milliseconds;
  return "must be " + (is_range ? range(bound) : "at most " + most) + ", not " + given;
}

}  // namespace

void throw_outside(const Bound& bound, uint64_t value, std::string_view place) {
  throw std::invalid_argument(
      std::string{place}.append(bound.name).append(": ").append(complaint(bound, value)));
}

}  // namespace sluicegate
