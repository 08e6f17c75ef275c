#include "log/line.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "log/time.hpp"
#include "text/quote.hpp"

namespace sluice::log {
namespace {

// The path from src/ on, independent of the build's folder.
std::string_view file_of(const Source& source) noexcept {
  const std::string_view path = source.file;
  const size_t start = path.rfind("src/");
  return start == std::string_view::npos ? path : path.substr(start);
}

// Writes the line directly: a copy of the fields would be half the cost of a request's line.
std::string json_line(Level level, std::string_view message, const Fields& fields,
                      const Source* source) {
  std::string line;
  text::JsonWriter json{line, {}, 1, false};
  json.field("level", level_name(level));
  if (source != nullptr) {
    json.name("source");
    json.open_object();
    json.field("function", source->function);
    json.field("file", file_of(*source));
    json.field("line", source->line);
    json.close_object();
  }
  json.field("message", message);
  for (const auto& [name, value] : fields.items()) {
    json.escaped_name(name);
    text::write_json(value, json);
  }
  json.close_object();
  return line;
}

// A value in the text formats: a list as Go prints it.
std::string text_of(const Fields& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return text::one_line(value);
  std::string text = "[";
  for (const Fields& item : value) {
    if (text.size() > 1) text += ' ';
    text += text_of(item);
  }
  return text + ']';
}

void add_value(std::string& line, const Fields& value) {
  const std::string text = text_of(value);
  line += text::needs_quotes(text) ? text::in_quotes(text) : text;
}

void add_fields(std::string& line, const std::string& prefix, const Fields& fields) {
  for (const auto& [name, value] : fields.items()) {
    if (value.is_object()) {
      add_fields(line, prefix + name + ".", value);
      continue;
    }
    line += ' ' + prefix + name + '=';
    add_value(line, value);
  }
}

std::string text_line(Level level, std::string_view message, const Fields& fields,
                      const Source* source) {
  std::string line = "level=";
  line += level_name(level);
  if (source != nullptr) {
    line += " source=";
    add_value(line, std::string(file_of(*source)) + ":" + std::to_string(source->line));
  }
  line += " message=";
  add_value(line, message);
  add_fields(line, {}, fields);
  return line;
}

std::string default_line(Level level, std::string_view message, const Fields& fields) {
  std::string line{level_name(level)};
  line += ' ';
  line += message;
  add_fields(line, {}, fields);
  return line;
}

// "86.99": without zeros at the end.
std::string decimal(int64_t value, int64_t unit) {
  const auto digits = fmt::format("{:.9f}", static_cast<double>(value) / static_cast<double>(unit));
  const size_t last = digits.find_last_not_of('0');
  return digits.substr(0, digits[last] == '.' ? last : last + 1);
}

}  // namespace

Fields map_value(Format format, const Fields& pairs) {
  if (format == Format::json) return pairs;
  std::vector<std::string> words;
  for (const auto& [name, value] : pairs.items()) {
    words.push_back(name + ":" + (value.is_null() ? "<nil>" : text_of(value)));
  }
  std::ranges::sort(words);
  std::string text = "map[";
  for (const std::string& word : words) text += (text.size() > 4 ? " " : "") + word;
  return text + "]";
}

Fields duration_value(Format format, int64_t ns) {
  if (format == Format::json) return ns;
  if (ns == 0) return "0s";
  if (ns < base::ns_per_us) return fmt::format("{}ns", ns);
  if (ns < base::ns_per_ms) return decimal(ns, base::ns_per_us) + "\u00b5s";
  if (ns < base::ns_per_s) return decimal(ns, base::ns_per_ms) + "ms";
  const int64_t minutes = ns / base::ns_per_s / 60;
  const std::string seconds = decimal(ns - minutes * 60 * base::ns_per_s, base::ns_per_s) + "s";
  if (minutes == 0) return seconds;
  if (minutes < 60) return fmt::format("{}m{}", minutes, seconds);
  return fmt::format("{}h{}m{}", minutes / 60, minutes % 60, seconds);
}

Fields time_value(Format format, int64_t wall_ns) {
  std::string text = utc_time(wall_ns);
  if (format != Format::json) text.replace(text.size() - 7, 6, "");  // to the millisecond
  return text;
}

std::string make_line(Format format, Level level, std::string_view message, const Fields& fields,
                      const Source* source) {
  switch (format) {
    case Format::json:
      return json_line(level, message, fields, source);
    case Format::text:
      return text_line(level, message, fields, source);
    case Format::system_default:
      break;
  }
  return default_line(level, message, fields);
}

}  // namespace sluice::log
