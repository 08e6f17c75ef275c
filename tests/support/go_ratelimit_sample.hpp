// A file of go-ratelimit with everything that one can have, and what the tests of transfer/ share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/go_ratelimit.hpp"

namespace sluice::test {

inline constexpr int64_t sample_wall_ns = 1'771'495'200'000'000'000;  // 2026-02-19T10:00:00Z

inline transfer::GoRatelimitFile go_ratelimit_sample() {
  transfer::GoRatelimitFile file;
  file.quotas["gpt-4o"] = {.max_rpm = 500, .max_tpm = 30'000};
  file.quotas["local"] = {};
  file.quotas[""] = {.max_rpm = 1, .max_tpm = 2, .max_rpd = INT64_MAX};
  file.usage["gpt-4o"] = {
      .requests_wall_ns = {sample_wall_ns, sample_wall_ns, sample_wall_ns + 1},
      .tokens = {{sample_wall_ns, 90}, {sample_wall_ns, 10}, {sample_wall_ns + 1, 0}},
      .day_start_wall_ns = sample_wall_ns - 3'600'000'000'000,
      .day_count = 3};
  file.usage["not begun"] = {};
  file.usage["day only"] = {.day_start_wall_ns = 0, .day_count = INT64_MAX};
  return file;
}

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string utf8_of(uint32_t character) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto more = [&](int shift, uint32_t value) { return byte(0x80 | (value >> shift & 0x3F)); };
  const uint32_t c = character;
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), more(0, c)};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), more(6, c), more(0, c)};
  return {byte(0xF0 | c >> 18), more(12, c), more(6, c), more(0, c)};
}

// Sorted; so a test sees what was left behind.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// "PLACE: TEXT", a line each.
inline std::string lines_of(const std::vector<transfer::Complaint>& complaints) {
  std::string lines;
  for (const transfer::Complaint& complaint : complaints) {
    lines.append(complaint.place).append(complaint.place.empty() ? "" : ": ");
    lines.append(complaint.text).append("\n");
  }
  return lines;
}

template <typename Value>
std::string lines_of(const transfer::Complained<Value>& outcome) {
  return outcome ? "" : lines_of(outcome.error());
}

}  // namespace sluice::test
