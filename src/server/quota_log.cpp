#include "server/quota_log.hpp"

#include <algorithm>
#include <string>

#include "base/assert.hpp"
#include "log/log.hpp"
#include "policy/quota_text.hpp"
#include "text/quote.hpp"

namespace sluice::server {
namespace {

using api::QuotaCode;
using api::QuotaOp;

constexpr size_t name_bytes_max = 1'024;

std::string loggable(std::string_view name) {
  return text::shortened(name, name_bytes_max);
}

// Also a change that a restart may undo.
bool has_changed(const api::QuotaAnswer& answer) noexcept {
  return api::admits(answer.code) || answer.code == QuotaCode::memory_only;
}

bool is_handed_over(const api::QuotaCall& call) noexcept {
  return call.op == QuotaOp::put && (call.flags & api::quota_flag::handed_over) != 0;
}

std::string_view message_of(QuotaOp op) noexcept {
  switch (op) {
    case QuotaOp::put:
      return "quota put";
    case QuotaOp::remove:
      return "quota removed";
    case QuotaOp::reset:
      return "usage reset";
    default:
      ASSERT(op == QuotaOp::reset_all);
      return "usage of all subjects reset";
  }
}

}  // namespace

bool QuotaLog::is_logged(const api::QuotaBatch& batch) noexcept {
  return !batch.calls.empty() && api::is_administrative(batch.calls.front().op) &&
         std::ranges::any_of(batch.answers, has_changed) && log::wants(log::Level::info);
}

void QuotaLog::log_change(const api::QuotaBatch& batch, std::string_view peer) noexcept {
  ASSERT(is_logged(batch));
  const api::QuotaCall& call = batch.calls.front();
  log::Fields fields{{"peer", peer.empty() ? "gone" : peer}};
  if (is_handed_over(call)) {
    fields["quotas"] = std::ranges::count_if(batch.answers, has_changed);
    return log::info("another instance has handed over quotas of subjects that it owned", fields);
  }
  if (call.subjects_count > 0) fields["subject"] = loggable(batch.subjects[call.first_subject]);
  if (call.op == QuotaOp::put) {
    fields["quota"] = policy::quota_json(batch.new_quotas.front());
  }
  if (batch.answers.front().code == QuotaCode::memory_only) fields["durable"] = false;
  log::info(message_of(call.op), fields);
}

void warn_of_too_many_names(const policy::QuotaRules& rules, uint32_t subjects_max) {
  const auto named = std::count_if(rules.rules.begin(), rules.rules.end(),
                                   [](const policy::QuotaRule& rule) { return !rule.is_regex; });
  if (named <= subjects_max) return;
  log::warning("the configuration file names more subjects than there is room for (--max-subjects)",
               {{"subjects", named}, {"maxSubjects", subjects_max}});
}

void QuotaLog::note_unknown(std::string_view subject, uint64_t times, base::Now now) noexcept {
  if (now.monotonic_ns < quiet_until_ns_ || !log::wants(log::Level::warning)) return;
  quiet_until_ns_ = now.monotonic_ns + unknown_pause_ns;
  log::warning(
      "subject without a quota",
      {{"subject", loggable(subject)}, {"times", times - reported_times_}, {"shard", shard_}});
  reported_times_ = times;
}

}  // namespace sluice::server
