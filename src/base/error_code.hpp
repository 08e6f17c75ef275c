// Why a frame or a connection was refused. docs/protocol.md has a row for each ("Errors"); a test
// compares the two. The numbers are on the wire: they are never reused.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

enum class ErrorCode : uint8_t {
  none = 0,
  malformed = 1,              // not a valid Cap'n Proto message; the connection ends
  frame_too_large = 2,        // more bytes or segments than Welcome allows; the connection ends
  hello_expected = 3,         // the first frame was not Hello; the connection ends
  unexpected_hello = 4,       // a second Hello; the connection ends
  unsupported_version = 5,    // a protocol version we do not speak; the connection ends
  unsupported = 6,            // a request kind we do not know
  bad_columns = 7,            // columns of different length, or sizes that do not add up
  too_many_entries = 8,       // more entries than a frame may have
  bad_cost = 9,               // a cost outside 1 to 1e9
  bad_override = 10,          // maxRequests or maxRequestsInQueue out of bounds
  bad_wait_limit = 11,        // a wait limit above 3,600,000 ms
  id_in_use = 12,             // the id is outstanding or waiting
  too_many_outstanding = 13,  // more frames or bytes than Welcome allows; the connection ends
  too_many_connections = 14,  // --max-connections is reached; the connection ends
  draining = 15,              // the server shuts down
  hello_timeout = 16,         // no Hello in time; the connection ends
  bad_flag = 17,              // a flag, detail bit or enumerator that this version does not know
  bad_amount = 18,            // an amount above 2^63 - 1, or more cached input than input
  bad_lifetime = 19,          // a lifetime outside 10 ms to 30 days
  bad_subject = 20,           // an entry of no subject or too many, or a text that is too long
};

std::string_view error_name(ErrorCode) noexcept;  // as in the schema, lower camel case
std::string_view error_text(ErrorCode) noexcept;  // one sentence: the cause and the cure

// True when the connection cannot go on after this error.
bool ends_connection(ErrorCode) noexcept;

}  // namespace sluice
