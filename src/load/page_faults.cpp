#include "load/page_faults.hpp"

#include <fstream>
#include <sstream>

namespace sluice::load {
namespace {

// Words of proc(5) between the name of the program and `minflt`, and from there to `majflt`.
constexpr int words_before_minor = 7;
constexpr int words_before_major = 1;

void skip(std::istream& words, int count) {
  std::string word;
  for (int i = 0; i < count; ++i) words >> word;
}

}  // namespace

std::optional<PageFaults> read_page_faults(const std::string& stat_file) {
  std::ifstream file{stat_file};
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');  // a name may have blanks and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words{line.substr(name_end + 1)};
  PageFaults faults;
  skip(words, words_before_minor);
  words >> faults.minor;
  skip(words, words_before_major);
  words >> faults.major;
  if (!words) return std::nullopt;
  return faults;
}

std::optional<PageFaults> page_faults_of(pid_t pid) {
  return read_page_faults("/proc/" + std::to_string(pid) + "/stat");
}

}  // namespace sluice::load
