#include <array>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {

namespace {

constexpr std::string_view text_plain = "text/plain; charset=UTF-8";
constexpr std::string_view application_json = "application/json";

enum class Resource : uint8_t {
  unknown,
  rate_key,
  rate_id,
  debug,
  debug_key,
  health,
  metrics,
  top,
  openapi,
  quota
};

// A path cut into its parts; key and id are still percent-encoded.
struct Path {
  Resource resource = Resource::unknown;
  std::string_view key;
  std::string_view id;
  QuotaEndpoint quota = QuotaEndpoint::none;
};

// Nothing is tolerated at the edges, as in gocc: /rate, /rate/, /rate/k/ and /debug/ do not exist,
// while /rate//5 does: its key is empty, which is judged later.
Path cut_path(std::string_view path) noexcept {
  constexpr std::string_view rate = "/rate/";
  constexpr std::string_view debug = "/debug/";
  if (path.starts_with(rate)) {
    path.remove_prefix(rate.size());
    const size_t slash = path.find('/');
    if (slash == std::string_view::npos) {
      return path.empty() ? Path{} : Path{.resource = Resource::rate_key, .key = path};
    }
    const std::string_view id = path.substr(slash + 1);
    if (id.empty()) return {};
    return {.resource = Resource::rate_id, .key = path.substr(0, slash), .id = id};
  }
  if (path.starts_with(debug)) {
    path.remove_prefix(debug.size());
    return path.empty() ? Path{} : Path{.resource = Resource::debug_key, .key = path};
  }
  if (path.starts_with("/v1/")) {
    const QuotaPath quota = cut_quota_path(path);
    if (quota.endpoint == QuotaEndpoint::none) return {};
    return {.resource = Resource::quota, .key = quota.key, .quota = quota.endpoint};
  }
  if (path == "/openapi.json") return {.resource = Resource::openapi};
  if (path == "/debug") return {.resource = Resource::debug};
  if (path == "/healthz") return {.resource = Resource::health};
  if (path == "/metrics") return {.resource = Resource::metrics};
  if (path == "/top") return {.resource = Resource::top};
  return {};
}

std::string_view allowed_methods(const Path& path) noexcept {
  const Resource resource = path.resource;
  if (resource == Resource::quota) return quota_endpoint_info(path.quota).methods;
  if (resource == Resource::rate_key) return "OPTIONS, GET, POST";
  if (resource == Resource::rate_id) return "OPTIONS, DELETE";
  return "OPTIONS, GET";
}

bool is_allowed(const Path& path, std::string_view method) noexcept {
  const Resource resource = path.resource;
  if (resource == Resource::quota) return has_quota_method(path.quota, method);
  if (resource == Resource::rate_id) return method == "DELETE";
  return method == "GET" || (resource == Resource::rate_key && method == "POST");
}

// A parameter as it was first given; white space alone is as good as absent.
struct Parameter {
  bool was_given = false;
  std::string_view value;

  bool is_present() const noexcept { return !value.empty(); }
};

struct Parameters {
  Parameter can_wait;
  Parameter max_requests;
  Parameter max_requests_in_queue;
  Parameter cost;
  Parameter max_wait_ms;
  Parameter pretty;
  Parameter prefix;
  Parameter limit;
  Parameter keys;
  Parameter cursor;
  Parameter headers;
  Parameter subject;
  Parameter dry_run;
  std::string_view unknown_field;  // the first one
  std::string_view unclear_field;  // given twice, or not to be decoded

  void note_unknown(std::string_view name) noexcept {
    if (unknown_field.empty()) unknown_field = name;
  }
  Parameter* find(std::string_view name) noexcept {
    if (name == "canWait") return &can_wait;
    if (name == "maxRequests") return &max_requests;
    if (name == "maxRequestsInQueue") return &max_requests_in_queue;
    if (name == "cost") return &cost;
    if (name == "maxWaitMillis") return &max_wait_ms;
    if (name == "pretty") return &pretty;
    if (name == "prefix") return &prefix;
    if (name == "limit") return &limit;
    if (name == "keys") return &keys;
    if (name == "cursor") return &cursor;
    if (name == "headers") return &headers;
    if (name == "subject") return &subject;
    if (name == "dry_run") return &dry_run;
    return nullptr;
  }
};

// gocc passes over what it does not know or cannot read, and so do its requests here. Those for
// quotas refuse it, as they do in a body: whoever misspells dry_run wants nothing to change.
Parameters read_query(std::string_view query, QuotaEndpoint quotas, DecodeBuffer& buffer) noexcept {
  Parameters parameters;
  while (!query.empty()) {
    const std::string_view text = query.substr(0, query.find('&'));
    const std::optional<QueryPair> pair = take_query_pair(query);
    const auto name = pair ? buffer.form_decode(pair->name) : std::nullopt;
    const bool is_known = name && (quotas == QuotaEndpoint::none || has_quota_field(quotas, *name));
    if (!is_known) parameters.note_unknown(name && !name->empty() ? *name : text);
    Parameter* parameter = is_known ? parameters.find(*name) : nullptr;
    if (parameter == nullptr) continue;
    const bool repeated = parameter->was_given;
    const std::optional<std::string_view> value = buffer.form_decode(pair->value);
    if (repeated || !value) {
      parameters.unclear_field = *name;
      continue;
    }
    // A subject is the same text wherever it stands: nothing is cut off.
    const bool is_subject = parameter == &parameters.subject;
    *parameter = {.was_given = true, .value = is_subject ? *value : trim_white_space(*value)};
  }
  return parameters;
}

constexpr bool is_within(int32_t value, uint32_t min, uint32_t max) noexcept {
  return value >= 0 && static_cast<uint32_t>(value) >= min && static_cast<uint32_t>(value) <= max;
}

// The number of a parameter that is_present(); `absent` when it is not, nothing when it is none.
std::optional<int32_t> number(const Parameter& parameter, int32_t absent) noexcept {
  return parameter.is_present() ? parse_int32(parameter.value) : absent;
}

// Why a request is not decided; no text: nothing is wrong so far.
struct Complaint {
  uint16_t status = 0;
  std::string_view text;
};

// gocc's parameters. The order of the checks is part of what callers see.
Complaint read_gocc_parameters(const Parameters& parameters, const RestOptions& options,
                               api::Entry& entry) noexcept {
  const Parameter& can_wait = parameters.can_wait;
  const Parameter& max_requests = parameters.max_requests;
  const Parameter& max_queue = parameters.max_requests_in_queue;
  const std::optional<bool> may_wait = can_wait.is_present() ? parse_bool(can_wait.value) : false;
  if (!may_wait) return {400, "failed to parse canWait query parameter"};

  const std::optional<int32_t> requests = number(max_requests, 1);
  if (!requests) return {400, "failed to parse maxRequests query parameter"};
  if (max_requests.is_present() && !options.requests_can_set_rate) {
    return {403, "maxRequests query parameter is disabled"};
  }

  const std::optional<int32_t> queue = number(max_queue, 0);
  if (!queue) return {400, "failed to parse maxRequestsInQueue query parameter"};
  if (max_queue.is_present() && !options.requests_can_mod_queue) {
    return {403, "maxRequestsInQueue query parameter is disabled"};
  }

  if (!is_within(*requests, 1, limits::permits_max)) return {400, "maxRequests out of bounds"};
  if (!is_within(*queue, 0, limits::queue_max)) return {400, "maxRequestsInQueue out of bounds"};

  if (*may_wait) entry.flags |= api::flag::may_wait;
  if (max_requests.is_present()) entry.max_requests = static_cast<uint32_t>(*requests);
  if (max_queue.is_present()) entry.max_requests_in_queue = static_cast<uint32_t>(*queue);
  return {};
}

// What gocc does not have is judged after all that it has, in the same manner.
Complaint read_own_parameters(const Parameter& cost, const Parameter& max_wait_ms,
                              api::Entry& entry) noexcept {
  const std::optional<int32_t> permits = number(cost, 1);
  if (!permits) return {400, "failed to parse cost query parameter"};
  const std::optional<int32_t> wait_ms = number(max_wait_ms, 0);
  if (!wait_ms) return {400, "failed to parse maxWaitMillis query parameter"};

  if (!is_within(*permits, 1, limits::permits_max)) return {400, "cost out of bounds"};
  if (!is_within(*wait_ms, 0, limits::wait_ms_max)) return {400, "maxWaitMillis out of bounds"};

  entry.cost = static_cast<uint32_t>(*permits);
  entry.wait_ms_max = static_cast<uint32_t>(*wait_ms);
  return {};
}

Complaint read_acquire(std::string_view key, const Parameters& parameters,
                       const RestOptions& options, api::Entry& entry) noexcept {
  if (key.empty()) return {400, "empty key provided"};
  if (key.size() > options.key_bytes_max) return {431, "key too long (--max-key-bytes)"};
  Complaint complaint = read_gocc_parameters(parameters, options, entry);
  if (complaint.text.empty()) {
    complaint = read_own_parameters(parameters.cost, parameters.max_wait_ms, entry);
  }
  entry.op = api::Op::acquire;
  entry.flags |= api::flag::wants_details | api::flag::shows_id;
  return complaint;
}

Complaint read_release(std::string_view key, std::string_view id, const Parameters& parameters,
                       const RestOptions& options, api::Entry& entry) noexcept {
  if (key.empty()) return {400, "empty key provided"};
  if (id.empty()) return {400, "empty id provided"};
  if (key.size() > options.key_bytes_max) return {431, "key too long (--max-key-bytes)"};
  entry.op = api::Op::release;
  return read_own_parameters(parameters.cost, Parameter{}, entry);
}

RestReply refusal(const Complaint& complaint, bool json) noexcept {
  return {.status = complaint.status,
          .body = complaint.text,
          .content_type = json ? application_json : text_plain,
          .json = json};
}

RestRequest read_top(const Parameters& parameters, bool json) noexcept {
  const std::optional<int32_t> keys_max = number(parameters.keys, limits::top_keys);
  if (!keys_max) return refusal({400, "failed to parse keys query parameter"}, json);
  if (!is_within(*keys_max, 1, limits::top_keys_max)) {
    return refusal({400, "keys out of bounds"}, json);
  }
  return RestTop{.keys_max = static_cast<uint32_t>(*keys_max)};
}

// gocc knows nothing but `pretty` here.
RestRequest read_debug(const Parameters& parameters, bool json) noexcept {
  const std::optional<int32_t> keys_max = number(parameters.limit, limits::debug_keys_max);
  if (!keys_max) return refusal({400, "failed to parse limit query parameter"}, json);
  if (!is_within(*keys_max, 1, limits::debug_keys_max)) {
    return refusal({400, "limit out of bounds"}, json);
  }
  return RestDebug{.pretty = parameters.pretty.was_given,
                   .prefix = parameters.prefix.value,
                   .keys_max = static_cast<uint32_t>(*keys_max)};
}

DryRun read_dry_run(const Parameter& parameter) noexcept {
  if (!parameter.was_given) return DryRun::absent;
  if (parameter.value == "true") return DryRun::yes;
  return parameter.value == "false" ? DryRun::no : DryRun::unclear;
}

RestQuota read_quota(QuotaEndpoint endpoint, std::string_view key, const Parameters& parameters,
                     const HttpRequest& request) noexcept {
  const bool lists = endpoint == QuotaEndpoint::reservations;
  const bool is_reservation = endpoint == QuotaEndpoint::reservation;
  const std::string_view named = is_reservation ? std::string_view{} : key;
  return {.endpoint = endpoint,
          .method = request.method,
          .subject = lists ? parameters.subject.value : named,
          .by_subject = lists && parameters.subject.was_given,
          .reservation = is_reservation ? key : std::string_view{},
          .cursor = parameters.cursor.value,
          .limit = parameters.limit.value,
          .rate_style = request.rate_style,
          .headers = parameters.headers.value,
          .dry_run = read_dry_run(parameters.dry_run),
          .unknown_field = parameters.unknown_field,
          .unclear_field = parameters.unclear_field};
}

RestRequest decision(const Complaint& complaint, api::Entry entry, std::string_view key,
                     bool json) noexcept {
  if (!complaint.text.empty()) {
    RestReply reply = refusal(complaint, json);
    reply.of_rate = true;
    return reply;
  }
  ASSERT(key.size() <= limits::key_bytes_max);
  entry.key_data = key.data();
  entry.key_bytes = static_cast<uint16_t>(key.size());
  return RestDecision{.entry = entry, .json = json};
}

RestReply not_found(bool pretty) noexcept {
  return {.status = 404,
          .body = pretty ? "{\n  \"message\": \"Not Found\"\n}\n" : "{\"message\":\"Not Found\"}\n",
          .content_type = application_json};
}

RestReply method_not_allowed(const Path& path, bool pretty) noexcept {
  return {.status = 405,
          .body = pretty ? "{\n  \"message\": \"Method Not Allowed\"\n}\n"
                         : "{\"message\":\"Method Not Allowed\"}\n",
          .content_type = application_json,
          .allow = allowed_methods(path)};
}

// The answer to a HEAD has no body, whoever writes it.
RestReply without_body(RestReply reply) noexcept {
  reply.body = {};
  reply.content_type = {};
  return reply;
}

// What is wrong with path and method, if anything.
std::optional<RestReply> judge_method(const Path& path, std::string_view method,
                                      bool pretty) noexcept {
  const bool is_known = path.resource != Resource::unknown;
  if (is_known && is_allowed(path, method)) return std::nullopt;
  if (is_known && method == "OPTIONS") {
    return RestReply{.status = 204, .allow = allowed_methods(path)};
  }
  const RestReply reply = is_known ? method_not_allowed(path, pretty) : not_found(pretty);
  return method == "HEAD" ? without_body(reply) : reply;
}

std::string_view route_of(const Path& path) noexcept {
  switch (path.resource) {
    case Resource::rate_key:
      return "/rate/:key";
    case Resource::rate_id:
      return "/rate/:key/:id";
    case Resource::debug:
      return "/debug";
    case Resource::debug_key:
      return "/debug/:key";
    case Resource::health:
      return "/healthz";
    case Resource::metrics:
      return "/metrics";
    case Resource::top:
      return "/top";
    case Resource::openapi:
      return "/openapi.json";
    case Resource::quota:
      return quota_endpoint_info(path.quota).route;
    case Resource::unknown:
      break;
  }
  return {};
}

}  // namespace

RestPath path_of(std::string_view target) noexcept {
  const Path path = cut_path(target.substr(0, target.find('?')));
  return {.route = route_of(path), .key = path.key, .id = path.id};
}

RestRequest route_request(const HttpRequest& request, const RestOptions& options,
                          std::span<char> key_buffer) noexcept {
  ASSERT(key_buffer.size() >= request.target.size());
  const size_t question_mark = request.target.find('?');
  const std::string_view path = request.target.substr(0, question_mark);
  const std::string_view query = question_mark == std::string_view::npos
                                     ? std::string_view{}
                                     : request.target.substr(question_mark + 1);
  if (!escapes_are_valid(path)) {
    return RestReply{.status = 400,
                     .body = "400 Bad Request",
                     .content_type = "text/plain; charset=utf-8",
                     .closes = true};
  }
  // Of the server as a whole, not of any path.
  if (path == "*" && request.method == "OPTIONS") return RestReply{.status = 200};
  const Path parts = cut_path(path);
  DecodeBuffer buffer{key_buffer};
  const std::string_view decoded_key = *buffer.percent_decode(parts.key);
  const std::string_view key = trim_white_space(decoded_key);
  const std::string_view id = trim_white_space(*buffer.percent_decode(parts.id));
  const Parameters parameters = read_query(query, parts.quota, buffer);
  const bool pretty = parameters.pretty.was_given;
  const auto refusal = judge_method(parts, request.method, pretty);
  if (refusal) return *refusal;

  const bool json = accepts_json(request.accept);
  api::Entry entry;
  switch (parts.resource) {
    case Resource::rate_key: {
      const Complaint complaint = read_acquire(key, parameters, options, entry);
      return decision(complaint, entry, key, json);
    }
    case Resource::rate_id: {
      const Complaint complaint = read_release(key, id, parameters, options, entry);
      return decision(complaint, entry, key, json);
    }
    case Resource::debug_key:
      // A key that cannot be live need not be looked up.
      if (key.empty() || key.size() > options.key_bytes_max) return key_not_found;
      return RestInspect{.key = key, .pretty = pretty};
    case Resource::debug:
      return read_debug(parameters, json);
    case Resource::health:
      return RestHealth{};
    case Resource::metrics:
      return RestMetrics{};
    case Resource::top:
      return read_top(parameters, json);
    case Resource::openapi:
      return RestOpenapi{};
    case Resource::quota:
      return read_quota(parts.quota, decoded_key, parameters, request);
    case Resource::unknown:
      break;
  }
  return not_found(pretty);
}

}  // namespace sluice::wire
