#include "transfer/writable.hpp"

#include <algorithm>
#include <string_view>

#include "text/utf8.hpp"
#include "transfer/complaints.hpp"

namespace sluice::transfer {
namespace {

class Check {
 public:
  void quota(const std::string& name, const ModelQuota& quota) {
    path_ = "quotas." + shown_name(name);
    check_name(name);
    expect(quota.max_rpm, ".max_rpm");
    expect(quota.max_tpm, ".max_tpm");
    expect(quota.max_rpd, ".max_rpd");
  }

  void usage(const std::string& name, const ModelUsage& usage) {
    path_ = "state." + shown_name(name);
    check_name(name);
    for (const int64_t wall_ns : usage.requests_wall_ns) expect(wall_ns, ".requests");
    for (const TokenEvent& event : usage.tokens) {
      expect(event.wall_ns, ".tokens");
      expect(event.count, ".tokens");
    }
    if (usage.day_start_wall_ns) expect(*usage.day_start_wall_ns, ".day_start");
    expect(usage.day_count, ".day_count");
  }

  Complaints complaints;

 private:
  void check_name(std::string_view name) {
    if (!text::is_utf8(name)) complaints.add(path_, "the name is no UTF-8");
  }

  void expect(int64_t value, std::string_view field) {
    if (value < 0)
      complaints.add(path_ + std::string(field), std::to_string(value) + " is negative");
  }

  std::string path_;
};

}  // namespace

Complained<void> check_writable(const GoRatelimitFile& file) {
  Check check;
  for (const auto& [name, quota] : file.quotas) check.quota(name, quota);
  for (const auto& [name, usage] : file.usage) check.usage(name, usage);
  if (check.complaints.empty()) return {};
  return tl::unexpected(check.complaints.take());
}

}  // namespace sluice::transfer
