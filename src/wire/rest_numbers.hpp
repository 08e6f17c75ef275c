// The numbers of queries and of bodies over REST, with their bounds.
// Flow:   rest_reader.cpp and rest_quota_body.cpp read by these rows; the test of bounds
//         (rest_numbers_test.cpp) tries each row at and beyond its bounds.
// Source: gocc's parameters and their refusals, word for word, and ours in the same manner.
#pragma once

#include <array>
#include <string_view>

#include "base/limits.hpp"
#include "text/number_field.hpp"
#include "wire/rest_query.hpp"

namespace sluice::wire {

// A parameter of the query outside /v1/.
struct QueryNumber {
  std::string_view name;
  QueryParameter RestQuery::*parameter;
  uint64_t min;
  uint64_t max;                 // one above 32 bits is read as 64 bits, others as gocc reads them
  uint64_t absent;              // its value when it is not given
  std::string_view unreadable;  // the refusals
  std::string_view outside;
};

inline constexpr QueryNumber max_requests_number{"maxRequests",
                                                 &RestQuery::max_requests,
                                                 1,
                                                 limits::permits_max,
                                                 1,
                                                 "failed to parse maxRequests query parameter",
                                                 "maxRequests out of bounds"};
inline constexpr QueryNumber max_queue_number{"maxRequestsInQueue",
                                              &RestQuery::max_requests_in_queue,
                                              0,
                                              limits::queue_max,
                                              0,
                                              "failed to parse maxRequestsInQueue query parameter",
                                              "maxRequestsInQueue out of bounds"};
inline constexpr QueryNumber cost_number{"cost",
                                         &RestQuery::cost,
                                         0,  // a look
                                         limits::permits_max,
                                         1,
                                         "failed to parse cost query parameter",
                                         "cost out of bounds"};
inline constexpr QueryNumber released_cost_number{"cost",
                                                  &RestQuery::cost,
                                                  1,
                                                  limits::permits_max,
                                                  1,
                                                  "failed to parse cost query parameter",
                                                  "cost out of bounds"};
inline constexpr QueryNumber max_wait_number{"maxWaitMillis",
                                             &RestQuery::max_wait_ms,
                                             0,
                                             limits::wait_ms_max,
                                             0,
                                             "failed to parse maxWaitMillis query parameter",
                                             "maxWaitMillis out of bounds"};
inline constexpr QueryNumber window_number{"windowMillis",
                                           &RestQuery::window_ms,
                                           limits::window_ms_min,
                                           limits::window_ms_max,
                                           limits::window_ms_min,
                                           "failed to parse windowMillis query parameter",
                                           "windowMillis out of bounds"};
inline constexpr QueryNumber debug_limit_number{"limit",
                                                &RestQuery::limit,
                                                1,
                                                limits::debug_keys_max,
                                                limits::debug_keys_max,
                                                "failed to parse limit query parameter",
                                                "limit out of bounds"};
inline constexpr QueryNumber top_keys_number{"keys",
                                             &RestQuery::keys,
                                             1,
                                             limits::top_keys_max,
                                             limits::top_keys_default,
                                             "failed to parse keys query parameter",
                                             "keys out of bounds"};

// Under /v1/: of a query, and of bodies.
inline constexpr text::NumberField page_limit_number{"limit", 1, limits::subjects_page_max};
inline constexpr text::NumberField lifetime_number{"lifetime_ms", limits::lifetime_ms_min,
                                                   limits::lifetime_ms_max};
inline constexpr text::NumberField wait_limit_number{"wait_limit_ms", 0, limits::wait_ms_max};
// Requests, tokens and cost: the bounds of each field that names an amount.
inline constexpr text::NumberField amount_number(std::string_view name) {
  return {name, 0, limits::amount_max};
}
// Sizes of texts and lists.
inline constexpr text::NumberField subjects_number{"subjects", 1, limits::call_subjects_max};
inline constexpr text::NumberField id_bytes_number{"id", 1, limits::client_id_bytes_max};

}  // namespace sluice::wire
