// Checks the answers of nodes that should be JSON, since they are copied into one text as they are.
// Flow:   all answers to a question -> go_on() in one turn after the other, until all are checked.
// Shape:  an answer that is not JSON gets a reason instead.
// Bounds: bytes_max of the answers in one go: some 100 us.
#pragma once

#include <cstddef>
#include <vector>

#include "text/json_check.hpp"
#include "wire/node_answers.hpp"

namespace sluice::peer {

class AnswerCheck {
 public:
  static constexpr size_t bytes_max = 32 * 1024;

  // The same answers each time. True: all are checked.
  bool go_on(std::vector<wire::NodeAnswer>& answers) noexcept;

 private:
  size_t check_some(wire::NodeAnswer& answer, size_t bytes_left) noexcept;
  void begin_next() noexcept;

  text::JsonCheck json_;
  size_t answer_ = 0;   // the one that is being checked
  size_t checked_ = 0;  // bytes of it
};

}  // namespace sluice::peer
