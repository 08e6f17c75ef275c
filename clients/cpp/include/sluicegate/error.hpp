// The errors of a client: one exception class per way in which a caller may react.
// Errors: Error is the base of all; what() is one sentence with the cause.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluicegate/verdict.hpp"

namespace sluicegate {

// Why the server refused a frame, as in the protocol's table of errors.
enum class ErrorCode : uint16_t {
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

// "bad_cost", ...; "unknown" for the code of a newer server.
std::string_view name(ErrorCode) noexcept;

// Why a Client completed a call without the server's verdict.
enum class Failure : uint8_t {
  none = 0,
  connection_lost,  // lost after the call was sent: the permit may be taken
  unreachable,      // not sent: there is no connection
  draining,         // the server is shutting down
  timed_out,        // no answer in time
  overloaded,       // no room for another call
  refused,          // an Error frame
  closed,           // the client was closed
};

// "connection_lost", ...
std::string_view name(Failure) noexcept;

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The server is unreachable, or the connection ended; the fate of outstanding calls is unknown.
class ConnectionLost : public Error {
 public:
  using Error::Error;
};

// The call took longer than its time-out; the connection stays open.
class TimedOut : public Error {
 public:
  using Error::Error;
};

// The peer does not speak this protocol; the connection is no longer usable.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

// The call exceeds what Welcome allows, or its columns do not fit together; nothing was sent.
class LimitExceeded : public Error {
 public:
  using Error::Error;
};

// The server answered with an Error frame; the request changed nothing on the server.
class Refused : public Error {
 public:
  Refused(ErrorCode code, const std::string& text);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// The client has as many open calls as it may have.
class Overloaded : public Error {
 public:
  using Error::Error;
};

// The client was closed.
class Closed : public Error {
 public:
  using Error::Error;
};

// Some keys got no handle: invalid_key, or handles_full. Keys with a handle keep it.
class NotInterned : public Error {
 public:
  NotInterned(const std::string& text, std::vector<uint32_t> handles, std::vector<Verdict> verdicts)
      : Error{text}, handles_{std::move(handles)}, verdicts_{std::move(verdicts)} {}

  // Per key, in the order asked; no_handle where the verdict is not `approved`.
  const std::vector<uint32_t>& handles() const noexcept { return handles_; }
  const std::vector<Verdict>& verdicts() const noexcept { return verdicts_; }

 private:
  std::vector<uint32_t> handles_;
  std::vector<Verdict> verdicts_;
};

}  // namespace sluicegate
