#include "wire/rest_reader.hpp"

#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "text/number.hpp"
#include "wire/content_type.hpp"
#include "wire/http_text.hpp"
#include "wire/rest_endpoint.hpp"
#include "wire/rest_numbers.hpp"

namespace sluice::wire {
namespace {

bool is_within(int64_t value, const QueryNumber& row) noexcept {
  return value >= 0 && static_cast<uint64_t>(value) >= row.min &&
         static_cast<uint64_t>(value) <= row.max;
}

// The number of a parameter that is_present(), else that of its row; nullopt for a text that is no
// number.
std::optional<int64_t> number(const RestQuery& query, const QueryNumber& row) noexcept {
  const QueryParameter& parameter = query.*row.parameter;
  if (!parameter.is_present()) return static_cast<int64_t>(row.absent);
  if (!std::in_range<int32_t>(row.max)) return text::parse_int64(parameter.value);
  return text::parse_int32(parameter.value);
}

// Why the request is refused; without text: no fault so far.
struct Complaint {
  uint16_t status = 0;
  std::string_view text;
};

// gocc's query. The order of the checks is part of what callers see.
Complaint read_gocc_parameters(const RestQuery& query, const RestOptions& options,
                               RestDecision& decided) noexcept {
  const QueryParameter& can_wait = query.can_wait;
  const QueryParameter& max_requests = query.max_requests;
  const QueryParameter& max_queue = query.max_requests_in_queue;
  const std::optional<bool> may_wait =
      can_wait.is_present() ? text::parse_bool(can_wait.value) : false;
  if (!may_wait) return {400, "failed to parse canWait query parameter"};

  const std::optional<int64_t> requests = number(query, max_requests_number);
  if (!requests) return {400, max_requests_number.unreadable};
  if (max_requests.is_present() && !options.requests_can_set_rate) {
    return {403, "maxRequests query parameter is disabled"};
  }

  const std::optional<int64_t> queue = number(query, max_queue_number);
  if (!queue) return {400, max_queue_number.unreadable};
  if (max_queue.is_present() && !options.requests_can_mod_queue) {
    return {403, "maxRequestsInQueue query parameter is disabled"};
  }

  if (!is_within(*requests, max_requests_number)) return {400, max_requests_number.outside};
  if (!is_within(*queue, max_queue_number)) return {400, max_queue_number.outside};

  if (*may_wait) decided.entry.flags |= api::flag::may_wait;
  api::Overrides& overrides = decided.overrides;
  if (max_requests.is_present()) overrides.max_requests = static_cast<uint32_t>(*requests);
  if (max_queue.is_present()) overrides.max_requests_in_queue = static_cast<uint32_t>(*queue);
  return {};
}

// Parameters that gocc does not have are checked after all of gocc's, in the same manner.
Complaint read_own_parameters(const RestQuery& query, const QueryNumber& cost,
                              api::Entry& entry) noexcept {
  const std::optional<int64_t> permits = number(query, cost);
  if (!permits) return {400, cost.unreadable};
  const std::optional<int64_t> wait_ms = number(query, max_wait_number);
  if (!wait_ms) return {400, max_wait_number.unreadable};

  if (!is_within(*permits, cost)) return {400, cost.outside};
  if (!is_within(*wait_ms, max_wait_number)) return {400, max_wait_number.outside};

  entry.cost = static_cast<uint32_t>(*permits);
  entry.wait_ms_max = static_cast<uint32_t>(*wait_ms);
  return {};
}

Complaint read_window(const RestQuery& query, const RestOptions& options,
                      api::Overrides& overrides) noexcept {
  const std::optional<int64_t> window_ms = number(query, window_number);
  if (!window_ms) return {400, window_number.unreadable};
  if (!query.window_ms.is_present()) return {};
  if (!options.requests_can_set_window) {
    return {403, "windowMillis query parameter is disabled"};
  }
  if (!is_within(*window_ms, window_number)) return {400, window_number.outside};
  overrides.window_ms = *window_ms;
  return {};
}

Complaint check_key(const RestTarget& target) noexcept {
  if (target.key.empty()) return {400, "empty key provided"};
  if (target.key.size() > target.options.key_bytes_max) {
    return {431, "key too long (--max-key-bytes)"};
  }
  return {};
}

// A look neither waits nor sets anything.
void make_look(RestDecision& decided) noexcept {
  decided.entry.op = api::Op::look;
  decided.entry.flags &= static_cast<uint8_t>(~api::flag::may_wait);
  decided.overrides = {};
}

Complaint read_decision(const RestTarget& target, RestDecision& decided) noexcept {
  Complaint complaint = check_key(target);
  if (!complaint.text.empty()) return complaint;
  api::Entry& entry = decided.entry;
  complaint = read_gocc_parameters(target.query, target.options, decided);
  if (complaint.text.empty()) complaint = read_own_parameters(target.query, cost_number, entry);
  if (complaint.text.empty()) {
    complaint = read_window(target.query, target.options, decided.overrides);
  }
  entry.flags |= api::flag::wants_details;
  if (entry.cost == 0) {
    make_look(decided);
  } else {
    entry.flags |= api::flag::shows_id;
  }
  return complaint;
}

Complaint read_released(const RestTarget& target, api::Entry& entry) noexcept {
  if (target.key.empty()) return {400, "empty key provided"};
  if (trim_white_space(target.id).empty()) return {400, "empty id provided"};
  if (target.key.size() > target.options.key_bytes_max) {
    return {431, "key too long (--max-key-bytes)"};
  }
  entry.op = api::Op::release;
  return read_own_parameters({.cost = target.query.cost}, released_cost_number, entry);
}

// As many permits as a window can have: all that the key's window has given.
Complaint read_reset(const RestTarget& target, api::Entry& entry) noexcept {
  entry.op = api::Op::release;
  entry.cost = limits::permits_max;
  return check_key(target);
}

RestReply refusal(const RestTarget& target, const Complaint& complaint) noexcept {
  const bool json = accepts_json(target.request.accept);
  return {.status = complaint.status,
          .body = complaint.text,
          .content_type = json ? application_json : text_plain,
          .json = json};
}

RestRequest decision(const RestTarget& target, const Complaint& complaint,
                     RestDecision& decided) noexcept {
  if (!complaint.text.empty()) {
    RestReply reply = refusal(target, complaint);
    reply.is_rate_refusal = true;
    return reply;
  }
  ASSERT(target.key.size() <= limits::key_bytes_max);
  decided.entry.key_data = target.key.data();
  decided.entry.key_bytes = static_cast<uint16_t>(target.key.size());
  decided.json = accepts_json(target.request.accept);
  if (target.query.stays_here.value == "true") decided.entry.flags |= api::flag::stays_here;
  if (target.options.has_other_nodes) {
    decided.overrides.correlation_id =
        target.request.correlation_id.substr(0, limits::correlation_id_bytes_max);
  }
  return decided;
}

DryRun read_dry_run(const QueryParameter& parameter) noexcept {
  if (!parameter.was_given) return DryRun::absent;
  if (parameter.value == "true") return DryRun::yes;
  return parameter.value == "false" ? DryRun::no : DryRun::unclear;
}

}  // namespace

RestRequest read_rate(const RestTarget& target) noexcept {
  RestDecision decided;
  const bool resets = target.request.method == method_name(RestMethod::remove);
  const Complaint complaint =
      resets ? read_reset(target, decided.entry) : read_decision(target, decided);
  return decision(target, complaint, decided);
}

RestRequest read_release(const RestTarget& target) noexcept {
  RestDecision decided;
  const Complaint complaint = read_released(target, decided.entry);
  return decision(target, complaint, decided);
}

// gocc has only `pretty` here.
RestRequest read_debug(const RestTarget& target) noexcept {
  const RestQuery& query = target.query;
  const std::optional<int64_t> keys_max = number(query, debug_limit_number);
  if (!keys_max) return refusal(target, {400, debug_limit_number.unreadable});
  if (!is_within(*keys_max, debug_limit_number)) {
    return refusal(target, {400, debug_limit_number.outside});
  }
  return RestDebug{.pretty = query.pretty.was_given,
                   .prefix = query.prefix.value,
                   .keys_max = static_cast<uint32_t>(*keys_max)};
}

RestRequest read_inspect(const RestTarget& target) noexcept {
  // Such a key cannot be live, so the shard need not search for it.
  const bool is_possible = !target.key.empty() && target.key.size() <= target.options.key_bytes_max;
  if (!is_possible) return key_not_found;
  return RestInspect{.key = target.key, .pretty = target.query.pretty.was_given};
}

RestRequest read_health(const RestTarget&) noexcept {
  return RestHealth{};
}

RestRequest read_metrics(const RestTarget&) noexcept {
  return RestMetrics{};
}

RestRequest read_top(const RestTarget& target) noexcept {
  const std::optional<int64_t> keys_max = number(target.query, top_keys_number);
  if (!keys_max) return refusal(target, {400, top_keys_number.unreadable});
  if (!is_within(*keys_max, top_keys_number)) {
    return refusal(target, {400, top_keys_number.outside});
  }
  return RestTop{.keys_max = static_cast<uint32_t>(*keys_max)};
}

RestRequest read_openapi(const RestTarget&) noexcept {
  return RestOpenapi{};
}

RestRequest read_quota(const RestTarget& target) noexcept {
  const QuotaEndpoint endpoint = target.endpoint.quota;
  const RestQuery& query = target.query;
  const bool lists = endpoint == QuotaEndpoint::reservations;
  const bool is_reservation = endpoint == QuotaEndpoint::reservation;
  const std::string_view named = is_reservation ? std::string_view{} : target.name;
  return RestQuota{.endpoint = endpoint,
                   .method = target.request.method,
                   .subject = lists ? query.subject.value : named,
                   .by_subject = lists && query.subject.was_given,
                   .reservation = is_reservation ? target.name : std::string_view{},
                   .cursor = query.cursor.value,
                   .limit = query.limit.value,
                   .rate_style = target.request.rate_style,
                   .headers = query.headers.value,
                   .dry_run = read_dry_run(query.dry_run),
                   .has_unclear_cluster = read_dry_run(query.of_all_nodes) == DryRun::unclear,
                   .unknown_parameter = query.unknown_parameter,
                   .invalid_parameter = query.invalid_parameter};
}

}  // namespace sluice::wire
