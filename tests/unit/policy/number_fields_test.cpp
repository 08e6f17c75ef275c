// Goal: each number of a configuration file and of a quota is taken at its bounds, and refused
//       beyond them with a complaint that names field and bounds.
// Method: the rows that the readers use, each put into a text that is valid otherwise.
#include "policy/number_fields.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/quota_text.hpp"
#include "policy/rule_file.hpp"

namespace sluice::policy {
namespace {

using Complaints = std::vector<std::string>;

std::string in_key(const NumberField& field, const std::string& number) {
  return R"({"keys": [{"key_pattern": "k", ")" + std::string{field.name} + "\": " + number + "}]}";
}

std::string in_quotas(const NumberField& field, const std::string& number) {
  return R"({"quotas": {")" + std::string{field.name} + "\": " + number + "}}";
}

std::string limit_with(const std::string& name, const std::string& amount,
                       const std::string& period) {
  return R"({"name": ")" + name + R"(", "metric": "requests", "amount": )" + amount +
         R"(, "period_ms": )" + period + "}";
}

std::string quota_with(const std::string& limits, const std::string& overtakers = "0") {
  return R"({"overtakers": )" + overtakers + R"(, "limits": [)" + limits + "]}";
}

// A complaint that names the field and both bounds.
bool names(const Complaints& complaints, const NumberField& field) {
  return complaints.size() == 1 && complaints[0].find(field.name) != std::string::npos &&
         complaints[0].find(" " + std::to_string(field.min) + " to " + std::to_string(field.max)) !=
             std::string::npos;
}

// `complaints_of` reads a text with the number in the field.
template <typename ComplaintsOf>
void expect_bounds(const NumberField& field, bool zero_is_unset, ComplaintsOf complaints_of) {
  for (const uint64_t number : {field.min, field.max}) {
    EXPECT_EQ(complaints_of(std::to_string(number)), Complaints{}) << field.name << " " << number;
  }
  std::vector<std::string> outside{"-1", std::to_string(field.max + 1), "1.5"};
  if (field.min > 1 || !zero_is_unset) outside.push_back(std::to_string(int64_t(field.min) - 1));
  for (const std::string& number : outside) {
    const Complaints complaints = complaints_of(number);
    EXPECT_TRUE(names(complaints, field))
        << field.name << " " << number << ": " << ::testing::PrintToString(complaints);
  }
}

TEST(NumberFields, of_keys_are_bounded) {
  for (const NumberField& field : key_number_fields) {
    expect_bounds(field, true, [&](const std::string& number) {
      return parse_rules(in_key(field, number)).complaints;
    });
  }
}

TEST(NumberFields, of_quotas_are_bounded) {
  for (const NumberField& field : quotas_number_fields) {
    expect_bounds(field, false, [&](const std::string& number) {
      return parse_rules(in_quotas(field, number)).complaints;
    });
  }
}

TEST(NumberFields, of_a_quota_are_bounded) {
  expect_bounds(overtakers_field, false, [](const std::string& number) {
    return parse_quota(quota_with(limit_with("a", "1", "1000"), number)).complaints;
  });
  expect_bounds(amount_field, false, [](const std::string& number) {
    return parse_quota(quota_with(limit_with("a", number, "1000"))).complaints;
  });
  expect_bounds(period_field, false, [](const std::string& number) {
    return parse_quota(quota_with(limit_with("a", "1", number))).complaints;
  });
}

// The native protocol brings a quota as a value.
TEST(NumberFields, of_a_quota_that_is_no_text_are_bounded) {
  const auto complaints = [](int64_t period_ms, uint64_t amount, uint32_t overtakers) {
    api::Quota quota;
    quota.overtakers_max = overtakers;
    quota.limits.push_back({.name = "a",
                            .metric = api::Metric::requests,
                            .kind = api::LimitKind::fixed,
                            .amount = amount,
                            .period_ms = period_ms});
    return check_quota(quota);
  };
  const auto least_ms = static_cast<int64_t>(period_field.min);
  const auto greatest_ms = static_cast<int64_t>(period_field.max);
  const auto greatest_overtakers = static_cast<uint32_t>(overtakers_field.max);
  EXPECT_EQ(complaints(least_ms, 0, 0), Complaints{});
  EXPECT_EQ(complaints(greatest_ms, amount_field.max, greatest_overtakers), Complaints{});
  EXPECT_TRUE(names(complaints(least_ms - 1, 0, 0), period_field));
  EXPECT_TRUE(names(complaints(greatest_ms + 1, 0, 0), period_field));
  EXPECT_TRUE(names(complaints(least_ms, 0, greatest_overtakers + 1), overtakers_field));
  EXPECT_EQ(complaints(least_ms, amount_field.max + 1, 0).size(), 1U);
}

TEST(NumberFields, of_names_and_lists_are_bounded) {
  const auto named = [](size_t bytes) {
    return parse_quota(quota_with(limit_with(std::string(bytes, 'a'), "1", "1000"))).complaints;
  };
  EXPECT_EQ(named(limit_name_field.min), Complaints{});
  EXPECT_EQ(named(limit_name_field.max), Complaints{});
  EXPECT_TRUE(names(named(limit_name_field.max + 1), limit_name_field));
  EXPECT_EQ(named(limit_name_field.min - 1).size(), 1U);

  const auto listed = [](size_t count) {
    std::string limits;
    for (size_t i = 0; i < count; ++i) {
      limits += (i == 0 ? "" : ", ") + limit_with("l" + std::to_string(i), "1", "1000");
    }
    return parse_quota(quota_with(limits)).complaints;
  };
  EXPECT_EQ(listed(limits_field.min), Complaints{});
  EXPECT_EQ(listed(limits_field.max), Complaints{});
  EXPECT_EQ(listed(limits_field.max + 1),
            Complaints{"limits: has " + std::to_string(limits_field.max + 1) + "; at most " +
                       std::to_string(limits_field.max) + " are allowed"});
}

}  // namespace
}  // namespace sluice::policy
