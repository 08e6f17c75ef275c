// The numbers of a configuration file and of a quota in JSON, with their bounds.
// Flow:   rule_file.cpp, quota_file.cpp and quota_text.cpp read by these rows; the test of bounds
//         (number_fields_test.cpp) tries each row at and beyond its bounds.
// Units:  as the fields are named; of a list or a text, its size.
#pragma once

#include <array>

#include "base/limits.hpp"
#include "text/number_field.hpp"

namespace sluice::policy {

using text::NumberField;

// Of an entry of "keys"; 0 is gocc's "not set".
inline constexpr NumberField max_requests_field{"max_requests_per_window", 1, limits::permits_max};
inline constexpr NumberField max_queue_field{"max_requests_in_queue", 1, limits::queue_max};
inline constexpr NumberField window_field{"window_millis", limits::window_ms_min,
                                          limits::window_ms_max};
inline constexpr std::array key_number_fields{max_requests_field, max_queue_field, window_field};

// Of "quotas".
inline constexpr NumberField default_lifetime_field{"default_lifetime_ms", limits::lifetime_ms_min,
                                                    limits::lifetime_ms_max};
inline constexpr NumberField default_output_field{"default_output_tokens", 0, limits::amount_max};
inline constexpr std::array quotas_number_fields{default_lifetime_field, default_output_field};

// Of a quota, and of one of its limits.
inline constexpr NumberField overtakers_field{"overtakers", 0, limits::overtakers_max};
inline constexpr NumberField limits_field{"limits", 0, limits::quota_limits_max};
inline constexpr NumberField amount_field{"amount", 0, limits::amount_max};
inline constexpr NumberField period_field{"period_ms", limits::window_ms_min,
                                          limits::window_ms_max};
inline constexpr NumberField limit_name_field{"name", 1, limits::limit_name_bytes_max};

}  // namespace sluice::policy
