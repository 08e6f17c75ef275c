#include <optional>

#include "base/assert.hpp"
#include "wire/content_type.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_text.hpp"
#include "wire/rest_endpoint.hpp"

namespace sluice::wire {

namespace {

RestReply not_found(bool pretty) noexcept {
  return {.status = 404,
          .body = pretty ? "{\n  \"message\": \"Not Found\"\n}\n" : "{\"message\":\"Not Found\"}\n",
          .content_type = application_json};
}

RestReply method_not_allowed(const RestEndpoint& endpoint, bool pretty) noexcept {
  return {.status = 405,
          .body = pretty ? "{\n  \"message\": \"Method Not Allowed\"\n}\n"
                         : "{\"message\":\"Method Not Allowed\"}\n",
          .content_type = application_json,
          .allow = allowed_methods(endpoint)};
}

// The answer to a HEAD never has a body.
RestReply without_body(RestReply reply) noexcept {
  reply.body = {};
  reply.content_type = {};
  return reply;
}

// The refusal of an unknown path or method; nullopt when both are known.
std::optional<RestReply> refused_method(const RestEndpoint* endpoint, std::string_view method,
                                        bool pretty) noexcept {
  if (endpoint != nullptr && has_method(*endpoint, method)) return std::nullopt;
  if (endpoint != nullptr && method == "OPTIONS") {
    return RestReply{.status = 204, .allow = allowed_methods(*endpoint)};
  }
  const RestReply reply =
      endpoint != nullptr ? method_not_allowed(*endpoint, pretty) : not_found(pretty);
  return method == "HEAD" ? without_body(reply) : reply;
}

// A cursor leads through one node's list.
RestRequest of_all_nodes(const HttpRequest& request, const RestQuery& query) noexcept {
  if (!query.cursor.was_given) return RestOfAllNodes{request.method, request.target};
  return RestReply{.status = 400,
                   .body = "cursor with cluster=true: ask one node for its next page",
                   .content_type = text_plain};
}

}  // namespace

RestPath path_of(std::string_view target) noexcept {
  const PathMatch match = find_endpoint(target.substr(0, target.find('?')));
  if (match.endpoint == nullptr) return {};
  return {.route = match.endpoint->route, .key = match.key, .id = match.id};
}

RestRequest route_request(const HttpRequest& request, const RestOptions& options,
                          std::span<char> key_buffer) noexcept {
  ASSERT(key_buffer.size() >= request.target.size());
  const size_t question_mark = request.target.find('?');
  const std::string_view path = request.target.substr(0, question_mark);
  const std::string_view query_text = question_mark == std::string_view::npos
                                          ? std::string_view{}
                                          : request.target.substr(question_mark + 1);
  if (!escapes_are_valid(path)) {
    return RestReply{.status = 400,
                     .body = "400 Bad Request",
                     .content_type = "text/plain; charset=utf-8",
                     .closes = true};
  }
  // OPTIONS * asks about the server as a whole, not about a path.
  if (path == "*" && request.method == "OPTIONS") return RestReply{.status = 200};
  const PathMatch match = find_endpoint(path);
  DecodeBuffer buffer{key_buffer};
  const std::string_view name = *buffer.percent_decode(match.key);
  const std::string_view id = match.id.empty() ? match.id : *buffer.percent_decode(match.id);
  const auto read = [&](const RestQuery& query) -> RestRequest {
    const auto refusal = refused_method(match.endpoint, request.method, query.pretty.was_given);
    if (refusal) return *refusal;
    const bool is_of_all = options.has_other_nodes && query.of_all_nodes.value == "true" &&
                           takes_parameter(*match.endpoint, "cluster");
    if (is_of_all) return of_all_nodes(request, query);
    return match.endpoint->read({.endpoint = *match.endpoint,
                                 .request = request,
                                 .options = options,
                                 .query = query,
                                 .name = name,
                                 .key = trim_white_space(name),
                                 .id = id});
  };
  // Most requests have no query, and clearing every parameter takes as long as finding the path.
  static constexpr RestQuery no_query;
  return query_text.empty() ? read(no_query) : read(read_query(query_text, match.endpoint, buffer));
}

}  // namespace sluice::wire
