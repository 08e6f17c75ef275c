// Goal: docs/protocol.md is true: its tables are the enumerations, its bytes the golden
//       files.
// Method: the document's table rows and hex dumps, read as text.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "api/verdict.hpp"
#include "base/error_code.hpp"
#include "base/limits.hpp"
#include "tests/support/golden_files.hpp"
#include "tests/support/source_folder.hpp"

namespace sluice {
namespace {

std::vector<std::string> document_lines() {
  std::istringstream document(test::read_file(test::source_folder() / "docs" / "protocol.md"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(document, line);) lines.push_back(line);
  return lines;
}

// The lines of the section that begins with this heading.
std::vector<std::string> section(const std::string& heading) {
  std::vector<std::string> lines;
  bool inside = false;
  for (const std::string& line : document_lines()) {
    if (line.starts_with("#")) inside = line == heading;
    if (inside) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream text(row.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    const size_t first = cell.find_first_not_of(" `");
    const size_t last = cell.find_last_not_of(" `");
    cells.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

// Rows of a section's table that begin with a number.
std::vector<std::vector<std::string>> numbered_rows(const std::string& heading) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : section(heading)) {
    if (!line.starts_with("| ") || !std::isdigit(static_cast<unsigned char>(line[2]))) continue;
    rows.push_back(cells_of(line));
  }
  return rows;
}

TEST(ProtocolDocument, has_a_row_for_every_error) {
  const auto rows = numbered_rows("## Errors");
  ASSERT_EQ(rows.size(), static_cast<size_t>(ErrorCode::secret_expected));
  for (size_t index = 0; index < rows.size(); ++index) {
    const auto code = static_cast<ErrorCode>(index + 1);
    ASSERT_EQ(rows[index].size(), 6u) << error_name(code);
    EXPECT_EQ(rows[index][0], std::to_string(index + 1));
    EXPECT_EQ(rows[index][1], error_name(code));
    EXPECT_EQ(rows[index][5], ends_connection(code) ? "yes" : "no") << error_name(code);
  }
}

TEST(ProtocolDocument, has_a_row_for_every_verdict) {
  const auto rows = numbered_rows("## Verdicts");
  ASSERT_EQ(rows.size(), api::verdicts_count);
  for (size_t index = 0; index < rows.size(); ++index) {
    EXPECT_EQ(rows[index][0], std::to_string(index));
    EXPECT_EQ(rows[index][1], api::verdict_name(static_cast<api::Verdict>(index)));
  }
}

TEST(ProtocolDocument, has_a_row_for_every_quota_code) {
  const auto rows = numbered_rows("## Quota codes");
  ASSERT_EQ(rows.size(), api::quota_codes_count);
  for (size_t index = 0; index < rows.size(); ++index) {
    EXPECT_EQ(rows[index][0], std::to_string(index));
    EXPECT_EQ(rows[index][1], api::code_name(static_cast<api::QuotaCode>(index)));
  }
}

TEST(ProtocolDocument, lists_the_limits_in_force) {
  std::string limits_section;
  for (const std::string& line : section("## Limits")) limits_section += line + '\n';
  for (const uint32_t limit :
       {limits::frame_bytes_max, limits::frame_segments_max, limits::frame_entries_max,
        limits::outstanding_frames_max, limits::outstanding_bytes_max,
        limits::connection_waiters_max, limits::client_name_bytes_max, limits::inspect_page_max,
        limits::key_bytes_max, limits::wait_ms_max, limits::permits_max, limits::quota_calls_max,
        limits::quota_limits_max, limits::quota_reports_max, limits::subjects_page_max,
        limits::client_id_bytes_max, limits::lifetime_ms_max}) {
    const std::string digits = std::to_string(limit);
    std::string grouped;  // 262144 is written 262,144
    for (size_t index = 0; index < digits.size(); ++index) {
      if (index > 0 && (digits.size() - index) % 3 == 0) grouped += ',';
      grouped += digits[index];
    }
    EXPECT_NE(limits_section.find("| " + grouped + " |"), std::string::npos) << grouped;
  }
}

// Blocks that open with ```golden NAME show NAME.bin, eight bytes a line:
//   00000010  07 00 00 00 00 00 00 00   what they mean
TEST(ProtocolDocument, shows_golden_files_as_they_are) {
  size_t blocks_count = 0;
  std::string name, shown;
  for (const std::string& line : document_lines()) {
    if (line.starts_with("```golden ")) {
      name = line.substr(10);
      shown.clear();
    } else if (line == "```" && !name.empty()) {
      EXPECT_EQ(shown, test::read_file(test::golden_directory() / (name + ".bin"))) << name;
      ++blocks_count;
      name.clear();
    } else if (!name.empty()) {
      std::istringstream numbers(line.substr(8, 26));
      for (std::string number; numbers >> number;) {
        shown += static_cast<char>(std::stoi(number, nullptr, 16));
      }
    }
  }
  EXPECT_GE(blocks_count, 6u);
}

}  // namespace
}  // namespace sluice
