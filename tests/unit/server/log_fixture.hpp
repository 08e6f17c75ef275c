// A test that reads back what it has logged, line by line, without the times.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "log/log.hpp"
#include "tests/support/log_lines.hpp"

namespace sluice::server::test {

using Json = nlohmann::json;

class LogTest : public testing::Test {
 protected:
  LogTest() { log_.start(); }

  std::vector<Json> lines() {
    std::vector<Json> found;
    for (const log::Fields& line : log_.lines()) {
      found.emplace_back(line);
      found.back().erase("time");
    }
    return found;
  }

 private:
  support::LogLines log_;
};

}  // namespace sluice::server::test
