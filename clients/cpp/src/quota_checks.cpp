#include "quota_checks.hpp"

#include <algorithm>

#include "client_impl.hpp"

namespace sluicegate {
namespace {

using Kind = QuotaCall::Kind;

constexpr size_t subjects_max = 8;
constexpr size_t limits_max = 16;
constexpr size_t label_bytes_max = 128;  // of an id, and of an owner
constexpr uint32_t lifetime_ms_min = 10;
constexpr uint32_t lifetime_ms_max = 2'592'000'000;

[[noreturn]] void complain(std::string_view field, const std::string& what) {
  throw std::invalid_argument(std::string{field} + ": " + what);
}

void require_at_most(uint64_t most, std::string_view field, uint64_t value) {
  if (value <= most) return;
  complain(field, "must be at most " + std::to_string(most) + ", not " + std::to_string(value));
}

void require_amount(std::string_view field, uint64_t amount) {
  require_at_most(amount_max, field, amount);
}

void require_requests(uint32_t requests) {
  require_at_most(keep - 1, "requests", requests);
}

void require_bytes(size_t most, std::string_view field, std::string_view text) {
  if (text.size() <= most) return;
  complain(field, "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(most) +
                      " are allowed");
}

void require_subjects(std::span<const std::string_view> subjects) {
  if (subjects.empty() || subjects.size() > subjects_max) {
    complain("subjects", "must have 1 to " + std::to_string(subjects_max) + " names, not " +
                             std::to_string(subjects.size()));
  }
  for (size_t i = 0; i < subjects.size(); ++i) {
    const auto field = [i] { return "subjects[" + std::to_string(i) + "]"; };
    if (subjects[i].empty() || subjects[i].size() > UINT16_MAX) {
      require_subject(field(), subjects[i]);
    }
    const auto earlier = subjects.first(i);
    if (std::find(earlier.begin(), earlier.end(), subjects[i]) != earlier.end()) {
      complain(field(), std::string{'"'}.append(subjects[i]).append("\" is a duplicate"));
    }
  }
}

// For a settle without input tokens the bound is not known here.
void require_cached_within_input(const QuotaCall& call) {
  if (call.cached_input_tokens == unset) return;
  const uint64_t input =
      call.kind == Kind::record && call.input_tokens == unset ? 0 : call.input_tokens;
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
  require_amount(place + "amount", limit.amount);
}

}  // namespace

void require_subject(std::string_view field, std::string_view subject) {
  if (subject.empty()) complain(field, "is empty");
  require_bytes(UINT16_MAX, field, subject);
}

void require_valid(const ReserveOptions& options) {
  require_requests(options.requests);
  require_amount("input_tokens", options.input_tokens);
  require_amount("max_output_tokens", options.max_output_tokens.value_or(0));
  require_amount("cost", options.cost);
}

void require_valid(const Used& used) {
  require_requests(used.requests.value_or(0));
  require_amount("input_tokens", used.input_tokens.value_or(0));
  require_amount("cached_input_tokens", used.cached_input_tokens);
  require_amount("output_tokens", used.output_tokens.value_or(0));
  require_amount("cost", used.cost.value_or(0));
}

void require_valid(const QuotaCall& call) {
  if (call.names_subjects()) require_subjects(call.subjects);
  require_bytes(label_bytes_max, "id", call.client_id);
  require_bytes(label_bytes_max, "owner", call.owner);
  require_at_most(wait_limit_ms_max, "wait_limit_ms", call.wait_limit_ms);
  const bool is_default = call.lifetime_ms == 0;
  if (!is_default && (call.lifetime_ms < lifetime_ms_min || call.lifetime_ms > lifetime_ms_max)) {
    complain("lifetime_ms", "must be " + std::to_string(lifetime_ms_min) + " to " +
                                std::to_string(lifetime_ms_max) +
                                ", or 0 for the server's default, not " +
                                std::to_string(call.lifetime_ms));
  }
  require_cached_within_input(call);
}

void require_valid(const Quota& quota) {
  if (quota.limits.size() > limits_max) {
    complain("limits", "has " + std::to_string(quota.limits.size()) + "; at most " +
                           std::to_string(limits_max) + " are allowed");
  }
  for (size_t i = 0; i < quota.limits.size(); ++i) {
    const Limit& limit = quota.limits[i];
    require_valid("limits[" + std::to_string(i) + "] (\"" + limit.name + "\"), ", limit);
  }
}

}  // namespace sluicegate
