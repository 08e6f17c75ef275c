// The parameters of a REST request's query, decoded and still texts.
// Flow:   the target's query -> read_query() -> RestQuery -> the reader of the endpoint.
// Errors: what is unknown or cannot be read is noted, never refused here: gocc's endpoints ignore
//         it, those for quotas refuse it with their body.
// Lives:  views of the target and of the DecodeBuffer's memory.
#pragma once

#include <span>
#include <string_view>

#include "wire/http_text.hpp"

namespace sluice::wire {

// A parameter as it was first given; white space alone is as good as absent.
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
  QueryParameter pretty;
  QueryParameter prefix;
  QueryParameter limit;
  QueryParameter keys;
  QueryParameter cursor;
  QueryParameter headers;
  QueryParameter subject;
  QueryParameter dry_run;
  std::string_view unknown_field;  // the first one
  std::string_view unclear_field;  // given twice, or not to be decoded
};

struct NamedParameter {
  std::string_view name;
  QueryParameter RestQuery::*parameter;
};

// All that read_query() knows. Every one stands in a row of rest_endpoints(), and every name of a
// row here (rest_query_test.cpp).
std::span<const NamedParameter> query_parameters() noexcept;

struct RestEndpoint;

// `endpoint` may be null: the path is unknown, and its reply wants to know of `pretty` alone.
RestQuery read_query(std::string_view query, const RestEndpoint* endpoint,
                     DecodeBuffer& buffer) noexcept;

}  // namespace sluice::wire
