// The error of a system call that failed, as the load tool and the bounds of the machine report it.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "sluicegate/error.hpp"

namespace sluice::load {

[[noreturn]] inline void throw_errno(const char* what) {
  throw sluicegate::ConnectionLost(std::string{what} + ": " + std::strerror(errno));
}

}  // namespace sluice::load
