// What a test logs, read back line by line.
// Lives:  start() before anything is logged; lines() ends the log.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "log/log.hpp"

namespace sluice::support {

class LogLines {
 public:
  void start(log::Level level = log::Level::info) {
    log::start({.level = level, .includes_source = false, .stream = file_.get()});
  }

  std::vector<log::Fields> lines() {
    EXPECT_TRUE(log::stop(std::chrono::seconds(10)));
    std::rewind(file_.get());
    std::vector<log::Fields> found;
    std::string line;
    for (int c = std::fgetc(file_.get()); c != EOF; c = std::fgetc(file_.get())) {
      if (c != '\n') {
        line += static_cast<char>(c);
        continue;
      }
      found.push_back(log::Fields::parse(line));
      line.clear();
    }
    return found;
  }

  // Path and status of each exchange: lines().
  std::vector<std::string> exchanges() {
    std::vector<std::string> found;
    for (const log::Fields& line : lines()) {
      if (!line.contains("request")) continue;
      found.push_back(line["request"]["path"].get<std::string>() + " " +
                      std::to_string(line["response"]["status"].get<int>()));
    }
    return found;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

}  // namespace sluice::support
