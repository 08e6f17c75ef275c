// A quota as JSON <-> api::Quota.
// Flow:   the configuration file, a profile, the body of a PUT -> read_quota() -> api::Quota;
//         a quota of a frame -> check_quota(); quota_json() -> the answer to a GET, or another node
//         -> parse_quota() there.
// Shape:  {"limits": [{"name": "tpm", "metric": "tokens", "amount": 30000, "period_ms": 60000,
//                      "kind": "sliding"}, ...], "expired": "keep", "overtakers": 0}
//         `amount` may be "unlimited" or "block". Calendar: `period` and `time_zone` in the place
//         of `period_ms`. Concurrency: none of them, no `kind`. null counts as absent. The answer
//         to a GET has more fields: the usage of each limit, and the quota's source.
// Errors: a complaint names the limit by its place and name, the field, and the cure; all of them
//         are reported at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/limit.hpp"
#include "text/json.hpp"

namespace sluice::policy {

struct ParsedQuota {
  api::Quota quota;
  std::vector<std::string> complaints;  // none: the quota is valid
  bool is_json = true;
};

enum class Form : uint8_t {
  written,   // as in a file: every field counts
  reported,  // or as a GET answers it: the fields that it adds are ignored, so that it can be put
  sent       // likewise, by another node: its time zones may be missing here
};

ParsedQuota parse_quota(std::string_view text, Form form = Form::reported);

// Whether this machine has the time zones of a quota of Form::sent: no limit of it works without.
bool has_time_zones(const api::Quota& quota);

// Complaints begin with `place`, if it is not empty. The caller reads the fields in `others`.
api::Quota read_quota(const text::Json& object, const std::string& place,
                      std::span<const std::string_view> others,
                      std::vector<std::string>& complaints, Form form = Form::written);

// Checks a quota that did not come as JSON and returns the complaints. Sets optional fields that
// are absent to their defaults. The caller has checked that the enumerators are known.
std::vector<std::string> check_quota(api::Quota& quota);

// How complaints name a limit, `limits[0] ("tpm")`; and the one of too many limits.
std::string limit_place(size_t index, std::string_view name);
std::string limits_complaint(size_t count);

// A number, "unlimited" or "block".
text::Json amount_json(api::Ceiling ceiling, uint64_t amount);
// JSON that read_quota() reads as the same quota; optional fields with their defaults are left out.
text::Json limit_json(const api::Limit& limit);
text::Json quota_json(const api::Quota& quota);

}  // namespace sluice::policy
