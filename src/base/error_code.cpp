#include "base/error_code.hpp"

#include <array>

namespace sluice {
namespace {

struct Row {
  std::string_view name;
  std::string_view text;
  bool ends_connection;
};

constexpr std::array<Row, 23> rows{{
    {"none", "", false},
    {"malformed", "not a valid Cap'n Proto message", true},
    {"frameTooLarge",
     "the frame has more bytes or segments than Welcome allows: send smaller frames", true},
    {"helloExpected", "the first frame must be Hello", true},
    {"unexpectedHello", "Hello comes once", true},
    {"unsupportedVersion", "this server speaks protocol version 1", true},
    {"unsupported", "this server does not know this kind of request", false},
    {"badColumns",
     "columns differ in length, have the wrong type, or the sizes in keySizes, subjectSizes or "
     "idSizes (65535 at most) do not add up to their names",
     false},
    {"tooManyEntries",
     "more entries than frameEntriesMax of Welcome (about quotas 2048, in Usage 256), or more than "
     "1 MiB of keys by number: split the frame",
     false},
    {"badCost", "a cost is outside 0 to 1000000000, or one to release is 0", false},
    {"badOverride",
     "maxRequests is outside 1 to 1000000000, maxRequestsInQueue outside 0 to 1000000000, or "
     "windowMs outside 10 to 31536000000",
     false},
    {"badWaitLimit", "a wait limit is above 3600000 ms", false},
    {"idInUse", "the id belongs to a frame that is outstanding or waiting: use another", false},
    {"tooManyOutstanding", "more frames or bytes outstanding than Welcome allows: wait for answers",
     true},
    {"tooManyConnections", "too many connections (--max-connections): try again later", true},
    {"draining", "the server is shutting down: use another server, or try again later", false},
    {"helloTimeout", "no Hello arrived in time", true},
    {"badFlag", "a flag, detail bit or enumerator is unknown to this version", false},
    {"badAmount", "an amount is above 2^63 - 1, or more input is cached than there is", false},
    {"badLifetime", "a lifetime is outside 10 ms to 30 days", false},
    {"badSubject",
     "an entry names no subject or more than 8, an id or owner is longer than 128 bytes, or a "
     "frame of one subject has none",
     false},
    {"frameTimeout", "the rest of a frame did not arrive in time (--header-timeout-millis)", true},
    {"secretExpected",
     "this is for nodes, and Hello has not shown this server's secret: give all nodes the same "
     "--peer-secret-file",
     true},
}};

const Row& row(ErrorCode code) noexcept {
  const auto index = static_cast<size_t>(code);
  return rows[index < rows.size() ? index : 0];
}

}  // namespace

std::string_view error_name(ErrorCode code) noexcept {
  return row(code).name;
}
std::string_view error_text(ErrorCode code) noexcept {
  return row(code).text;
}
bool ends_connection(ErrorCode code) noexcept {
  return row(code).ends_connection;
}

}  // namespace sluice
