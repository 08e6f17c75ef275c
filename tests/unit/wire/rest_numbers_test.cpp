// Goal: each number of a query or a body over REST is taken at its bounds and refused beyond them,
//       with the field's name; under /v1/ also with the bounds.
// Method: the rows that the readers use, each put into a request that is valid otherwise.
#include "wire/rest_numbers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/source_folder.hpp"
#include "tests/unit/wire/routed_request.hpp"
#include "wire/rest_endpoint.hpp"
#include "wire/rest_quota.hpp"

namespace sluice::wire {
namespace {

// ---------------------------------------------------------------------------------- outside /v1/

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const QueryNumber* query_rows[] = {
    &max_requests_number, &max_queue_number, &cost_number,        &released_cost_number,
    &max_wait_number,     &window_number,    &debug_limit_number, &top_keys_number};

struct Place {
  const QueryNumber* row;
  std::string method;
  std::string path;
};

std::string name_of(RestMethod method) {
  switch (method) {
    case RestMethod::get:
      return "GET";
    case RestMethod::post:
      return "POST";
    case RestMethod::put:
      return "PUT";
    default:
      return "DELETE";
  }
}

// Each operation of an endpoint that takes the row's parameter.
std::vector<Place> places() {
  std::vector<Place> found;
  for (const RestEndpoint& endpoint : rest_endpoints()) {
    if (endpoint.quota != QuotaEndpoint::none) continue;
    std::string path(endpoint.route);
    for (const auto& [part, text] : {std::pair{":key", "k"}, {":id", "1"}}) {
      if (const size_t at = path.find(part); at != path.npos) {
        path.replace(at, std::string_view(part).size(), text);
      }
    }
    for (const RestOperation& operation : endpoint.operations) {
      if (operation.method == RestMethod::none) continue;
      if (operation.id == "resetKey") continue;  // takes no parameters
      const auto* const other_cost =
          operation.id == "release" ? &cost_number : &released_cost_number;
      for (const QueryNumber* row : query_rows) {
        if (row == other_cost || !takes_parameter(endpoint, row->name)) continue;
        found.push_back({row, name_of(operation.method), path});
      }
    }
  }
  return found;
}

// The names of the rows of `type` that src/wire/ defines.
std::set<std::string> rows_of(const std::string& type) {
  std::set<std::string> names;
  const std::regex row("constexpr " + type + "\\s+(\\w+)\\s*[{=]");
  for (const auto& file :
       std::filesystem::directory_iterator(test::source_folder() / "src" / "wire")) {
    const std::string text = text_of(file.path());
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
      names.insert((*at)[1]);
    }
  }
  return names;
}

TEST(QueryNumbers, have_a_place_each) {
  std::set<std::string> tried;
  for (const Place& place : places()) {
    tried.insert(std::string(place.row->name) + " " + place.method + " " + place.path);
  }
  EXPECT_TRUE(tried.contains("cost POST /rate/k") && tried.contains("cost DELETE /rate/k/1"));
  std::set<const QueryNumber*> with_place;
  for (const Place& place : places()) with_place.insert(place.row);
  const std::set<std::string> rows = rows_of("QueryNumber");
  EXPECT_TRUE(rows.contains("max_requests_number")) << "the rows are not found";
  EXPECT_EQ(std::size(query_rows), rows.size()) << "query_rows lacks one";
  EXPECT_EQ(with_place.size(), rows.size()) << "no endpoint takes the parameter of a row";
}

TEST(QueryNumbers, are_bounded) {
  for (const Place& place : places()) {
    const QueryNumber& row = *place.row;
    const auto asked = [&](const std::string& number) {
      return answer(place.method, place.path + "?" + std::string(row.name) + "=" + number);
    };
    for (const uint64_t number : {row.min, row.max}) {
      EXPECT_FALSE(asked(std::to_string(number)).starts_with("400")) << row.name << " " << number;
    }
    const std::string outside = "400 " + std::string(row.outside);
    const std::string unreadable = "400 " + std::string(row.unreadable);
    EXPECT_EQ(asked(std::to_string(static_cast<int64_t>(row.min) - 1)), outside);
    EXPECT_EQ(asked(std::to_string(row.max + 1)), outside);
    EXPECT_EQ(asked("1.5"), unreadable);
    for (const std::string& text : {outside, unreadable}) {
      EXPECT_NE(text.find(" " + std::string(row.name) + " "), std::string::npos) << text;
    }
    EXPECT_LE(row.min, row.absent);
    EXPECT_GE(row.max, row.absent);
  }
}

TEST(BodyNumbers, are_all_tried) {
  const std::string own = text_of(test::source_folder() / "tests/unit/wire/rest_numbers_test.cpp");
  const std::set<std::string> rows = rows_of("text::NumberField");
  EXPECT_GE(rows.size(), 5U) << "the rows are not found";
  for (const std::string& row : rows) {
    EXPECT_TRUE(std::regex_search(own, std::regex("[ (]" + row + "\\b"))) << row;
  }
}

// ------------------------------------------------------------------------------------ under /v1/

// The detail of the refusal; empty: there is none.
std::string refusal(const RestQuota& asked, const std::string& body) {
  const auto result = read_quota_request(asked, body, {.name_bytes_max = 64});
  const auto* problem = std::get_if<QuotaProblem>(&result);
  if (problem == nullptr) return "";
  EXPECT_FALSE(problem->detail.empty());
  return problem->detail;
}

// Whether the text names the field and both bounds.
bool names(const std::string& text, const text::NumberField& field) {
  return text.starts_with(std::string(field.name) + ": ") &&
         text.find(std::to_string(field.min) + " to " + std::to_string(field.max)) !=
             std::string::npos;
}

std::string in_body(QuotaEndpoint endpoint, std::string_view name, const std::string& value) {
  const bool names_subjects =
      endpoint != QuotaEndpoint::settle && endpoint != QuotaEndpoint::extend;
  const std::string start =
      names_subjects ? R"({"subjects": ["s"])" : R"({"reservation": "00000a5d1c2e9f03")";
  return refusal({.endpoint = endpoint, .method = "POST"},
                 start + ", \"" + std::string(name) + "\": " + value + "}");
}

void expect_bounds(QuotaEndpoint endpoint, const text::NumberField& field) {
  for (const uint64_t number : {field.min, field.max}) {
    // A part of the input tokens: only zero is no more than none.
    if (field.name == "cached_input_tokens" && number > 0) continue;
    EXPECT_EQ(in_body(endpoint, field.name, std::to_string(number)), "") << field.name;
  }
  for (const std::string& number : {std::to_string(static_cast<int64_t>(field.min) - 1),
                                    std::to_string(field.max + 1), std::string("1.5")}) {
    const std::string text = in_body(endpoint, field.name, number);
    EXPECT_TRUE(names(text, field)) << field.name << " " << number << ": " << text;
  }
}

TEST(BodyNumbers, of_a_reserve_and_a_check_are_bounded) {
  for (const QuotaEndpoint endpoint : {QuotaEndpoint::reserve, QuotaEndpoint::check}) {
    for (const char* name : {"requests", "input_tokens", "max_output_tokens", "cost"}) {
      expect_bounds(endpoint, amount_number(name));
    }
    expect_bounds(endpoint, lifetime_number);
    expect_bounds(endpoint, wait_limit_number);
  }
}

TEST(BodyNumbers, of_used_amounts_are_bounded) {
  for (const QuotaEndpoint endpoint :
       {QuotaEndpoint::settle, QuotaEndpoint::record, QuotaEndpoint::consume}) {
    for (const char* name :
         {"requests", "input_tokens", "cached_input_tokens", "output_tokens", "cost"}) {
      expect_bounds(endpoint, amount_number(name));
    }
  }
  expect_bounds(QuotaEndpoint::consume, wait_limit_number);
}

TEST(BodyNumbers, of_an_extend_are_bounded) {
  expect_bounds(QuotaEndpoint::extend, lifetime_number);
}

TEST(BodyNumbers, of_texts_are_bounded) {
  for (const auto& [endpoint, name] : {std::pair{QuotaEndpoint::reserve, "id"},
                                       {QuotaEndpoint::reserve, "owner"},
                                       {QuotaEndpoint::check, "id"},
                                       {QuotaEndpoint::check, "owner"},
                                       {QuotaEndpoint::record, "id"},
                                       {QuotaEndpoint::consume, "id"},
                                       {QuotaEndpoint::position, "id"}}) {
    const auto sized = [endpoint = endpoint, name = name](size_t bytes) {
      return in_body(endpoint, name, "\"" + std::string(bytes, 'x') + "\"");
    };
    const text::NumberField field{name, id_bytes_number.min, id_bytes_number.max};
    EXPECT_EQ(sized(field.min), "");
    EXPECT_EQ(sized(field.max), "");
    EXPECT_TRUE(names(sized(field.min - 1), field));
    EXPECT_TRUE(names(sized(field.max + 1), field));
  }
}

TEST(BodyNumbers, of_lists_are_bounded) {
  for (const QuotaEndpoint endpoint : {QuotaEndpoint::reserve, QuotaEndpoint::check,
                                       QuotaEndpoint::record, QuotaEndpoint::consume}) {
    const auto listed = [endpoint](size_t count) {
      std::string subjects;
      for (size_t i = 0; i < count; ++i)
        subjects += (i == 0 ? "\"s" : ", \"s") + std::to_string(i) + '"';
      return refusal({.endpoint = endpoint, .method = "POST"},
                     "{\"subjects\": [" + subjects + "]}");
    };
    EXPECT_EQ(listed(subjects_number.min), "");
    EXPECT_EQ(listed(subjects_number.max), "");
    EXPECT_TRUE(names(listed(subjects_number.min - 1), subjects_number));
    EXPECT_TRUE(names(listed(subjects_number.max + 1), subjects_number));
  }
}

TEST(PageNumbers, are_bounded) {
  for (const QuotaEndpoint endpoint : {QuotaEndpoint::subjects, QuotaEndpoint::reservations}) {
    const auto page = [&](uint64_t limit) {
      const std::string text = std::to_string(limit);
      return refusal({.endpoint = endpoint, .method = "GET", .limit = text}, "");
    };
    EXPECT_EQ(page(page_limit_number.min), "");
    EXPECT_EQ(page(page_limit_number.max), "");
    EXPECT_TRUE(names(page(page_limit_number.min - 1), page_limit_number));
    EXPECT_TRUE(names(page(page_limit_number.max + 1), page_limit_number));
  }
}

}  // namespace
}  // namespace sluice::wire
