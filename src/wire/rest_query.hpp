// The parameters of a REST request's query, decoded, as text.
// Flow:   the target's query -> read_query() -> RestQuery -> the reader of the endpoint.
// Errors: read_query() only notes unknown parameters and those that it cannot decode: gocc's
//         endpoints ignore them, read_quota_request() refuses them.
// Lives:  views of the target and of the DecodeBuffer's memory.
#pragma once

#include <span>
#include <string_view>

#include "wire/http_text.hpp"

namespace sluice::wire {

// The first value of a parameter; one that is only white space counts as absent.
struct QueryParameter {
  bool was_given = false;
  std::string_view value;

  bool is_present() const noexcept { return !value.empty(); }
};

struct RestQuery {
  QueryParameter can_wait;
  QueryParameter max_requests;
  QueryParameter max_requests_in_queue;
  QueryParameter cost;
  QueryParameter max_wait_ms;
  QueryParameter window_ms;
  QueryParameter pretty;
  QueryParameter prefix;
  QueryParameter limit;
  QueryParameter keys;
  QueryParameter cursor;
  QueryParameter headers;
  QueryParameter subject;
  QueryParameter dry_run;
  QueryParameter stays_here;           // ik: another instance has forwarded the request
  QueryParameter of_all_nodes;         // cluster
  std::string_view unknown_parameter;  // the first one
  std::string_view invalid_parameter;  // given twice, or impossible to decode
};

struct NamedParameter {
  std::string_view name;
  QueryParameter RestQuery::*parameter;
};

// All parameters that read_query() knows: the same names as in the rows of rest_endpoints()
// (rest_query_test.cpp).
std::span<const NamedParameter> query_parameters() noexcept;

struct RestEndpoint;

// `endpoint` may be null for an unknown path: its reply needs only `pretty`.
RestQuery read_query(std::string_view query, const RestEndpoint* endpoint,
                     DecodeBuffer& buffer) noexcept;

}  // namespace sluice::wire
