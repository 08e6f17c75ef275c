// JSON as a tree: reads it with a complaint instead of an exception, writes it like all JSON of the
// server.
// Flow:   configuration files, bodies of requests, replies to the command line -> parse_json() ->
//         values; values -> one_line(), indented(), write_json() -> log lines, replies, standard
//         output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/json_writer.hpp"
#include "text/number_field.hpp"

namespace sluice::text {

// Keeps the order of fields, so that complaints come in the order of the text.
using Json = nlohmann::ordered_json;

struct ParsedJson {
  Json value;
  std::string complaint;  // "not JSON, line 3, column 5: what the parser says"; empty: none
};

// Of a name that an object has twice, one is kept.
ParsedJson parse_json(std::string_view text);

// Bounds of JSON from a peer.
struct JsonBounds {
  size_t depth_max = 16;
  size_t names_max = 64;  // of one object: each is compared with those before it
};

// Complains also of a name that an object has twice.
ParsedJson parse_json(std::string_view text, const JsonBounds& bounds);

void write_json(const Json& value, JsonWriter<std::string>& out);
std::string one_line(const Json& value, Escapes escapes = Escapes::plain);
// Each member or element on a line of its own.
std::string indented(const Json& value);

// A value as a complaint shows it: short; of an array or object only its type.
std::string shown(const Json& value);

// nullopt unless the value is a whole number within the bounds.
std::optional<uint64_t> whole_number(const Json& value, uint64_t min, uint64_t max);
std::optional<uint64_t> whole_number(const Json& value, const NumberField& field);
// "must be a whole number from 1 to 5, not 6"
std::string whole_number_complaint(const Json& value, const NumberField& field);

}  // namespace sluice::text
