// Goal: no node that is asked asks all nodes again, whatever the spelling of the parameter; answers
//       of all kinds make one valid JSON text, within its bound.
// Method: whole texts, compared; and the reader of queries reads what each node would be asked.
#include "wire/node_answers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "wire/rest_endpoint.hpp"
#include "wire/rest_query.hpp"

namespace sluice::wire {
namespace {

using Json = nlohmann::json;

TEST(NodeAnswers, each_node_is_asked_for_itself) {
  const std::vector<std::pair<std::string, std::string>> targets{
      {"/debug?cluster=true", "/debug"},
      {"/debug?prefix=a%20b&cluster=true&limit=3", "/debug?prefix=a%20b&limit=3"},
      {"/top?cluster=true&cluster=false&keys=3&cluster", "/top?keys=3"},
      {"/debug/a%2Fb?pretty&cl%75ster=true", "/debug/a%2Fb?pretty"},
      {"/debug?a=1&&;x&cluster=true", "/debug?a=1&&;x"},
      {"/debug?prefix=\xc3\xa5 x&cluster=true", "/debug?prefix=%C3%A5%20x"},
      {"/debug", "/debug"},
      {"/debug?", "/debug"}};
  for (const auto& [target, asked] : targets) EXPECT_EQ(target_of_each(target), asked) << target;
}

// Every spelling by which the reader takes the parameter is removed.
TEST(NodeAnswers, no_node_asks_the_others_again) {
  const std::string name = "cluster";
  for (uint32_t escaped = 0; escaped < 1U << name.size(); ++escaped) {
    std::string spelled;
    for (size_t i = 0; i < name.size(); ++i) {
      constexpr std::string_view digits = "0123456789abcdef";
      const auto byte = static_cast<uint8_t>(name[i]);
      if ((escaped >> i & 1) == 0) {
        spelled += name[i];
      } else {
        spelled += {'%', digits[byte >> 4], digits[byte & 15]};
      }
    }
    const std::string query = "limit=3&" + spelled + "=true&" + spelled + "=tru%65";
    const PathMatch match = find_endpoint("/debug");
    std::string memory(100, ' ');
    DecodeBuffer before{memory};
    ASSERT_EQ(read_query(query, match.endpoint, before).of_all_nodes.value, "true") << query;
    const std::string each = target_of_each("/debug?" + query);
    DecodeBuffer after{memory};
    const std::string_view rest = std::string_view(each).substr(each.find('?') + 1);
    EXPECT_FALSE(read_query(rest, match.endpoint, after).of_all_nodes.was_given) << each;
  }
}

TEST(NodeAnswers, a_request_is_whole_and_the_last_of_its_connection) {
  EXPECT_EQ(
      node_request("POST", "/v1/reset-all", "a:80"),
      "POST /v1/reset-all HTTP/1.1\r\nHost: a:80\r\nContent-Length: 0\r\nConnection: close\r\n"
      "\r\n");
}

NodeAnswer node_answer(const std::string& node, const std::string& body) {
  return {.node = node, .status = 200, .is_json = true, .body = body, .reason = {}};
}

TEST(NodeAnswers, names_each_node_with_its_answer_or_the_reason) {
  const std::vector<NodeAnswer> answers{
      node_answer("a:80", "{\"Instances\":{}}\n"),
      {.node = "b:80", .status = 0, .is_json = false, .body = {}, .reason = "it does not answer"},
      {.node = "c:80", .status = 404, .is_json = false, .body = "Key \"x\"\xff", .reason = {}},
      {.node = "d:80",
       .status = 503,
       .is_json = true,
       .body = "{\n  \"code\": 1\n}",
       .reason = {}}};
  const std::string text = nodes_text(answers, 10'000);
  EXPECT_EQ(text,
            "{\"nodes\":[{\"node\":\"a:80\",\"answer\":{\"Instances\":{}}},"
            "{\"node\":\"c:80\",\"status\":404,\"answer\":\"Key \\\"x\\\"\\ufffd\"},"
            "{\"node\":\"d:80\",\"status\":503,\"answer\":{\n  \"code\": 1\n}}],"
            "\"unanswered\":[{\"node\":\"b:80\",\"reason\":\"it does not answer\"}]}\n");
  EXPECT_TRUE(Json::accept(text));
}

TEST(NodeAnswers, a_long_answer_leaves_room_for_the_others) {
  const std::string large = "{\"x\":\"" + std::string(3'000, 'x') + "\"}";
  const std::vector<NodeAnswer> answers{node_answer("a:80", large), node_answer("b:80", large),
                                        node_answer("c:80", "{}")};
  constexpr size_t bytes_max = 4'000;
  const std::string text = nodes_text(answers, bytes_max);
  EXPECT_LE(text.size(), bytes_max);
  const Json json = Json::parse(text);
  ASSERT_EQ(json["nodes"].size(), 2U);
  EXPECT_EQ(json["nodes"][0]["node"], "a:80");
  EXPECT_EQ(json["nodes"][1]["node"], "c:80");
  EXPECT_EQ(json["unanswered"][0]["node"], "b:80");
  EXPECT_EQ(json["unanswered"][0]["reason"], "its answer is too long here: ask it alone");
}

TEST(NodeAnswers, many_silent_nodes_stay_within_the_bound) {
  std::vector<NodeAnswer> answers(100);
  for (NodeAnswer& answer : answers) {
    answer.node = std::string(200, 'n');
    answer.reason = std::string(1'000, '"');
  }
  const size_t bytes_max = answers.size() * (200 + 256) + 100;
  const std::string text = nodes_text(answers, bytes_max);
  EXPECT_LE(text.size(), bytes_max);
  EXPECT_EQ(Json::parse(text)["unanswered"].size(), answers.size());
}

}  // namespace
}  // namespace sluice::wire
