// A quota as JSON <-> api::Quota.
// Flow:   the configuration file, a profile, the body of a PUT -> read_quota() -> api::Quota;
//         a quota of a frame -> check_quota(); quota_json() -> what a GET tells.
// Shape:  {"limits": [{"name": "tpm", "metric": "tokens", "amount": 30000, "period_ms": 60000,
//                      "kind": "sliding"}, ...], "expired": "keep", "overtakers": 0}
//         `amount` may be "unlimited" or "block". Calendar: `period` and `time_zone` in the place
//         of `period_ms`. Concurrency: none of them, no `kind`. null: not told. As a GET tells it
//         there is more: how each limit stands, and where the quota came from.
// Errors: a complaint names the limit by its place and name, the field, and the cure; all of them
//         are told at once.
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
  std::vector<std::string> complaints;  // none: the quota is good
};

enum class Form : uint8_t {
  written,   // every field counts
  reported,  // or as a GET tells it: what that adds is passed over, so that it can be put back
};

// Of Form::told.
ParsedQuota parse_quota(std::string_view text);

// Complaints begin with `place`, if it is not empty. Fields named in `others` are the caller's.
api::Quota read_quota(const text::Json& object, const std::string& place,
                      std::span<const std::string_view> others,
                      std::vector<std::string>& complaints, Form form = Form::written);

// Of a quota that did not come as JSON: what is wrong with it. What may be left out is filled in.
std::vector<std::string> check_quota(api::Quota& quota);

// What read_quota() reads back as the same quota, without what nobody has to say.
text::Json limit_json(const api::Limit& limit);
text::Json quota_json(const api::Quota& quota);

}  // namespace sluice::policy
