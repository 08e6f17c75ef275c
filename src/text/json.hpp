// JSON as a tree: reads it with a complaint instead of an exception, writes it as every JSON here.
// Flow:   policy files, bodies of requests, replies to the command line -> parse_json() -> values;
//         values -> one_line(), indented(), write_json() -> log lines, replies, standard output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/json_writer.hpp"

namespace sluice::text {

// Keeps the order of fields, so that complaints come in the order of the text.
using Json = nlohmann::ordered_json;

struct ParsedJson {
  Json value;
  std::string complaint;  // "not JSON, line 3, column 5: what the parser says"; empty: none
};

// Of names that come twice in an object one is kept.
ParsedJson parse_json(std::string_view text);

// What a peer may send.
struct JsonBounds {
  size_t depth_max = 16;
  size_t names_max = 64;  // of one object: each is compared with those before it
};

// Complains of a name that comes twice, too.
ParsedJson parse_json(std::string_view text, const JsonBounds& bounds);

void write_json(const Json& value, JsonWriter<std::string>& out);
std::string one_line(const Json& value, Escapes escapes = Escapes::plain);
// A member or element a line.
std::string indented(const Json& value);

// How a complaint shows a value: short; of arrays and objects only what they are.
std::string shown(const Json& value);

// Nothing for what is no whole number within the bounds.
std::optional<uint64_t> whole_number(const Json& value, uint64_t min, uint64_t max);
// "must be a whole number from 1 to 5, not 6"
std::string not_whole(const Json& value, uint64_t min, uint64_t max);

}  // namespace sluice::text
