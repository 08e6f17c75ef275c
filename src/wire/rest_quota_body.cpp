#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/smaller_limit.hpp"
#include "policy/quota_text.hpp"
#include "text/joined_list.hpp"
#include "text/json.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"
#include "wire/http_text.hpp"
#include "wire/rest_endpoint.hpp"
#include "wire/rest_numbers.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using text::Json;

constexpr std::string_view invalid_request = "invalid_request";
constexpr std::string_view invalid_request_title = "the request is not valid";
constexpr text::JsonBounds body_bounds{.depth_max = 16, .names_max = 64};
constexpr size_t complaints_max = 20;  // of a quota: further ones are only counted

QuotaProblem bad_request(std::string detail) {
  return {.code = invalid_request, .title = invalid_request_title, .detail = std::move(detail)};
}

QuotaProblem bad_tokens(std::string detail) {
  return {.code = "invalid_tokens",
          .title = "estimated tokens must be non-negative",
          .detail = std::move(detail)};
}

QuotaProblem problem_of(QuotaCode code, std::string detail) {
  return {
      .code = api::code_name(code), .title = api::code_reason(code), .detail = std::move(detail)};
}

// The fault of a subject's name; empty: none.
std::string_view subject_fault(std::string_view name, const QuotaOptions& options) noexcept {
  if (name.empty()) return "is empty";
  if (name.size() > options.name_bytes_max) return "is too long (--max-key-bytes)";
  return {};
}

QuotaProblem invalid_subject(const std::string& place, std::string_view fault) {
  return problem_of(QuotaCode::invalid_subject, (place + ": ").append(fault));
}

// --- The body as a whole -------------------------------------------------------------------

std::variant<Json, QuotaProblem> parse_body(std::string_view body) {
  if (trim_white_space(body).empty()) {
    return bad_request("the body: is missing; send a JSON object (GET /openapi.json describes it)");
  }
  text::ParsedJson parsed = text::parse_json(body, body_bounds);
  if (!parsed.complaint.empty()) return bad_request("the body: " + parsed.complaint);
  if (!parsed.value.is_object()) {
    return bad_request("the body: must be a JSON object, not " + text::shown(parsed.value));
  }
  return std::move(parsed.value);
}

// "1 to 8"
std::string bounds_text(const text::NumberField& field) {
  return std::to_string(field.min) + " to " + std::to_string(field.max);
}

bool is_within(const text::NumberField& field, uint64_t number) noexcept {
  return field.min <= number && number <= field.max;
}

// --- Fields --------------------------------------------------------------------------------

enum Field : uint32_t {
  subjects = 1U << 0,
  requests = 1U << 1,
  input_tokens = 1U << 2,
  cached_input_tokens = 1U << 3,
  max_output_tokens = 1U << 4,
  output_tokens = 1U << 5,
  cost = 1U << 6,
  lifetime_ms = 1U << 7,
  wait_limit_ms = 1U << 8,
  id = 1U << 9,
  owner = 1U << 10,
  reservation = 1U << 11,
  keep_requests = 1U << 12,
  subject = 1U << 13,
};

struct FieldName {
  std::string_view name;
  Field field;
};

constexpr std::array<FieldName, 14> field_names{{
    {"subjects", subjects},
    {"requests", requests},
    {"input_tokens", input_tokens},
    {"cached_input_tokens", cached_input_tokens},
    {"max_output_tokens", max_output_tokens},
    {"output_tokens", output_tokens},
    {"cost", cost},
    {"lifetime_ms", lifetime_ms},
    {"wait_limit_ms", wait_limit_ms},
    {"id", id},
    {"owner", owner},
    {"reservation", reservation},
    {"keep_requests", keep_requests},
    {"subject", subject},
}};

// The fields that an endpoint's body may have, and those that it must have.
struct Shape {
  QuotaOp op = QuotaOp::reserve;
  uint32_t takes = 0;
  uint32_t needs = 0;
};

constexpr uint32_t reserve_fields = subjects | requests | input_tokens | max_output_tokens | cost |
                                    lifetime_ms | wait_limit_ms | id | owner;
constexpr uint32_t usage_fields =
    requests | input_tokens | cached_input_tokens | output_tokens | cost;

// Any other text is the id of no reservation.
std::optional<QuotaProblem> read_id(std::string_view text, api::QuotaCall& call) {
  if (const auto id = text::parse_hex_id(text)) {
    call.reservation = *id;
    return std::nullopt;
  }
  QuotaProblem problem = problem_of(QuotaCode::unknown_reservation, {});
  problem.status = 404;
  return problem;
}

std::vector<std::string_view> names_of(uint32_t fields) {
  std::vector<std::string_view> names;
  for (const FieldName& field : field_names) {
    if ((fields & field.field) != 0) names.push_back(field.name);
  }
  return names;
}

std::string no_such_field(uint32_t fields) {
  const std::vector<std::string_view> names = names_of(fields);
  return "no such field; there are " + (names.empty() ? "none" : text::joined_list(names, "and"));
}

// Reads a body's fields into a request; stops at the first fault.
class BodyReader {
 public:
  BodyReader(const Shape& shape, const QuotaOptions& options, QuotaRequest& request)
      : shape_(shape), options_(options), request_(request) {}

  std::optional<QuotaProblem> read(const Json& body) {
    for (const auto& [name, value] : body.get_ref<const Json::object_t&>()) {
      read_field(name, value);
      if (problem_) return std::move(problem_);
    }
    const uint32_t missing = shape_.needs & ~given_;
    if (missing != 0) complain(text::joined_list(names_of(missing), "and"), "is missing");
    check_cached();
    return std::move(problem_);
  }

 private:
  void complain(std::string_view field, std::string_view what) {
    if (!problem_) problem_ = bad_request(std::string(field).append(": ").append(what));
  }

  void read_field(const std::string& name, const Json& value) {
    const auto found = std::find_if(field_names.begin(), field_names.end(),
                                    [&name](const FieldName& field) { return field.name == name; });
    if (found == field_names.end() || (shape_.takes & found->field) == 0) {
      return complain(text::quoted_excerpt(name), no_such_field(shape_.takes));
    }
    given_ |= found->field;
    read_known(*found, value);
  }

  void read_known(const FieldName& field, const Json& value) {
    api::QuotaCall& call = request_.call;
    switch (field.field) {
      case subjects:
        return read_subjects(value);
      case subject:
        return read_subject(value);
      case requests:
        return read_amount(field.name, value, call.amounts.requests, api::given::requests);
      case input_tokens:
        return read_amount(field.name, value, call.amounts.input_tokens, api::given::input_tokens);
      case max_output_tokens:
      case output_tokens:
        return read_amount(field.name, value, call.amounts.output_tokens,
                           api::given::output_tokens);
      case cost:
        return read_amount(field.name, value, call.amounts.cost, api::given::cost);
      case cached_input_tokens:
        return read_number(amount_number(field.name), value, call.cached_input_tokens);
      case lifetime_ms:
        return read_small(lifetime_number, value, call.lifetime_ms);
      case wait_limit_ms:
        return read_wait(value);
      case id:
        return read_text(field.name, value, request_.client_id);
      case owner:
        return read_text(field.name, value, request_.owner);
      case reservation:
        return read_reservation(field.name, value);
      case keep_requests:
        return read_keep_requests(field.name, value);
    }
  }

  static bool is_token_count(std::string_view name) noexcept { return name.ends_with("tokens"); }

  static bool is_negative(const Json& value) {
    return value.is_number() && value.get<double>() < 0;
  }

  void read_number(const text::NumberField& field, const Json& value, uint64_t& out) {
    if (const auto number = text::whole_number(value, field)) {
      out = *number;
      return;
    }
    const std::string what = text::whole_number_complaint(value, field);
    if (is_token_count(field.name) && is_negative(value)) {
      problem_ = bad_tokens(std::string(field.name) + ": " + what);
    } else {
      complain(field.name, what);
    }
  }

  void read_small(const text::NumberField& field, const Json& value, uint32_t& out) {
    uint64_t number = out;
    read_number(field, value, number);
    out = static_cast<uint32_t>(number);
  }

  void read_amount(std::string_view name, const Json& value, uint64_t& out, uint8_t given) {
    read_number(amount_number(name), value, out);
    request_.call.given_bits |= given;
  }

  void read_wait(const Json& value) {
    api::QuotaCall& call = request_.call;
    read_small(wait_limit_number, value, call.wait_ms_max);
    // A check never waits.
    if (call.wait_ms_max == 0 || !api::asks_admission(shape_.op)) return;
    call.flags |= api::quota_flag::may_wait;
    call.wait_ms_max = base::smaller_limit(call.wait_ms_max, options_.wait_ms_max);
  }

  void read_text(std::string_view name, const Json& value, std::string& out) {
    if (value.is_string()) out = value.get<std::string>();
    if (!value.is_string() || !is_within(id_bytes_number, out.size())) {
      complain(name, "must be a string of " + bounds_text(id_bytes_number) + " bytes, not " +
                         text::shown(value));
    }
  }

  // A text that is no id is not found, like an id that was never used.
  void read_reservation(std::string_view name, const Json& value) {
    if (!value.is_string()) {
      return complain(name, "must be the id that /v1/reserve returned, not " + text::shown(value));
    }
    problem_ = read_id(value.get_ref<const std::string&>(), request_.call);
  }

  void read_keep_requests(std::string_view name, const Json& value) {
    if (!value.is_boolean())
      return complain(name, "must be true or false, not " + text::shown(value));
    if (value.get<bool>()) request_.call.flags |= api::quota_flag::keep_requests;
  }

  void read_subject(const Json& value) {
    if (!value.is_string()) {
      return complain("subject", "must be a string, not " + text::shown(value));
    }
    add_subject("subject", value.get_ref<const std::string&>());
  }

  void read_subjects(const Json& value) {
    if (!value.is_array()) {
      return complain("subjects", "must be an array of strings, not " + text::shown(value));
    }
    if (!is_within(subjects_number, value.size())) {
      problem_ = problem_of(QuotaCode::invalid_subject,
                            "subjects: must have " + bounds_text(subjects_number) + " names, not " +
                                std::to_string(value.size()));
      return;
    }
    for (size_t i = 0; i < value.size() && !problem_; ++i) {
      const std::string place = "subjects[" + std::to_string(i) + "]";
      if (!value[i].is_string()) {
        return complain(place, "must be a string, not " + text::shown(value[i]));
      }
      add_subject(place, value[i].get_ref<const std::string&>());
    }
  }

  void add_subject(const std::string& place, const std::string& name) {
    std::string fault{subject_fault(name, options_)};
    const auto& known = request_.subjects;
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      fault = text::quoted_excerpt(name) + " is a duplicate";
    }
    if (!fault.empty()) {
      problem_ = invalid_subject(place, fault);
    } else {
      request_.subjects.push_back(name);
    }
  }

  // Input tokens that a settle does not give stay as reserved, and are not known here.
  void check_cached() {
    const api::QuotaCall& call = request_.call;
    const bool known = (given_ & input_tokens) != 0 || api::charges_used(call.op);
    if (known && call.cached_input_tokens > call.amounts.input_tokens) {
      complain("cached_input_tokens", "must be a part of input_tokens, not more");
    }
  }

  const Shape shape_;
  const QuotaOptions& options_;
  QuotaRequest& request_;
  uint32_t given_ = 0;
  std::optional<QuotaProblem> problem_;
};

// --- The head and the query ----------------------------------------------------------------

std::optional<QuotaProblem> read_style(std::string_view text, RateStyle& style) {
  if (text.empty()) return std::nullopt;
  if (equals_ignoring_case(text, "openai")) {
    style = RateStyle::openai;
  } else if (equals_ignoring_case(text, "anthropic")) {
    style = RateStyle::anthropic;
  } else {
    return bad_request("X-RateLimit-Style, ?headers: must be openai or anthropic, not " +
                       text::quoted_excerpt(text));
  }
  return std::nullopt;
}

std::optional<QuotaProblem> read_page(const RestQuota& asked, api::QuotaCall& call) {
  call.limit = quota_page_rows;
  if (!asked.limit.empty()) {
    const auto limit = text::parse_whole<uint32_t>(asked.limit);
    if (!limit || !is_within(page_limit_number, *limit)) {
      return bad_request("limit: must be a whole number from " + bounds_text(page_limit_number) +
                         ", not " + text::quoted_excerpt(asked.limit));
    }
    call.limit = *limit;
  }
  if (asked.cursor.empty()) return std::nullopt;
  const auto cursor = text::parse_hex_id(asked.cursor);
  if (!cursor) return bad_request("cursor: must be the `cursor` of the previous page");
  call.cursor = *cursor;
  return std::nullopt;
}

// ?subject= with an empty name does not list all subjects: a script's variable may be empty.
std::optional<QuotaProblem> read_holders(const RestQuota& asked, const QuotaOptions& options,
                                         QuotaRequest& request) {
  if (asked.by_subject) {
    const std::string_view fault = subject_fault(asked.subject, options);
    if (!fault.empty()) return invalid_subject("subject", fault);
    request.subjects.emplace_back(asked.subject);
  }
  return read_page(asked, request.call);
}

// --- PUT, GET and DELETE of a subject ------------------------------------------------------

std::optional<QuotaProblem> read_put(std::string_view body, QuotaRequest& request) {
  auto parsed = parse_body(body);
  if (auto* problem = std::get_if<QuotaProblem>(&parsed)) return std::move(*problem);
  std::vector<std::string> complaints;
  request.quota =
      policy::read_quota(std::get<Json>(parsed), "", {}, complaints, policy::Form::reported);
  if (complaints.empty()) return std::nullopt;
  QuotaProblem problem = problem_of(QuotaCode::invalid_quota, complaints.front());
  if (complaints.size() > complaints_max) {
    problem.complaints_left_out = complaints.size() - complaints_max;
    complaints.resize(complaints_max);
  }
  problem.complaints = std::move(complaints);
  return problem;
}

std::optional<QuotaProblem> read_subject_request(const RestQuota& asked, std::string_view body,
                                                 const QuotaOptions& options,
                                                 QuotaRequest& request) {
  const std::string_view fault = subject_fault(asked.subject, options);
  if (!fault.empty()) return invalid_subject("subject", fault);
  request.subjects.emplace_back(asked.subject);
  request.call.op = QuotaOp::usage;
  if (asked.method == "DELETE") request.call.op = QuotaOp::remove;
  if (asked.method != "PUT") return std::nullopt;
  request.call.op = QuotaOp::put;
  return read_put(body, request);
}

std::optional<QuotaProblem> read_posted(const Shape& shape, std::string_view body,
                                        const QuotaOptions& options, QuotaRequest& request) {
  request.call.op = shape.op;
  const bool may_be_empty = shape.needs == 0 && trim_white_space(body).empty();
  auto parsed = parse_body(may_be_empty ? "{}" : body);
  if (auto* problem = std::get_if<QuotaProblem>(&parsed)) return std::move(*problem);
  return BodyReader{shape, options, request}.read(std::get<Json>(parsed));
}

// The switch has no default, so that the compiler reports a missing endpoint.
std::optional<QuotaProblem> read_by_endpoint(const RestQuota& asked, std::string_view body,
                                             const QuotaOptions& options, QuotaRequest& request) {
  const auto posted = [&](QuotaOp op, uint32_t takes, uint32_t needs) {
    return read_posted({.op = op, .takes = takes, .needs = needs}, body, options, request);
  };
  switch (asked.endpoint) {
    case QuotaEndpoint::subjects:
      request.call.op = QuotaOp::page;
      return read_page(asked, request.call);
    case QuotaEndpoint::subject:
      return read_subject_request(asked, body, options, request);
    case QuotaEndpoint::reserve:
      return posted(QuotaOp::reserve, reserve_fields, subjects);
    case QuotaEndpoint::check:
      return posted(QuotaOp::check, reserve_fields, subjects);
    case QuotaEndpoint::settle:
      return posted(QuotaOp::settle, reservation | usage_fields, reservation);
    case QuotaEndpoint::cancel:
      return posted(QuotaOp::cancel, reservation | keep_requests, reservation);
    case QuotaEndpoint::extend:
      return posted(QuotaOp::extend, reservation | lifetime_ms, reservation);
    case QuotaEndpoint::record:
      return posted(QuotaOp::record, subjects | usage_fields | id, subjects);
    case QuotaEndpoint::consume:
      return posted(QuotaOp::consume, subjects | usage_fields | id | wait_limit_ms, subjects);
    case QuotaEndpoint::position:
      return posted(QuotaOp::position, subjects | id, subjects | id);
    case QuotaEndpoint::reset:
      return posted(QuotaOp::reset, subject, subject);
    case QuotaEndpoint::reset_all:
      return posted(QuotaOp::reset_all, 0, 0);
    case QuotaEndpoint::reservations:
      request.call.op = QuotaOp::holders;
      return read_holders(asked, options, request);
    case QuotaEndpoint::reservation:
      request.call.op = QuotaOp::show;
      return read_id(asked.reservation, request.call);
    case QuotaEndpoint::none:
      break;
  }
  constexpr bool is_a_quota_endpoint = false;
  ASSERT(is_a_quota_endpoint);
  return std::nullopt;
}

std::optional<QuotaProblem> check_query(const RestQuota& asked) {
  if (!asked.unknown_parameter.empty()) {
    return bad_request("the query: no such parameter " +
                       text::quoted_excerpt(asked.unknown_parameter) + "; there are " +
                       std::string(quota_endpoint(asked.endpoint).parameters));
  }
  if (!asked.invalid_parameter.empty()) {
    return bad_request("the query: " + std::string(asked.invalid_parameter) +
                       ": given twice, or impossible to decode");
  }
  if (asked.has_unclear_cluster) return bad_request("cluster: must be true or false");
  return std::nullopt;
}

// An endpoint without a dry run refuses the parameter: the client wants nothing to change.
std::optional<QuotaProblem> read_dry_run(const RestQuota& asked, QuotaRequest& request) {
  if (asked.dry_run == DryRun::absent) return std::nullopt;
  if (!api::is_administrative(request.call.op)) {
    return bad_request("dry_run: not supported here; POST /v1/check shows what a reserve would do");
  }
  if (asked.dry_run == DryRun::unclear) return bad_request("dry_run: must be true or false");
  request.dry_run = asked.dry_run == DryRun::yes;
  return std::nullopt;
}

}  // namespace

bool reads_quota_body(const RestQuota& asked) noexcept {
  return asked.method == "POST" || asked.method == "PUT";
}

std::variant<QuotaRequest, QuotaProblem> read_quota_request(const RestQuota& asked,
                                                            std::string_view body,
                                                            const QuotaOptions& options) {
  QuotaRequest request{.endpoint = asked.endpoint};
  std::optional<QuotaProblem> problem = check_query(asked);
  if (!problem) problem = read_style(asked.headers, request.style);
  if (!problem) problem = read_style(asked.rate_style, request.style);  // overrides the query
  if (!problem) problem = read_by_endpoint(asked, body, options, request);
  if (!problem) problem = read_dry_run(asked, request);
  if (problem) return std::move(*problem);
  return request;
}

}  // namespace sluice::wire
