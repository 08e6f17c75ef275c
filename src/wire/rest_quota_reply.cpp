#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "base/assert.hpp"
#include "policy/quota_text.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::LimitReport;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::QuotaCode;
using api::QuotaOp;
using policy::Json;

constexpr std::string_view application_json = "application/json";
constexpr std::string_view problem_json = "application/problem+json";

// Names of subjects that violated limits repeat, together: what is behind them is only counted.
constexpr size_t violated_names_bytes_max = 128 * 1024;

uint16_t status_of(QuotaCode code) noexcept {
  switch (code) {
    case QuotaCode::ok:
    case QuotaCode::unlimited:
    case QuotaCode::unknown_model:
      return 200;
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
    case QuotaCode::draining:
    case QuotaCode::waiters_full:
    case QuotaCode::reservations_full:
    case QuotaCode::subjects_full:
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
    case QuotaCode::line_ahead:
    case QuotaCode::deadline_unmeetable:
    case QuotaCode::wait_limit:
    case QuotaCode::exceeds_limit:
    case QuotaCode::blocked:
    case QuotaCode::unknown_subject:
      return 429;
    case QuotaCode::none:
    case QuotaCode::queued:     // held, not answered
    case QuotaCode::withdrawn:  // only the native protocol can ask for it
      break;
  }
  constexpr bool a_rest_request_can_have_this_code = false;
  ASSERT(a_rest_request_can_have_this_code);
  return 500;
}

std::string hex_text(uint64_t number) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; number >>= 4) text[i] = digits[number & 15];
  return text;
}

QuotaReply json_reply(const Json& body) {
  return {.content_type = application_json, .body = policy::one_line(body)};
}

Json problem_json_of(std::string_view code, std::string_view title, uint16_t status) {
  return {{"type", "urn:sluicegate:problem:" + std::string(code)},
          {"title", title},
          {"status", status},
          {"code", code}};
}

QuotaReply problem_reply_of(const Json& body, uint16_t status) {
  return {.status = status, .content_type = problem_json, .body = policy::one_line(body)};
}

// --- Limits --------------------------------------------------------------------------------

Json ceiling_json(const LimitReport& limit) {
  switch (limit.ceiling) {
    case api::Ceiling::unlimited:
      return "unlimited";
    case api::Ceiling::block:
      return "block";
    case api::Ceiling::number:
      break;
  }
  return limit.amount;
}

// Nothing that ends is left of what has no end.
Json remaining_json(const LimitReport& limit) {
  return limit.ceiling == api::Ceiling::unlimited ? Json(nullptr) : Json(limit.remaining);
}

void add_usage(const LimitReport& limit, Json& out) {
  out["used"] = limit.used;
  out["reserved"] = limit.reserved;
  out["remaining"] = remaining_json(limit);
  out["reset_ms"] = limit.reset_ms;
}

Json limit_json(const LimitReport& limit) {
  Json json{{"name", limit.name_text()}, {"metric", api::metric_name(limit.metric)}};
  if (limit.kind != api::LimitKind::slots) {
    json["kind"] = api::kind_name(limit.kind);
    json["period_ms"] = limit.period_ms;
  }
  json["limit"] = ceiling_json(limit);
  add_usage(limit, json);
  return json;
}

std::span<const LimitReport> limits_of(const QuotaBatch& batch, const QuotaAnswer& answer) {
  return std::span(batch.limits).subspan(answer.first_limit, answer.limits_count);
}

std::span<const LimitReport> limits_of(const QuotaBatch& batch, const api::SubjectRow& row) {
  return std::span(batch.limits).subspan(row.first_limit, row.limits_count);
}

std::span<const api::SubjectRow> rows_of(const QuotaBatch& batch, const QuotaAnswer& answer) {
  return std::span(batch.rows).subspan(answer.first_row, answer.rows_count);
}

// The limits of a call that names its subjects.
std::vector<ToldLimit> told_limits(const QuotaRequest& request, const QuotaBatch& batch,
                                   const QuotaAnswer& answer) {
  std::vector<ToldLimit> told;
  for (const LimitReport& limit : limits_of(batch, answer)) {
    ASSERT(limit.subject < request.subjects.size());
    told.push_back({.subject = request.subjects[limit.subject], .report = &limit});
  }
  return told;
}

// The same of rows.
std::vector<ToldLimit> row_limits(const QuotaBatch& batch, const QuotaAnswer& answer) {
  std::vector<ToldLimit> told;
  for (const api::SubjectRow& row : rows_of(batch, answer)) {
    for (const LimitReport& limit : limits_of(batch, row)) {
      told.push_back({.subject = batch.name_of(row), .report = &limit});
    }
  }
  return told;
}

// All subjects that were asked, in their order, each with its limits.
Json subjects_json(const QuotaRequest& request, const std::vector<ToldLimit>& told) {
  Json subjects = Json::array();
  for (const std::string& subject : request.subjects) {
    Json limits = Json::array();
    for (const ToldLimit& limit : told) {
      if (limit.subject == subject) limits.push_back(limit_json(*limit.report));
    }
    subjects.push_back({{"name", subject}, {"limits", std::move(limits)}});
  }
  return subjects;
}

Json violated_json(const std::vector<ToldLimit>& told) {
  Json violated = Json::array();
  size_t names_bytes = 0;
  for (const ToldLimit& limit : told) {
    const LimitReport& report = *limit.report;
    if (!report.violated) continue;
    names_bytes += limit.subject.size();
    if (names_bytes > violated_names_bytes_max) break;
    Json json{{"subject", limit.subject},
              {"name", report.name_text()},
              {"metric", api::metric_name(report.metric)},
              {"limit", ceiling_json(report)}};
    add_usage(report, json);
    violated.push_back(std::move(json));
  }
  return violated;
}

// --- Reserve, check, record ----------------------------------------------------------------

struct Admission {
  QuotaCode code = QuotaCode::ok;
  uint64_t reservation = 0;
  uint32_t lifetime_ms = 0;
};

QuotaReply admitted_reply(const QuotaRequest& request, const Admission& admission,
                          const std::vector<ToldLimit>& told, int64_t wall_ns) {
  Json body = Json::object();
  const bool reserves = request.call.op == QuotaOp::reserve;
  if (reserves) body["reservation"] = reservation_text(admission.reservation);
  body["code"] = api::code_name(admission.code);
  if (reserves) body["ttl_ms"] = admission.lifetime_ms;
  body["subjects"] = subjects_json(request, told);
  QuotaReply reply = json_reply(body);
  reply.headers = limit_headers(told, request.style, wall_ns);
  return reply;
}

struct Denial {
  QuotaCode code = QuotaCode::none;
  int64_t retry_ms = 0;
};

void add_retry_headers(const QuotaRequest& request, int64_t retry_ms, std::string& headers) {
  const int64_t seconds = std::max<int64_t>(1, retry_ms / 1'000 + (retry_ms % 1'000 > 0 ? 1 : 0));
  headers += "Retry-After: " + std::to_string(seconds) + "\r\n";
  if (request.style == RateStyle::plain) return;
  headers += "retry-after-ms: " + std::to_string(retry_ms) + "\r\n";
}

QuotaReply denial_reply(const QuotaRequest& request, const Denial& denial,
                        const std::vector<ToldLimit>& told, int64_t wall_ns) {
  const uint16_t status = status_of(denial.code);
  Json body = problem_json_of(api::code_name(denial.code), api::code_reason(denial.code), status);
  const bool is_decision = status == 429 || status == 503;
  const bool can_retry =
      is_decision && api::may_retry(denial.code) && denial.retry_ms != api::retry_never;
  if (is_decision) {
    body["violated"] = violated_json(told);
    body["retry_after_ms"] = can_retry ? Json(denial.retry_ms) : Json(nullptr);
    body["retryable"] = can_retry;
  }
  QuotaReply reply = problem_reply_of(body, status);
  reply.headers = limit_headers(told, request.style, wall_ns);
  reply.closes = denial.code == QuotaCode::draining;
  if (can_retry) add_retry_headers(request, denial.retry_ms, reply.headers);
  return reply;
}

QuotaReply decided_reply(const QuotaRequest& request, const QuotaBatch& batch, int64_t wall_ns) {
  const QuotaAnswer& answer = batch.answers[0];
  const std::vector<ToldLimit> told = told_limits(request, batch, answer);
  if (!api::admits(answer.code)) {
    return denial_reply(request, {answer.code, answer.retry_ms}, told, wall_ns);
  }
  return admitted_reply(request, {answer.code, answer.reservation, answer.lifetime_ms}, told,
                        wall_ns);
}

// --- Of a reservation ----------------------------------------------------------------------

// Nothing in it changes with time: a repeat is told the very same.
QuotaReply ended_reply(const QuotaAnswer& answer) {
  return json_reply({{"reservation", reservation_text(answer.reservation)},
                     {"state", api::state_name(answer.state)},
                     {"requests", answer.amounts.requests},
                     {"input_tokens", answer.amounts.input_tokens},
                     {"output_tokens", answer.amounts.output_tokens},
                     {"cost", answer.amounts.cost},
                     {"late", answer.late}});
}

QuotaReply extended_reply(const QuotaAnswer& answer) {
  return json_reply({{"reservation", reservation_text(answer.reservation)},
                     {"state", api::state_name(answer.state)},
                     {"ttl_ms", answer.lifetime_ms}});
}

// --- Of subjects ---------------------------------------------------------------------------

// A limit's definition, and how it stands beside it.
Json row_limits_json(const api::Quota& quota, std::span<const LimitReport> reports) {
  Json limits = Json::array();
  for (const api::Limit& limit : quota.limits) {
    Json json = policy::limit_json(limit);
    const auto found = std::find_if(reports.begin(), reports.end(), [&limit](const auto& report) {
      return report.name_text() == limit.name;
    });
    if (found != reports.end()) add_usage(*found, json);
    limits.push_back(std::move(json));
  }
  return limits;
}

Json row_json(const QuotaBatch& batch, const api::SubjectRow& row) {
  Json json{{"name", batch.name_of(row)}, {"source", api::source_name(row.source)}};
  if (row.source != api::QuotaSource::none) {
    const api::Quota& quota = batch.quotas[row.quota];
    if (!quota.profile.empty()) json["profile"] = quota.profile;
    json["limits"] = row_limits_json(quota, limits_of(batch, row));
    json["expired"] = quota.refund_expired ? "refund" : "keep";
    json["overtakers"] = quota.overtakers_max;
  }
  json["open_reservations"] = row.open_reservations;
  json["waiting"] = row.waiting;
  return json;
}

QuotaReply subject_reply(const QuotaRequest& request, const QuotaBatch& batch,
                         const QuotaAnswer& answer, int64_t wall_ns) {
  const std::span<const api::SubjectRow> rows = rows_of(batch, answer);
  if (rows.empty() || rows[0].source == api::QuotaSource::none) {
    return problem_reply({.status = 404,
                          .code = api::code_name(QuotaCode::unknown_subject),
                          .title = "subject has no configured quota"});
  }
  QuotaReply reply = json_reply(row_json(batch, rows[0]));
  reply.headers = limit_headers(row_limits(batch, answer), request.style, wall_ns);
  return reply;
}

QuotaReply page_reply(const QuotaBatch& batch, const QuotaAnswer& answer) {
  Json subjects = Json::array();
  for (const api::SubjectRow& row : rows_of(batch, answer)) {
    subjects.push_back(row_json(batch, row));
  }
  const bool has_more = answer.next_cursor != 0;
  return json_reply({{"subjects", std::move(subjects)},
                     {"cursor", has_more ? Json(hex_text(answer.next_cursor)) : Json(nullptr)}});
}

}  // namespace

std::string reservation_text(uint64_t reservation) {
  return hex_text(reservation);
}

QuotaReply problem_reply(const QuotaProblem& problem) {
  Json body = problem_json_of(problem.code, problem.title, problem.status);
  if (!problem.detail.empty()) body["detail"] = problem.detail;
  if (!problem.complaints.empty()) body["complaints"] = problem.complaints;
  return problem_reply_of(body, problem.status);
}

QuotaReply denied_reply(const QuotaRequest& request, QuotaCode code) {
  return denial_reply(request, {.code = code}, {}, 0);
}

QuotaReply quota_reply(const QuotaRequest& request, const QuotaBatch& batch, int64_t wall_ns) {
  ASSERT(!batch.answers.empty());
  const QuotaAnswer& answer = batch.answers[0];
  const QuotaOp op = request.call.op;
  if (op == QuotaOp::reserve || op == QuotaOp::check || op == QuotaOp::record) {
    return decided_reply(request, batch, wall_ns);
  }
  if (!api::admits(answer.code)) return denied_reply(request, answer.code);
  switch (op) {
    case QuotaOp::settle:
    case QuotaOp::cancel:
      return ended_reply(answer);
    case QuotaOp::extend:
      return extended_reply(answer);
    case QuotaOp::usage:
      return subject_reply(request, batch, answer, wall_ns);
    case QuotaOp::put:
      return subject_reply(request, batch, batch.answers[1], wall_ns);
    case QuotaOp::page:
      return page_reply(batch, answer);
    case QuotaOp::reset:
      return json_reply({{"subject", request.subjects[0]}});
    case QuotaOp::reset_all:
      return json_reply(Json::object());
    default:
      break;
  }
  ASSERT(op == QuotaOp::remove);
  return {.status = 204};
}

QuotaReply granted_reply(const QuotaRequest& request, uint64_t reservation, const QuotaBatch& shown,
                         int64_t wall_ns) {
  const QuotaAnswer& answer = shown.answers[0];
  const QuotaCode code = api::admits(answer.code) ? answer.code : QuotaCode::ok;
  const Admission admission{
      .code = code, .reservation = reservation, .lifetime_ms = answer.lifetime_ms};
  return admitted_reply(request, admission, row_limits(shown, answer), wall_ns);
}

QuotaReply not_granted_reply(const QuotaRequest& request, QuotaCode code, const QuotaBatch& checked,
                             int64_t wall_ns) {
  const QuotaAnswer& answer = checked.answers[0];
  return denial_reply(request, {code, answer.retry_ms}, told_limits(request, checked, answer),
                      wall_ns);
}

}  // namespace sluice::wire
