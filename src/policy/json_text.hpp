// How complaints show what stands in a JSON text: short, and as JSON.
// Flow: rule_file and quota_text -> a complaint's words.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sluice::policy {

// Keeps the order of fields, so that complaints come in the order of the text.
using Json = nlohmann::ordered_json;

std::string one_line(const Json& value);

// A JSON string, cut where it gets too long to read.
std::string in_quotes(std::string_view text);

// A value, likewise; of arrays and objects only what they are.
std::string shown(const Json& value);

// "not JSON, line 3, column 5: what the parser says".
std::string syntax_complaint(const Json::exception& error);

}  // namespace sluice::policy
