#include "policy/json_text.hpp"

namespace sluice::policy {
namespace {

constexpr size_t shown_bytes_max = 60;

}  // namespace

std::string one_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string in_quotes(std::string_view text) {
  const bool cut = text.size() > shown_bytes_max;
  std::string shown{text.substr(0, shown_bytes_max)};
  if (cut) shown += "...";
  return one_line(Json(shown));
}

std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  const std::string text = one_line(value);
  return text.size() <= shown_bytes_max ? text : text.substr(0, shown_bytes_max) + "...";
}

std::string syntax_complaint(const Json::exception& error) {
  std::string text = error.what();
  const size_t at = text.find(" at line ");
  if (at == std::string::npos) return "not JSON: " + text;
  return "not JSON, " + text.substr(at + 4);
}

}  // namespace sluice::policy
