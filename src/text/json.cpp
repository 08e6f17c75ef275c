#include "text/json.hpp"

#include "text/quote.hpp"

namespace sluice::text {

void write_json(const Json& value, JsonWriter<std::string>& out) {
  switch (value.type()) {
    case Json::value_t::object:
      out.open_object();
      for (const auto& [name, member] : value.get_ref<const Json::object_t&>()) {
        out.escaped_name(name);
        write_json(member, out);
      }
      return out.close_object();
    case Json::value_t::array:
      out.open_array();
      for (const Json& item : value) write_json(item, out);
      return out.close_array();
    case Json::value_t::string:
      return out.value(value.get_ref<const std::string&>());
    case Json::value_t::boolean:
      return out.value(value.get<bool>());
    case Json::value_t::number_unsigned:
      return out.value(value.get<uint64_t>());
    case Json::value_t::number_integer:
      return out.value(value.get<int64_t>());
    default:
      return out.written(value.dump());  // null, or a number with a point: no text to escape
  }
}

std::string one_line(const Json& value, Escapes escapes) {
  std::string text;
  JsonWriter out{text, {.escapes = escapes}};
  write_json(value, out);
  return text;
}

std::string indented(const Json& value) {
  std::string text;
  JsonWriter out{text, {.pretty = true}};
  write_json(value, out);
  return text;
}

std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  if (value.is_string()) return quoted_excerpt(value.get_ref<const std::string&>());
  return one_line(value);
}

std::optional<uint64_t> whole_number(const Json& value, uint64_t min, uint64_t max) {
  const bool is_minus_zero = value.is_number_integer() && value == 0;
  if (!value.is_number_unsigned() && !is_minus_zero) return std::nullopt;
  const auto number = value.get<uint64_t>();
  return number >= min && number <= max ? std::optional{number} : std::nullopt;
}

std::optional<uint64_t> whole_number(const Json& value, const NumberField& field) {
  return whole_number(value, field.min, field.max);
}

std::string whole_number_complaint(const Json& value, const NumberField& field) {
  return "must be a whole number from " + std::to_string(field.min) + " to " +
         std::to_string(field.max) + ", not " + shown(value);
}

}  // namespace sluice::text
