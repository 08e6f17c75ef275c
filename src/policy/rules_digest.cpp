#include "policy/rules_digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string>
#include <string_view>

#include "policy/quota_file.hpp"
#include "policy/quota_text.hpp"
#include "policy/rule_file.hpp"
#include "text/json.hpp"

namespace sluice::policy {
namespace {

class Digest {
 public:
  Digest() { XXH3_64bits_reset(&state_); }
  void add(std::string_view line) {
    XXH3_64bits_update(&state_, line.data(), line.size());
    XXH3_64bits_update(&state_, "\n", 1);  // no line has one
  }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_{};
};

std::string line_of(const limiter::Policy& policy) {
  return text::one_line({{"max_requests", policy.max_requests},
                         {"max_requests_in_queue", policy.max_requests_in_queue},
                         {"window_millis", policy.window_ms}});
}

std::string line_of(const QuotaRules& quotas) {
  text::Json line{{"unknown_subjects", static_cast<int>(quotas.unknown)},
                  {"default_lifetime_ms", quotas.lifetime_ms},
                  {"default_output_tokens", quotas.output_tokens}};
  if (quotas.unknown == UnknownSubjects::use_quota) line.update(quota_json(quotas.unknown_quota));
  return text::one_line(line);
}

}  // namespace

uint64_t rules_digest(const limiter::Policy& default_policy, std::span<const Rule> rules,
                      const QuotaRules& quotas, int64_t peer_timeout_ms) {
  Digest digest;
  digest.add(line_of(default_policy));
  // A node keeps parts of other nodes' calls by its own time-out, their homes by theirs.
  digest.add("peer_timeout_millis=" + std::to_string(peer_timeout_ms));
  for (const Rule& rule : rules) digest.add(entry_text(rule));
  digest.add(line_of(quotas));
  for (const QuotaRule& rule : quotas.rules) {
    digest.add(rule.source == api::QuotaSource::profile ? "profile" : "file");
    digest.add(subject_text(rule));
  }
  return digest.value();
}

}  // namespace sluice::policy
