#include "rest_answers.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace sluice::simulation {
namespace {

// The status of a decision; the specification, 1.3 and section 0.
int status_of(api::Verdict verdict) {
  switch (verdict) {
    case api::Verdict::approved:
      return 200;
    case api::Verdict::denied:
    case api::Verdict::wait_limit:
      return 429;
    case api::Verdict::not_allowed:
      return 403;
    case api::Verdict::never_fits:
    case api::Verdict::invalid_key:
      return 400;
    default:
      return 503;
  }
}

bool has_rate_limit(const RestAnswer& answer, const api::Detail& detail) {
  const auto seconds = [](int64_t ms) { return std::to_string((ms + 999) / 1'000); };
  const auto header = [&](const std::string& name) {
    const auto found = answer.headers.find(name);
    return found == answer.headers.end() ? std::string() : found->second;
  };
  return header("ratelimit") == "\"window\";r=" + std::to_string(detail.remaining) +
                                    ";t=" + seconds(std::min(detail.reset_ms, detail.window_ms)) &&
         header("ratelimit-policy") ==
             "\"window\";q=" + std::to_string(detail.limit) + ";w=" + seconds(detail.window_ms);
}

}  // namespace

std::string percent_encoded(const std::string& key) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      text += c;
    } else {
      text += '%';
      text += digits[byte >> 4];
      text += digits[byte & 15];
    }
  }
  return text;
}

std::string acquire_target(World& world, const AskedEntry& entry) {
  std::string target = "/rate/" + percent_encoded(entry.key);
  char separator = '?';
  const auto add = [&](const std::string& name, const std::string& value) {
    target += separator + name + "=" + value;
    separator = '&';
  };
  if (entry.may_wait) add("canWait", "true");
  if (entry.may_wait && world.random.chance(0.3)) {
    add("maxWaitMillis", std::to_string(1 + world.random.below(world.wait_ms_max)));
  }
  if (entry.cost != 1) add("cost", std::to_string(entry.cost));
  const api::Overrides& given = entry.overrides;
  if (given.max_requests != api::keep) add("maxRequests", std::to_string(given.max_requests));
  if (given.max_requests_in_queue != api::keep) {
    add("maxRequestsInQueue", std::to_string(given.max_requests_in_queue));
  }
  if (given.window_ms != api::keep_window) add("windowMillis", std::to_string(given.window_ms));
  return target;
}

// Sometimes of all permits.
std::string release_target(World& world, const AskedEntry& entry) {
  if (world.random.chance(0.1)) return "/rate/" + percent_encoded(entry.key);
  const std::string target = "/rate/" + percent_encoded(entry.key) + "/1";
  return entry.cost == 1 ? target : target + "?cost=" + std::to_string(entry.cost);
}

bool is_forbidden(const World& world, const AskedEntry& entry) {
  const api::Overrides& given = entry.overrides;
  return (given.max_requests != api::keep && !world.can_set_rate) ||
         (given.max_requests_in_queue != api::keep && !world.can_mod_queue) ||
         (given.window_ms != api::keep_window && !world.can_set_window);
}

api::Verdict verdict_of(const DecidedEntry& entry) {
  return entry.verdict == api::Verdict::queued ? entry.outcome : entry.verdict;
}

uint64_t number_in(const std::string& text) {
  const size_t first = text.find_first_of("0123456789");
  uint64_t number = 0;
  if (first != std::string::npos) {
    std::from_chars(text.data() + first, text.data() + text.size(), number);
  }
  return number;
}

std::string wrong_in(Oracle& oracle, const DecidedEntry& entry, const RestAnswer& answer,
                     bool json) {
  const bool waited = entry.verdict == api::Verdict::queued;
  const api::Verdict verdict = verdict_of(entry);
  const api::Detail& detail = waited ? entry.outcome_detail : entry.detail;
  const std::string status = "got status " + std::to_string(answer.status);
  if (verdict == api::Verdict::none) return status + " while it waits";
  if (answer.status != status_of(verdict)) {
    return status + " for " + std::string(api::verdict_name(verdict));
  }
  if (entry.op == api::Op::release) return {};
  if (entry.op == api::Op::look && answer.body != (json ? "{}" : "")) return "got a look's body";
  const bool is_denied = status_of(verdict) == 429;
  if (verdict == api::Verdict::approved && entry.op == api::Op::acquire) {
    oracle.check_reported_id(entry, number_in(answer.body));
    if (json != answer.body.starts_with("{\"request_id\":")) return "got the wrong body";
  }
  if ((verdict == api::Verdict::approved || is_denied) && !has_rate_limit(answer, detail)) {
    return "got rate-limit headers that do not fit its decision";
  }
  if (is_denied && !json && !answer.body.empty()) return "got a denial with a body";
  return {};
}

}  // namespace sluice::simulation
