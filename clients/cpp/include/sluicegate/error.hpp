// What can go wrong at a client: one exception class per thing that a caller may do about it.
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
};

// "bad_cost", ...; "unknown" for the code of a newer server.
std::string_view name(ErrorCode) noexcept;

// Why a Client completed a call without the server's verdict.
enum class Failure : uint8_t {
  none = 0,
  connection_lost,  // after it was sent: the permit may be taken
  unreachable,      // not sent: there is no connection
  draining,         // the server shuts down
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

// No server there, or the connection ended; what was outstanding has an unknown fate.
class ConnectionLost : public Error {
 public:
  using Error::Error;
};

// The call took longer than its time-out; the connection goes on.
class TimedOut : public Error {
 public:
  using Error::Error;
};

// The peer does not speak our protocol; the connection is of no use any more.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

// The call exceeds what Welcome allows, or its columns do not fit together; nothing was sent.
class LimitExceeded : public Error {
 public:
  using Error::Error;
};

// The server answered with an Error frame; the frame changed nothing there.
class Refused : public Error {
 public:
  Refused(ErrorCode code, const std::string& text);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// As many calls are open as the client may have.
class Overloaded : public Error {
 public:
  using Error::Error;
};

// The client was closed.
class Closed : public Error {
 public:
  using Error::Error;
};

// Some keys got no handle: invalid_key, or handles_full. Those that have one keep it.
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
