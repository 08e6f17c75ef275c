// Prints the flags and where their effects are to be seen, as JSON, for flags_have_effect_test.py.
#include <iostream>
#include <string_view>

#include "config/flag_table.hpp"

namespace {

std::string_view places(sluice::config::Seen seen) {
  using sluice::config::Seen;
  switch (seen) {
    case Seen::process:
      return R"("process")";
    case Seen::rest:
      return R"("rest")";
    case Seen::native:
      return R"("native")";
    case Seen::both:
      return R"("rest", "native")";
    case Seen::rest_connections:
      return R"("rest", "http2")";
    case Seen::connections:
      break;
  }
  return R"("rest", "http2", "native")";
}

}  // namespace

int main() {
  const char* separator = "[\n";
  for (const sluice::config::Flag& flag : sluice::config::flag_table) {
    std::cout << separator << R"({"flag": ")" << flag.name() << R"(", "seen": [)"
              << places(flag.seen) << "]}";
    separator = ",\n";
  }
  std::cout << "\n]\n";
}
