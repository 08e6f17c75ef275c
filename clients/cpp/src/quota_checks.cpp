#include "quota_checks.hpp"

#include <algorithm>

#include "option_bounds.hpp"

namespace sluicegate {
namespace {

using Kind = QuotaCall::Kind;

[[noreturn]] void complain(std::string_view field, const std::string& what) {
  throw std::invalid_argument(std::string{field} + ": " + what);
}

void require_subjects(std::span<const std::string_view> subjects) {
  require_within(subjects_bound, subjects.size());
  for (size_t i = 0; i < subjects.size(); ++i) {
    const auto field = [i] { return "subjects[" + std::to_string(i) + "]"; };
    if (!subject_bound.holds(subjects[i].size())) require_subject(field(), subjects[i]);
    const auto earlier = subjects.first(i);
    if (std::find(earlier.begin(), earlier.end(), subjects[i]) != earlier.end()) {
      complain(field(), std::string{'"'}.append(subjects[i]).append("\" is a duplicate"));
    }
  }
}

// For a settle without input tokens the bound is not known here.
void require_cached_within_input(const QuotaCall& call) {
  if (call.cached_input_tokens == unset) return;
  const uint64_t input = call.charges_used() && call.input_tokens == unset ? 0 : call.input_tokens;
  if (call.cached_input_tokens <= input) return;
  complain("cached_input_tokens", "must be a part of input_tokens, not more");
}

// A value without a name cannot be sent.
template <typename Value>
void require_known(const std::string& place, const char* field, Value value, const char* type) {
  if (name(value) == "unknown") complain(place + field, std::string{"is no "} + type);
}

void require_valid(const std::string& place, const Limit& limit) {
  require_known(place, "metric", limit.metric, "Metric");
  require_known(place, "kind", limit.kind, "LimitKind");
  require_known(place, "ceiling", limit.ceiling, "Ceiling");
  require_known(place, "unit", limit.unit, "CalendarUnit");
  require_all_within(limit_amounts, limit, place);
}

}  // namespace

void require_subject(std::string_view field, std::string_view subject) {
  Bound bound = subject_bound;
  bound.name = field;
  require_within(bound, subject.size());
}

InvalidSubject invalid_subject(QuotaCode code, std::span<const std::string_view> subjects) {
  if (code != QuotaCode::invalid_subject || subjects.empty()) return InvalidSubject(code);
  const auto longest =
      std::ranges::max_element(subjects, {}, [](std::string_view name) { return name.size(); });
  return InvalidSubject(code, "subjects[" + std::to_string(longest - subjects.begin()) + "] (" +
                                  std::to_string(longest->size()) + " bytes)");
}

void require_lifetime(uint32_t lifetime_ms) {
  require_within(lifetime_bound, lifetime_ms);
}

void require_valid(const ReserveOptions& options) {
  require_all_within(reserve_options, options);
  if (options.renew && options.lifetime_ms == 0) {
    complain("renew", "needs lifetime_ms, by which the client extends the reservation");
  }
}

void require_valid(const ConsumeOptions& options) {
  require_all_within(consume_options, options);
}

void require_valid(const Used& used) {
  require_all_within(used_amounts, used);
}

void require_valid(const QuotaCall& call) {
  if (call.names_subjects()) require_subjects(call.subjects);
  require_cached_within_input(call);
}

void require_valid(const Quota& quota) {
  require_within(limits_bound, quota.limits.size());
  for (size_t i = 0; i < quota.limits.size(); ++i) {
    const Limit& limit = quota.limits[i];
    require_valid("limits[" + std::to_string(i) + "] (\"" + limit.name + "\"), ", limit);
  }
}

}  // namespace sluicegate
