#include "store/check.hpp"

#include <string_view>
#include <utility>

#include "store/file_place.hpp"
#include "store/schema.hpp"

namespace sluice::store {
namespace {

void complain(CheckReport& report, std::string complaint) {
  if (report.complaints.size() < complaints_max) report.complaints.push_back(std::move(complaint));
}

std::optional<std::string> verify_order(const StoredPart& part, uint64_t later_epoch) {
  if (part.epoch <= later_epoch) return std::nullopt;
  return "its epoch " + std::to_string(part.epoch) + " is later than that of the part after it";
}

// From the newest to the oldest.
Result<void> check_parts(StateReader& reader, const VerifyPart& verify, CheckReport& report) {
  uint64_t later_epoch = UINT64_MAX;
  while (true) {
    const auto part = reader.next_part();
    if (!part) return tl::unexpected(part.error());
    if (!*part) return {};
    std::optional<std::string> complaint = verify_order(**part, later_epoch);
    if (!complaint) complaint = verify(**part);
    if (complaint) {
      ++report.damaged_parts_count;
      complain(report, "part " + std::to_string((*part)->number) + ": " + *complaint);
    }
    later_epoch = (*part)->epoch;
  }
}

// Pages that SQLite cannot follow are a finding, not a failure.
Result<void> as_finding(Result<void> done, std::string_view what, CheckReport& report) {
  if (done || done.error().kind != FailureKind::corrupt) return done;
  complain(report, std::string(what) + " cannot all be read: " + done.error().detail);
  return {};
}

Result<void> take_info(StateReader& reader, const ReadPartTime& time_of, CheckReport& report) {
  Result<Info> info = read_info(reader, time_of);
  if (!info) return tl::unexpected(std::move(info.error()));
  report.info = std::move(*info);
  return {};
}

}  // namespace

Result<CheckReport> check(const std::string& path, const ReadPartTime& time_of,
                          const VerifyPart& verify, const char* vfs) {
  CheckReport report;
  const Result<void> log = check_log_belongs(real_path(path), vfs);
  if (!log) return tl::unexpected(log.error());
  Result<StateReader> reader = StateReader::open(path, vfs);
  if (!reader) return tl::unexpected(std::move(reader.error()));
  const auto pages = reader->database().quick_check();
  if (!pages) return tl::unexpected(pages.error());
  for (const std::string& complaint : *pages) complain(report, complaint);
  Result<void> done = as_finding(check_parts(*reader, verify, report), "the parts", report);
  if (done) done = as_finding(take_info(*reader, time_of, report), "the tables", report);
  if (done) done = reader->expect_unchanged();
  if (!done) return tl::unexpected(std::move(done.error()));
  return report;
}

}  // namespace sluice::store
