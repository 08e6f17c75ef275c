#include <algorithm>
#include <array>
#include <span>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "policy/quota_text.hpp"
#include "text/json.hpp"
#include "text/number.hpp"
#include "wire/content_type.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::LimitReport;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaOp;
using JsonWriter = text::JsonWriter<std::string>;

constexpr std::string_view problem_json = "application/problem+json";

// The bound of all subjects' names in `violated`; further limits are left out.
constexpr size_t violated_names_bytes_max = 128 * 1024;

// Room for most answers without reallocation.
constexpr size_t typical_body_bytes = 1'024;

// Of a code that admits nothing.
uint16_t status_of(QuotaCode code) noexcept {
  switch (code) {
    case QuotaCode::subjects_apart:
    case QuotaCode::invalid_subject:
    case QuotaCode::invalid_quota:
      return 400;
    case QuotaCode::unknown_reservation:
    case QuotaCode::no_such_quota:
      return 404;
    case QuotaCode::id_in_use:
    case QuotaCode::already_settled:
    case QuotaCode::already_cancelled:
    case QuotaCode::already_expired:
      return 409;
    case QuotaCode::owner_unreachable:
      return 502;
    case QuotaCode::draining:
    case QuotaCode::waiters_full:
    case QuotaCode::connection_waiters_full:
    case QuotaCode::subject_waiters_full:
    case QuotaCode::reservations_full:
    case QuotaCode::subjects_full:
    case QuotaCode::not_durable:
    case QuotaCode::memory_only:
      return 503;
    case QuotaCode::rpd_exceeded:
    case QuotaCode::rpm_exceeded:
    case QuotaCode::tpm_exceeded:
    case QuotaCode::requests_exceeded:
    case QuotaCode::input_tokens_exceeded:
    case QuotaCode::output_tokens_exceeded:
    case QuotaCode::tokens_exceeded:
    case QuotaCode::cost_exceeded:
    case QuotaCode::concurrency_exceeded:
    case QuotaCode::queue_ahead:
    case QuotaCode::deadline_unmeetable:
    case QuotaCode::wait_limit:
    case QuotaCode::exceeds_limit:
    case QuotaCode::blocked:
    case QuotaCode::unknown_subject:
    case QuotaCode::failed_closed:
      return 429;
    case QuotaCode::none:
    case QuotaCode::ok:
    case QuotaCode::unlimited:
    case QuotaCode::unknown_subject_allowed:
    case QuotaCode::queued:     // held, not answered
    case QuotaCode::withdrawn:  // only the native protocol can ask for it
      break;
  }
  constexpr bool a_rest_request_is_denied_with_this_code = false;
  ASSERT(a_rest_request_is_denied_with_this_code);
  return 500;
}

// An object with the fields that `write(json)` writes.
template <typename Write>
std::string object_text(Write write) {
  std::string text;
  text.reserve(typical_body_bytes);
  JsonWriter json{text};
  json.open_object();
  write(json);
  json.close_object();
  return text;
}

template <typename Write>
QuotaReply json_reply(Write write) {
  return {.content_type = application_json, .body = object_text(write)};
}

struct Problem {
  std::string_view code;
  std::string_view title;
  uint16_t status = 0;
};

// `write_more(json)` writes the fields beside those that all problems have.
template <typename Write>
QuotaReply problem_reply_of(const Problem& problem, Write write_more) {
  const auto write = [&](JsonWriter& json) {
    json.field("type", "urn:sluicegate:problem:" + std::string(problem.code));
    json.field("title", problem.title);
    json.field("status", problem.status);
    json.field("code", problem.code);
    write_more(json);
  };
  return {.status = problem.status, .content_type = problem_json, .body = object_text(write)};
}

// --- Limits --------------------------------------------------------------------------------

void write_ceiling(const LimitReport& limit, JsonWriter& json) {
  switch (limit.ceiling) {
    case api::Ceiling::unlimited:
      return json.field("amount", "unlimited");
    case api::Ceiling::block:
      return json.field("amount", "block");
    case api::Ceiling::number:
      return json.field("amount", limit.amount);
  }
}

void write_usage(const LimitReport& limit, JsonWriter& json) {
  json.field("used", limit.used);
  json.field("reserved", limit.reserved);
  // What remains of an unlimited amount is no number.
  if (limit.ceiling == api::Ceiling::unlimited) {
    json.field("remaining", nullptr);
  } else {
    json.field("remaining", limit.remaining);
  }
  json.field("reset_ms", limit.reset_ms);
}

void write_limit(const LimitReport& limit, JsonWriter& json) {
  json.open_object();
  json.field("name", limit.name_text());
  json.field("metric", api::metric_name(limit.metric));
  if (limit.kind != api::LimitKind::concurrency) {
    json.field("kind", api::kind_name(limit.kind));
    json.field("period_ms", limit.period_ms);
  }
  write_ceiling(limit, json);
  write_usage(limit, json);
  json.close_object();
}

// The limits of one answer among those of all answers.
std::span<const LimitReport> limits_of(const std::vector<LimitReport>& limits,
                                       const QuotaAnswer& answer) {
  return std::span(limits).subspan(answer.first_limit, answer.limits_count);
}

std::span<const LimitReport> limits_of(const QuotaBatch& batch, const api::SubjectRow& row) {
  return std::span(batch.limits).subspan(row.first_limit, row.limits_count);
}

std::span<const api::SubjectRow> rows_of(const QuotaBatch& batch, const QuotaAnswer& answer) {
  return std::span(batch.rows).subspan(answer.first_row, answer.rows_count);
}

// The limits of a call that names its subjects.
std::vector<ReportedLimit> reported_limits(const QuotaRequest& request,
                                           std::span<const LimitReport> limits) {
  std::vector<ReportedLimit> reported;
  for (const LimitReport& limit : limits) {
    ASSERT(limit.subject < request.subjects.size());
    reported.push_back({.subject = request.subjects[limit.subject], .report = &limit});
  }
  return reported;
}

// The limits of an answer with rows.
std::vector<ReportedLimit> row_limits(const QuotaBatch& batch, const QuotaAnswer& answer) {
  std::vector<ReportedLimit> reported;
  for (const api::SubjectRow& row : rows_of(batch, answer)) {
    for (const LimitReport& limit : limits_of(batch, row)) {
      reported.push_back({.subject = batch.name_of(row), .report = &limit});
    }
  }
  return reported;
}

// All subjects of the request, in their order, each with its limits.
void write_subjects(const QuotaRequest& request, const std::vector<ReportedLimit>& reported,
                    JsonWriter& json) {
  json.name("subjects");
  json.open_array();
  for (const std::string& subject : request.subjects) {
    json.open_object();
    json.field("name", subject);
    json.name("limits");
    json.open_array();
    for (const ReportedLimit& limit : reported) {
      if (limit.subject == subject) write_limit(*limit.report, json);
    }
    json.close_array();
    json.close_object();
  }
  json.close_array();
}

void write_violated(const std::vector<ReportedLimit>& reported, JsonWriter& json) {
  json.name("violated");
  json.open_array();
  size_t names_bytes = 0;
  for (const ReportedLimit& limit : reported) {
    const LimitReport& report = *limit.report;
    if (!report.violated) continue;
    names_bytes += limit.subject.size();
    if (names_bytes > violated_names_bytes_max) break;
    json.open_object();
    json.field("subject", limit.subject);
    json.field("name", report.name_text());
    json.field("metric", api::metric_name(report.metric));
    write_ceiling(report, json);
    write_usage(report, json);
    json.close_object();
  }
  json.close_array();
}

// --- Reserve, check, record, consume
// ----------------------------------------------------------------

struct Admission {
  QuotaCode code = QuotaCode::ok;
  uint64_t reservation = 0;
  uint32_t lifetime_ms = 0;
};

QuotaReply admitted_reply(const QuotaRequest& request, const Admission& admission,
                          const std::vector<ReportedLimit>& reported, int64_t wall_ns) {
  QuotaReply reply = json_reply([&](JsonWriter& json) {
    const bool reserves = request.call.op == QuotaOp::reserve;
    if (reserves) json.field("reservation", text::hex_id(admission.reservation));
    json.field("code", api::code_name(admission.code));
    if (reserves) json.field("expires_in_ms", admission.lifetime_ms);
    write_subjects(request, reported, json);
  });
  reply.headers = limit_headers(reported, request.style, wall_ns);
  return reply;
}

struct Denial {
  QuotaCode code = QuotaCode::none;
  int64_t retry_after_ms = 0;
  std::string detail = {};  // empty: the code says all
};

// Which node, where it is known; empty: none.
std::string detail_of(const QuotaAnswer& answer, std::span<const std::string> node_names) {
  const size_t node = answer.failed_node_plus_one;
  if (node == 0 || node > node_names.size()) return {};
  const std::string owner = "the owner, " + node_names[node - 1] + ", ";
  switch (answer.node_failure) {
    case api::NodeFailure::is_gocc:
      return owner + "is a gocc, which keeps no quotas";
    case api::NodeFailure::takes_none:
      return owner + "takes no quota calls of this node: give both the same --peer-secret-file";
    case api::NodeFailure::silent:
      break;
  }
  return owner + "does not answer";
}

void add_retry_headers(const QuotaRequest& request, int64_t retry_after_ms, std::string& headers) {
  const int64_t seconds = std::max<int64_t>(1, base::ceil_seconds(retry_after_ms));
  headers += "Retry-After: " + std::to_string(seconds) + "\r\n";
  if (request.style == RateStyle::plain) return;
  headers += "retry-after-ms: " + std::to_string(retry_after_ms) + "\r\n";
}

QuotaReply denial_reply(const QuotaRequest& request, const Denial& denial,
                        const std::vector<ReportedLimit>& reported, int64_t wall_ns) {
  const uint16_t status = status_of(denial.code);
  const bool is_decision = status == 429 || status == 503;
  const bool can_retry =
      is_decision && api::may_retry(denial.code) && denial.retry_after_ms != api::retry_never;
  const Problem problem{api::code_name(denial.code), api::code_reason(denial.code), status};
  QuotaReply reply = problem_reply_of(problem, [&](JsonWriter& json) {
    if (!denial.detail.empty()) json.field("detail", denial.detail);
    if (!is_decision) return;
    write_violated(reported, json);
    if (can_retry) {
      json.field("retry_after_ms", denial.retry_after_ms);
    } else {
      json.field("retry_after_ms", nullptr);
    }
    json.field("retryable", can_retry);
  });
  reply.headers = limit_headers(reported, request.style, wall_ns);
  reply.closes = denial.code == QuotaCode::draining;
  if (can_retry) add_retry_headers(request, denial.retry_after_ms, reply.headers);
  return reply;
}

QuotaReply decided_reply(const QuotaRequest& request, const QuotaAnswer& answer,
                         const std::vector<LimitReport>& limits, int64_t wall_ns,
                         std::span<const std::string> node_names = {}) {
  const std::vector<ReportedLimit> reported = reported_limits(request, limits_of(limits, answer));
  if (!api::admits(answer.code)) {
    return denial_reply(request,
                        {answer.code, answer.retry_after_ms, detail_of(answer, node_names)},
                        reported, wall_ns);
  }
  return admitted_reply(request, {answer.code, answer.reservation, answer.lifetime_ms}, reported,
                        wall_ns);
}

// --- Settle, cancel, extend ----------------------------------------------------------------

void write_amounts(const api::Amounts& amounts, JsonWriter& json) {
  json.field("requests", amounts.requests);
  json.field("input_tokens", amounts.input_tokens);
  json.field("output_tokens", amounts.output_tokens);
  json.field("cost", amounts.cost);
}

// Nothing in it changes with time: a repeat gets the very same reply.
QuotaReply ended_reply(const QuotaAnswer& answer) {
  return json_reply([&](JsonWriter& json) {
    json.field("reservation", text::hex_id(answer.reservation));
    json.field("state", api::state_name(answer.state));
    write_amounts(answer.amounts, json);
    json.field("late", answer.late);
  });
}

QuotaReply extended_reply(const QuotaAnswer& answer) {
  return json_reply([&](JsonWriter& json) {
    json.field("reservation", text::hex_id(answer.reservation));
    json.field("state", api::state_name(answer.state));
    json.field("lifetime_ms", answer.lifetime_ms);
  });
}

// --- Holders -------------------------------------------------------------------------------

void write_holder(const QuotaBatch& batch, const api::HolderRow& row, JsonWriter& json) {
  json.field("reservation", text::hex_id(row.reservation));
  if (row.owner.bytes > 0) {
    json.field("owner", batch.text_of(row.owner));
  } else {
    json.field("owner", nullptr);
  }
  json.name("subjects");
  json.open_array();
  for (uint8_t at = 0; at < row.subjects_count; ++at) json.value(batch.text_of(row.subjects[at]));
  json.close_array();
  if (row.subjects_left_out > 0) json.field("subjects_left_out", row.subjects_left_out);
  json.field("state", api::state_name(row.state));
  json.field("code", api::code_name(row.admission));
  write_amounts(row.amounts, json);
  if (row.state != api::ReservationState::open) return json.field("late", row.late);
  json.field("expires_in_ms", row.lifetime_ms);
  json.field("held_ms", row.held_ms);
  json.field("connection_bound", row.connection_bound);
}

QuotaReply holder_reply(const QuotaBatch& batch, const QuotaAnswer& answer) {
  ASSERT(answer.first_holder < batch.holders.size());
  return json_reply(
      [&](JsonWriter& json) { write_holder(batch, batch.holders[answer.first_holder], json); });
}

void write_cursor(const QuotaAnswer& answer, JsonWriter& json) {
  if (answer.next_cursor != 0) {
    json.field("cursor", text::hex_id(answer.next_cursor));
  } else {
    json.field("cursor", nullptr);
  }
}

QuotaReply holders_reply(const QuotaBatch& batch, const QuotaAnswer& answer) {
  return json_reply([&](JsonWriter& json) {
    json.name("reservations");
    json.open_array();
    for (const api::HolderRow& row :
         std::span(batch.holders).subspan(answer.first_holder, answer.rows_count)) {
      json.open_object();
      write_holder(batch, row, json);
      json.close_object();
    }
    json.close_array();
    write_cursor(answer, json);
  });
}

// --- Subjects ------------------------------------------------------------------------------

// Each limit's definition together with its usage.
void write_row_limits(const api::Quota& quota, std::span<const LimitReport> reports,
                      JsonWriter& json) {
  json.name("limits");
  json.open_array();
  for (const api::Limit& limit : quota.limits) {
    json.open_object();
    const text::Json definition = policy::limit_json(limit);
    for (const auto& [name, value] : definition.get_ref<const text::Json::object_t&>()) {
      json.name(name);
      text::write_json(value, json);
    }
    const auto found = std::find_if(reports.begin(), reports.end(), [&limit](const auto& report) {
      return report.name_text() == limit.name;
    });
    if (found != reports.end()) write_usage(*found, json);
    json.close_object();
  }
  json.close_array();
}

void write_row(const QuotaBatch& batch, const api::SubjectRow& row, JsonWriter& json) {
  json.field("name", batch.name_of(row));
  json.field("source", api::source_name(row.source));
  if (row.source != api::QuotaSource::none) {
    const api::Quota& quota = batch.quotas[row.quota];
    if (!quota.profile.empty()) json.field("profile", quota.profile);
    write_row_limits(quota, limits_of(batch, row), json);
    json.field("expired", quota.refund_expired ? "refund" : "keep");
    json.field("overtakers", quota.overtakers_max);
  }
  json.field("open_reservations", row.open_reservations);
  json.field("waiting", row.waiting);
}

QuotaReply subject_reply(const QuotaRequest& request, const QuotaBatch& batch,
                         const QuotaAnswer& answer, int64_t wall_ns) {
  const std::span<const api::SubjectRow> rows = rows_of(batch, answer);
  if (rows.empty() || rows[0].source == api::QuotaSource::none) {
    return problem_reply({.status = 404,
                          .code = api::code_name(QuotaCode::unknown_subject),
                          .title = "subject has no configured quota"});
  }
  QuotaReply reply = json_reply([&](JsonWriter& json) { write_row(batch, rows[0], json); });
  reply.headers = limit_headers(row_limits(batch, answer), request.style, wall_ns);
  return reply;
}

// Calls that are refused only where another node fails: a dry run, a position.
QuotaReply undecided_reply(const QuotaRequest& request, const QuotaAnswer& answer,
                           std::span<const std::string> node_names) {
  return denial_reply(
      request, {answer.code, limits::unknown_retry_after_ms, detail_of(answer, node_names)}, {}, 0);
}

// The batch has the `usage` of the call's subject, if the call names one.
QuotaReply dry_run_reply(const QuotaRequest& request, const QuotaBatch& batch,
                         std::span<const std::string> node_names) {
  const QuotaOp op = request.call.op;
  if (op == QuotaOp::reset_all) {
    return json_reply([](JsonWriter& json) { json.field("dry_run", true); });
  }
  const QuotaAnswer& answer = batch.answers[0];
  if (!api::admits(answer.code)) return undecided_reply(request, answer, node_names);
  const std::span<const api::SubjectRow> rows = rows_of(batch, answer);
  const api::QuotaSource source = rows.empty() ? api::QuotaSource::none : rows[0].source;
  if (op == QuotaOp::remove && source != api::QuotaSource::run_time) {
    return denied_reply(request, QuotaCode::no_such_quota);
  }
  return json_reply([&](JsonWriter& json) {
    json.field("dry_run", true);
    json.field("subject", request.subjects[0]);
    if (op == QuotaOp::put) {
      json.name("quota");
      text::write_json(policy::quota_json(request.quota), json);
    }
    if (source == api::QuotaSource::none) return;
    json.name("present");
    json.open_object();
    write_row(batch, rows[0], json);
    json.close_object();
  });
}

// The batch has a call for each subject.
QuotaReply position_reply(const QuotaRequest& request, const QuotaBatch& batch,
                          std::span<const std::string> node_names) {
  for (const QuotaAnswer& answer : batch.answers) {
    if (!api::admits(answer.code)) return undecided_reply(request, answer, node_names);
  }
  const auto waits = [](const QuotaAnswer& answer) { return answer.position > 0; };
  if (std::none_of(batch.answers.begin(), batch.answers.end(), waits)) {
    return problem_reply({.status = 404,
                          .code = "not_waiting",
                          .title = "no call waits under this id",
                          .detail = "id: names no call with these subjects, or its wait is over"});
  }
  return json_reply([&](JsonWriter& json) {
    json.name("subjects");
    json.open_array();
    for (size_t place = 0; place < request.subjects.size(); ++place) {
      json.open_object();
      json.field("name", request.subjects[place]);
      json.field("position", batch.answers[place].position);
      json.close_object();
    }
    json.close_array();
  });
}

QuotaReply page_reply(const QuotaBatch& batch, const QuotaAnswer& answer) {
  return json_reply([&](JsonWriter& json) {
    json.name("subjects");
    json.open_array();
    for (const api::SubjectRow& row : rows_of(batch, answer)) {
      json.open_object();
      write_row(batch, row, json);
      json.close_object();
    }
    json.close_array();
    write_cursor(answer, json);
  });
}

}  // namespace

QuotaReply problem_reply(const QuotaProblem& problem) {
  return problem_reply_of({problem.code, problem.title, problem.status}, [&](JsonWriter& json) {
    if (!problem.detail.empty()) json.field("detail", problem.detail);
    if (problem.complaints.empty()) return;
    json.name("complaints");
    json.open_array();
    for (const std::string& complaint : problem.complaints) json.value(complaint);
    json.close_array();
    if (problem.complaints_left_out > 0) {
      json.field("complaints_left_out", problem.complaints_left_out);
    }
  });
}

QuotaReply denied_reply(const QuotaRequest& request, QuotaCode code) {
  return denial_reply(request, {.code = code, .retry_after_ms = limits::unknown_retry_after_ms}, {},
                      0);
}

QuotaReply quota_reply(const QuotaRequest& request, const QuotaBatch& batch, int64_t wall_ns,
                       std::span<const std::string> node_names) {
  ASSERT(!batch.answers.empty());
  const QuotaAnswer& answer = batch.answers[0];
  const QuotaOp op = request.call.op;
  if (request.dry_run) return dry_run_reply(request, batch, node_names);
  if (api::concerns_limits(op)) {
    return decided_reply(request, answer, batch.limits, wall_ns, node_names);
  }
  if (!api::admits(answer.code)) {
    return denial_reply(
        request, {answer.code, answer.retry_after_ms, detail_of(answer, node_names)}, {}, wall_ns);
  }
  switch (op) {
    case QuotaOp::settle:
    case QuotaOp::cancel:
      return ended_reply(answer);
    case QuotaOp::extend:
      return extended_reply(answer);
    case QuotaOp::position:
      return position_reply(request, batch, node_names);
    case QuotaOp::usage:
      return subject_reply(request, batch, answer, wall_ns);
    case QuotaOp::put:
      return subject_reply(request, batch, batch.answers[1], wall_ns);
    case QuotaOp::page:
      return page_reply(batch, answer);
    case QuotaOp::show:
      return holder_reply(batch, answer);
    case QuotaOp::holders:
      return holders_reply(batch, answer);
    case QuotaOp::reset:
      return json_reply([&](JsonWriter& json) { json.field("subject", request.subjects[0]); });
    case QuotaOp::reset_all:
      return json_reply([](JsonWriter&) {});
    default:
      break;
  }
  ASSERT(op == QuotaOp::remove);
  return {.status = 204};
}

QuotaReply waited_reply(const QuotaRequest& request, const api::WaitAnswer& waited,
                        int64_t wall_ns) {
  return decided_reply(request, waited.answer, waited.limits, wall_ns);
}

}  // namespace sluice::wire
