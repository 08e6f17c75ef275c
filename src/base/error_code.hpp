// Why a frame or a connection was refused. error_code.cpp has the texts and says which of them end
// the connection; docs/protocol.md has a row for each ("Errors"); a test compares the two. The
// numbers are on the wire: they are never reused.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

enum class ErrorCode : uint8_t {
  none = 0,
  malformed = 1,
  frame_too_large = 2,
  hello_expected = 3,
  unexpected_hello = 4,
  unsupported_version = 5,
  unsupported = 6,
  bad_columns = 7,
  too_many_entries = 8,
  bad_cost = 9,
  bad_override = 10,
  bad_wait_limit = 11,
  id_in_use = 12,
  too_many_outstanding = 13,
  too_many_connections = 14,
  draining = 15,
  hello_timeout = 16,
  bad_flag = 17,
  bad_amount = 18,
  bad_lifetime = 19,
  bad_subject = 20,
  frame_timeout = 21,
  secret_expected = 22,
};

std::string_view error_name(ErrorCode) noexcept;  // as in the schema, lower camel case
std::string_view error_text(ErrorCode) noexcept;  // one sentence: the cause and the cure

// True when the connection cannot go on after this error.
bool ends_connection(ErrorCode) noexcept;

}  // namespace sluice
