// The first thing that went wrong in a run, as a sentence.
#pragma once

#include <string>

namespace sluice::simulation {

class Failure {
 public:
  void report(const std::string& text) {
    if (text_.empty()) text_ = text;
  }
  explicit operator bool() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace sluice::simulation
