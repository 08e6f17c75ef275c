#include "api/quota.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/assert.hpp"

namespace sluice::api {
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

const CodeText& text_of(QuotaCode code) noexcept {
  const auto index = static_cast<size_t>(code);
  return code_texts[index < quota_codes_count ? index : 0];
}

}  // namespace

bool may_retry(QuotaCode code) noexcept {
  const bool is_denied = code >= QuotaCode::rpd_exceeded && code <= QuotaCode::subjects_full;
  return (is_denied && code != QuotaCode::withdrawn) ||
         code == QuotaCode::connection_waiters_full || code == QuotaCode::subject_waiters_full ||
         code == QuotaCode::not_durable || code == QuotaCode::memory_only ||
         code == QuotaCode::owner_unreachable || code == QuotaCode::failed_closed;
}

std::string_view code_name(QuotaCode code) noexcept {
  return text_of(code).name;
}

std::string_view code_reason(QuotaCode code) noexcept {
  return text_of(code).reason;
}

std::string_view state_name(ReservationState state) noexcept {
  static constexpr std::array<std::string_view, 5> names{"none", "open", "settled", "cancelled",
                                                         "expired"};
  return names[static_cast<size_t>(state)];
}

void HolderRow::pack_subjects() noexcept {
  subjects_count = 0;
  for (const TextSpan name : subjects) {
    if (name.bytes > 0) subjects[subjects_count++] = name;
  }
  std::fill(subjects.begin() + subjects_count, subjects.end(), TextSpan{});  // moved, or none
  subjects_left_out = static_cast<uint8_t>(std::popcount(left_out_bits));
}

bool holds_anything(const SpreadCall& call) noexcept {
  return std::any_of(call.holds.begin(), call.holds.end(),
                     [](uint32_t hold) { return hold != SpreadCall::no_hold; });
}

// The first place is the home's.
bool waits_beside_home(const SpreadCall& call) noexcept {
  return std::any_of(call.waiters.begin() + 1, call.waiters.end(),
                     [](WaiterId waiter) { return waiter != no_waiter; });
}

void QuotaBatch::clear() noexcept {
  calls.clear();
  subjects.clear();
  new_quotas.clear();
  wait_answers.clear();
  arrival = {};
  asker = no_asker;
  stays_here = false;
  answers.clear();
  limits.clear();
  rows.clear();
  holders.clear();
  quotas.clear();
  answer_text.clear();
  text_.clear();
  part_ends.clear();
  visit = {};
  owns_texts_ = false;
  frame_bytes = 0;
  kind = 0;
}

void QuotaBatch::free_page() noexcept {
  constexpr size_t kept_rows = 16;
  if (rows.size() + holders.size() <= kept_rows) return;
  const auto free_memory = [](auto& list) { std::decay_t<decltype(list)>().swap(list); };
  free_memory(rows);
  free_memory(holders);
  free_memory(quotas);
  free_memory(limits);
  free_memory(answer_text);
}

void QuotaBatch::own_texts() {
  if (std::exchange(owns_texts_, true)) return;
  size_t bytes = 0;
  for (const std::string_view subject : subjects) bytes += subject.size();
  for (const QuotaCall& call : calls) bytes += call.client_id.size() + call.owner.size();
  std::string text;
  text.swap(text_);
  text.clear();
  // The views stay valid while the text is filled, and when it is swapped: never a short string.
  text.reserve(std::max<size_t>(bytes, 64));
  const auto own = [&text](std::string_view& view) {
    const size_t begin = text.size();
    text.append(view);
    view = std::string_view(text).substr(begin);
  };
  for (std::string_view& subject : subjects) own(subject);
  for (QuotaCall& call : calls) {
    own(call.client_id);
    own(call.owner);
  }
  text_.swap(text);
}

void QuotaBatch::make_answers() {
  static const QuotaAnswer none;  // copied whole: field by field it is slower
  answers.assign(calls.size(), none);
  limits.clear();
  rows.clear();
  holders.clear();
  quotas.clear();
  answer_text.clear();
  limits_checked = subjects_fetched = 0;
  pass = Pass::decide;
  is_last_asked = concluded = awaits_verdict = ended_claims = false;
  spread.clear();
  undecided.clear();
  round_size = rounds_count = calls_repeated = reports_kept = 0;
  part_reports.clear();
  part_ends.clear();
}

}  // namespace sluice::api
