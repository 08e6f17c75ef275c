#include "server/moved_quota_log.hpp"

#include "api/quota.hpp"
#include "log/log.hpp"
#include "policy/quota_text.hpp"
#include "text/quote.hpp"

namespace sluice::server {
namespace {

constexpr size_t name_bytes_max = 1'024;

}  // namespace

void MovedQuotaLog::add(uint64_t quotas) noexcept {
  total_.fetch_add(quotas, std::memory_order_relaxed);
  left_.fetch_add(quotas, std::memory_order_relaxed);
}

void MovedQuotaLog::log_start(bool has_secret) const noexcept {
  const uint64_t quotas = left();
  if (quotas == 0) return;
  if (has_secret) {
    log::info(
        "state: other instances own the subjects of some quotas now that were put at run time: "
        "they are handed over",
        {{"quotas", quotas}});
    return;
  }
  log::warning(
      "state: other instances own the subjects of some quotas now that were put at run time, and "
      "these cannot be handed over: start all instances with the same --peer-secret-file, or put "
      "the quotas again; they stay in the state",
      {{"quotas", quotas}});
}

void MovedQuotaLog::note_taken(uint64_t quotas) noexcept {
  if (quotas == 0 || left_.fetch_sub(quotas, std::memory_order_relaxed) != quotas) return;
  log::info("state: all quotas are handed over whose subjects other instances own now",
            {{"quotas", total_.load(std::memory_order_relaxed)}});
}

void MovedQuotaLog::note_refused(std::string_view node, std::string_view reason,
                                 base::Now now) noexcept {
  if (!pause_.may_log(now)) return;
  log::warning(
      "state: another instance does not take quotas of subjects that it owns now: they stay in the "
      "state, and are handed over again and again",
      {{"node", node}, {"reason", reason}, {"quotas", left()}});
}

// This node has found it valid, with its own time zones.
void MovedQuotaLog::note_invalid(std::string_view node, const quota::MovedQuota& first,
                                 uint64_t quotas) const noexcept {
  log::warning(
      "state: another instance cannot use quotas of subjects that it owns now, because its machine "
      "lacks their time zones: install tzdata there, and restart it; they stay in the state, and "
      "are handed over again every minute",
      {{"node", node},
       {"reason", api::code_name(api::QuotaCode::invalid_quota)},
       {"quotas", quotas},
       {"subject", text::shortened(first.name, name_bytes_max)},
       {"quota", policy::quota_json(first.quota)}});
}

}  // namespace sluice::server
