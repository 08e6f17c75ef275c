// One HTTP GET on a connection of its own, for commands that ask the REST port.
// Flow:   resolve -> connect -> request -> whole answer; the caller is asked meanwhile whether to
//         go on.
// Errors: std::runtime_error in one sentence with the address and the cause: nobody there, no
//         answer in time, not HTTP, a status other than 200. Looking up a name takes as long as the
//         system's resolver lets it.
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

// The body; empty when `go_on()`, asked some ten times a second, was false.
std::string http_get(const HttpGet& what, const std::function<bool()>& go_on);

}  // namespace sluice::cli
