// A test that reads back what it has logged, line by line, without the times.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "log/log.hpp"

namespace sluice::server::test {

using Json = nlohmann::json;

class LogTest : public testing::Test {
 protected:
  LogTest() { log::start({.level = log::Level::info, .includes_source = false, .stream = file_}); }
  ~LogTest() override { std::fclose(file_); }

  std::vector<Json> lines() {
    EXPECT_TRUE(log::stop(std::chrono::seconds(5)));
    std::rewind(file_);
    std::vector<Json> found;
    std::string line;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      if (c != '\n') {
        line += static_cast<char>(c);
        continue;
      }
      found.push_back(Json::parse(line));
      found.back().erase("time");
      line.clear();
    }
    return found;
  }

 private:
  std::FILE* const file_ = std::tmpfile();
};

}  // namespace sluice::server::test
