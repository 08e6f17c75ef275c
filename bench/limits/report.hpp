// The results of a run, for people and for programs; and the options that every run has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::limits_bench {

// Cores and duration.
struct Run {
  int server_cpu = -1;  // -1: the kernel chooses
  int client_cpu = -1;
  double seconds = 2;
};

struct Report {
  nlohmann::ordered_json line;
  std::string summary;  // several lines; the last ends with a newline
};

// "0.97 s, 48 % of a core".
std::string cpu_text(double cpu_s, double seconds);

}  // namespace sluice::limits_bench
