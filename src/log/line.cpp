#include "log/line.hpp"

#include <algorithm>

namespace sluice::log {
namespace {

std::string dump(const Fields& value) {
  return value.dump(-1, ' ', false, Fields::error_handler_t::replace);
}

// From src/ on, wherever it was compiled.
std::string_view file_of(const Source& source) noexcept {
  const std::string_view path = source.file;
  const size_t start = path.rfind("src/");
  return start == std::string_view::npos ? path : path.substr(start);
}

// Put together here: of a line with a request in it, a copy of its fields is half the price.
std::string json_line(Level level, std::string_view message, const Fields& fields,
                      const Source* source) {
  std::string line = R"(,"level":")";
  line += level_name(level);
  line += '"';
  if (source != nullptr) {
    line += R"(,"source":)";
    line +=
        dump({{"function", source->function}, {"file", file_of(*source)}, {"line", source->line}});
  }
  line += R"(,"message":)";
  line += dump(message);
  if (fields.empty()) return line += '}';
  line += ',';
  return line.append(dump(fields), 1);
}

bool is_bare(unsigned char c) noexcept {
  return c > ' ' && c != '"' && c != '=' && c != '\x7f';
}

// A value that could be misread stands in quotes.
void add_value(std::string& line, const Fields& value) {
  if (!value.is_string()) {
    line += dump(value);
    return;
  }
  const std::string quoted = dump(value);
  const std::string_view inner = std::string_view(quoted).substr(1, quoted.size() - 2);
  const bool bare = !inner.empty() && inner.find('\\') == std::string_view::npos &&
                    std::all_of(inner.begin(), inner.end(), is_bare);
  line += bare ? inner : std::string_view(quoted);
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

}  // namespace

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
