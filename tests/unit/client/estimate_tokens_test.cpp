// Goal: the C++ client guesses the same numbers of tokens as the Python client.
// Method: the examples that both clients' tests read.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sluicegate/quota.hpp"
#include "tests/support/source_folder.hpp"

namespace sluicegate {
namespace {

TEST(EstimateTokens, agrees_with_the_shared_examples) {
  std::ifstream file{sluice::test::source_folder() / "tests/clients/token_estimates.json"};
  const auto examples = nlohmann::json::parse(file);
  ASSERT_GE(examples.size(), 10u);
  for (const auto& example : examples) {
    const auto text = example.at(0).get<std::string>();
    EXPECT_EQ(estimate_tokens(text), example.at(1).get<uint64_t>()) << text;
  }
}

}  // namespace
}  // namespace sluicegate
