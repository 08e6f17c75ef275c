// Names of the enumerations of quota.hpp; the same as in files, JSON and metrics.
#include <array>

#include "sluicegate/quota.hpp"

namespace sluicegate {
namespace {

struct CodeText {
  std::string_view name;
  std::string_view reason;
};

constexpr std::array<CodeText, quota_codes_count> code_texts{{
    {"none", ""},
    {"ok", "within quota"},
    {"unlimited", "all limits are unlimited"},
    {"unknown_subject_allowed", "subject has no configured quota, and unknown ones are allowed"},
    {"queued", "waiting in the queue"},
    {"rpd_exceeded", "daily request limit reached"},
    {"rpm_exceeded", "per-minute request limit reached"},
    {"tpm_exceeded", "per-minute token limit reached"},
    {"requests_exceeded", "request limit reached"},
    {"input_tokens_exceeded", "input token limit reached"},
    {"output_tokens_exceeded", "output token limit reached"},
    {"tokens_exceeded", "token limit reached"},
    {"cost_exceeded", "cost limit reached"},
    {"concurrency_exceeded", "concurrency limit reached"},
    {"queue_ahead", "other requests are ahead in the queue: wait too, or ask again later"},
    {"deadline_unmeetable", "no capacity can come before the wait limit: allow a longer wait"},
    {"wait_limit", "waited as long as allowed"},
    {"withdrawn", "withdrawn from the queue by the client"},
    {"draining", "the server is shutting down: use another server, or try again later"},
    {"waiters_full", "too many requests wait (--max-waiters)"},
    {"reservations_full",
     "too many reservations are open on a shard: the shards share --max-reservations, and each "
     "reservation takes a place on every shard of its subjects"},
    {"subjects_full", "too many subjects are in use (--max-subjects)"},
    {"id_in_use", "this id names another request, or one that still waits: choose another one"},
    {"exceeds_limit", "more than the limit allows at all: ask for less"},
    {"blocked", "a limit blocks everything"},
    {"unknown_subject", "subject has no configured quota, and unknown ones are denied"},
    {"subjects_apart", "it may wait, and several nodes have its subjects: use a common {tag}"},
    {"invalid_subject",
     "subjects must be 1 to 8 different names, none empty or longer than the server allows "
     "(--max-key-bytes)"},
    {"unknown_reservation", "no reservation has this id, or it ended and is forgotten"},
    {"already_settled", "the reservation was settled before"},
    {"already_cancelled", "the reservation was cancelled before"},
    {"already_expired", "the reservation's lifetime has ended"},
    {"invalid_quota", "the quota is not valid"},
    {"no_such_quota", "no quota was put for this subject: the configuration file's stays"},
    {"connection_waiters_full",
     "too many requests of this connection wait: it holds as many places as are free "
     "(--max-waiters)"},
    {"subject_waiters_full",
     "too many requests wait for this subject: they hold as many places as are free "
     "(--max-waiters)"},
    {"not_durable",
     "nothing was changed: the server cannot write its state file (--state) now, and its log says "
     "why: try again later"},
    {"memory_only",
     "changed in memory only: the server could not write its state file (--state), and its log "
     "says why: repeat the call once it can, or a restart may undo the change"},
    {"owner_unreachable",
     "the node that has the subject or the reservation does not answer (sluicegate_node_links in "
     "/metrics: try again later), is a gocc, or has not the --peer-secret-file of this one"},
    {"failed_closed",
     "the node that has the subject does not answer, and this one denies meanwhile (--peer-failure "
     "closed): try again later"},
}};

template <typename Value, size_t Count>
std::string_view name_of(Value value, const std::array<std::string_view, Count>& names) noexcept {
  const auto index = static_cast<size_t>(value);
  return index < Count ? names[index] : "unknown";
}

}  // namespace

std::string_view name(QuotaCode code) noexcept {
  const auto index = static_cast<size_t>(code);
  return index < code_texts.size() ? code_texts[index].name : "unknown";
}

std::string_view reason(QuotaCode code) noexcept {
  const auto index = static_cast<size_t>(code);
  return index < code_texts.size() ? code_texts[index].reason : "";
}

bool may_retry(QuotaCode code) noexcept {
  const bool is_denied = code >= QuotaCode::rpd_exceeded && code <= QuotaCode::subjects_full;
  return (is_denied && code != QuotaCode::withdrawn) ||
         code == QuotaCode::connection_waiters_full || code == QuotaCode::subject_waiters_full ||
         code == QuotaCode::not_durable || code == QuotaCode::memory_only ||
         code == QuotaCode::owner_unreachable || code == QuotaCode::failed_closed;
}

std::string_view name(Metric metric) noexcept {
  static constexpr std::array<std::string_view, 6> names{
      "requests", "input_tokens", "output_tokens", "tokens", "cost", "concurrency"};
  return name_of(metric, names);
}

std::string_view name(LimitKind kind) noexcept {
  static constexpr std::array<std::string_view, 7> names{
      "concurrency", "fixed", "sliding", "gcra", "anchored_day", "rolling_day", "calendar"};
  return name_of(kind, names);
}

std::string_view name(Ceiling ceiling) noexcept {
  static constexpr std::array<std::string_view, 3> names{"number", "unlimited", "block"};
  return name_of(ceiling, names);
}

std::string_view name(CalendarUnit unit) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "hour", "day", "week", "month"};
  return name_of(unit, names);
}

std::string_view name(QuotaSource source) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "run_time", "file", "profile",
                                                         "default"};
  return name_of(source, names);
}

InvalidQuota::InvalidQuota(std::string_view detail)
    : Error{std::string{reason(QuotaCode::invalid_quota)} + (detail.empty() ? "" : ": ") +
            std::string{detail}} {}

InvalidSubject::InvalidSubject(QuotaCode code, std::string_view place)
    : Error{std::string{place} + (place.empty() ? "" : ": ") + std::string{name(code)} + ": " +
            std::string{reason(code)}},
      code_{code} {}

OwnerUnreachable::OwnerUnreachable(std::string_view subject)
    : Error{std::string{subject} + ": " + std::string{name(QuotaCode::owner_unreachable)} + ": " +
            std::string{reason(QuotaCode::owner_unreachable)}} {}

OwnerUnreachable OwnerUnreachable::of_key(std::string_view key) {
  return OwnerUnreachable{std::string{key} + ": " + std::string{name(Verdict::owner_unreachable)} +
                          ": nothing was released: the node that owns the key does not answer (try "
                          "again later), or is a gocc, which takes releases of one permit alone"};
}

QuotaIncomplete::QuotaIncomplete(QuotaBatchOutcome outcome)
    : Error{std::to_string(outcome.failed) + " of " + std::to_string(outcome.codes.size()) +
            " entries have no answer: " + std::string{name(outcome.failure)}},
      outcome_{std::move(outcome)} {}

}  // namespace sluicegate
