#include "peer/answer_check.hpp"

#include <algorithm>
#include <string_view>

namespace sluice::peer {

bool AnswerCheck::go_on(std::vector<wire::NodeAnswer>& answers) noexcept {
  size_t left = bytes_max;
  while (answer_ < answers.size()) {
    wire::NodeAnswer& answer = answers[answer_];
    const bool is_to_check = answer.reason.empty() && answer.is_json;
    if (!is_to_check) {
      begin_next();
    } else if (left > 0) {
      left -= check_some(answer, left);
    } else {
      return false;
    }
  }
  return true;
}

// Returns how many bytes of the answer it has checked.
size_t AnswerCheck::check_some(wire::NodeAnswer& answer, size_t bytes_left) noexcept {
  const std::string_view piece = std::string_view(answer.body).substr(checked_, bytes_left);
  checked_ += piece.size();
  const bool may_be_json = json_.add(piece);
  if (may_be_json && checked_ < answer.body.size()) return piece.size();
  if (!may_be_json || !json_.is_whole()) answer.reason = "its answer is not JSON";
  begin_next();
  return piece.size();
}

void AnswerCheck::begin_next() noexcept {
  ++answer_;
  checked_ = 0;
  json_ = {};
}

}  // namespace sluice::peer
