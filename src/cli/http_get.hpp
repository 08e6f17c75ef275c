// One HTTP GET on a connection of its own, for commands that ask the REST port.
// Flow:   resolve -> connect -> request -> whole answer; meanwhile it asks the caller whether to go
//         on.
// Errors: std::runtime_error in one sentence with the address and the cause: no server, no answer
//         in time, not HTTP, a status other than 200 and why (also of the native port). Resolving
//         a name takes as long as the system's resolver takes.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace sluice::cli {

struct HttpGet {
  std::string address;  // HOST:PORT
  std::string target;
  std::chrono::milliseconds timeout{5'000};  // from connecting to the last byte
};

struct HttpAnswer {
  unsigned status = 0;  // 0: `go_on()` was false before the server answered
  std::string body;
};

// The answer, whatever its status. `go_on()` is asked some ten times a second.
HttpAnswer http_ask(const HttpGet& what, const std::function<bool()>& go_on);

// The body of an answer with status 200; empty when `go_on()` was false.
std::string http_get(const HttpGet& what, const std::function<bool()>& go_on);

}  // namespace sluice::cli
