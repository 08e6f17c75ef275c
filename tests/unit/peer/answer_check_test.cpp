// Goal: what is not JSON has a reason, however it is cut, and no go reads more than its share.
// Method: answers of several sizes; the goes that they take are counted.
#include "peer/answer_check.hpp"

#include <gtest/gtest.h>

namespace sluice::peer {
namespace {

wire::NodeAnswer json_answer(std::string body) {
  return {.node = "a:80", .status = 200, .is_json = true, .body = std::move(body), .reason = {}};
}

uint32_t goes_of(std::vector<wire::NodeAnswer>& answers) {
  AnswerCheck check;
  uint32_t goes = 1;
  while (!check.go_on(answers)) ++goes;
  return goes;
}

TEST(AnswerCheck, gives_a_reason_for_what_is_not_json) {
  std::vector<wire::NodeAnswer> answers{
      json_answer("{}\n"),
      json_answer("{}}"),
      json_answer(""),
      json_answer("{\"a\":"),
      {.node = "b:80", .status = 404, .is_json = false, .body = "no such key", .reason = {}},
      {.node = "c:80", .status = 0, .is_json = true, .body = "", .reason = "it does not answer"},
      json_answer("[1]")};
  EXPECT_EQ(goes_of(answers), 1u);
  const std::string refused = "its answer is not JSON";
  std::vector<std::string> reasons;
  for (const wire::NodeAnswer& answer : answers) reasons.push_back(answer.reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"", refused, refused, refused, "",
                                               "it does not answer", ""}));
}

TEST(AnswerCheck, takes_a_share_of_long_answers_at_a_time) {
  const std::string third = "[\"" + std::string(AnswerCheck::bytes_max / 3, 'x') + "\"]";
  const std::string long_one = "[\"" + std::string(2 * AnswerCheck::bytes_max, 'x') + "\"]";
  std::vector<wire::NodeAnswer> answers(5, json_answer(third));
  EXPECT_EQ(goes_of(answers), 2u);
  answers = {json_answer(long_one), json_answer(long_one + "]"), json_answer("[]")};
  EXPECT_EQ(goes_of(answers), 5u);
  EXPECT_EQ(answers[0].reason, "");
  EXPECT_EQ(answers[1].reason, "its answer is not JSON");
  EXPECT_EQ(answers[2].reason, "");
}

}  // namespace
}  // namespace sluice::peer
