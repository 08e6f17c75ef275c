#include "wire/json_writer.hpp"

#include <algorithm>

#include "policy/json_text.hpp"

namespace sluice::wire {
namespace {

bool needs_no_escape(char c) noexcept {
  return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

}  // namespace

void JsonWriter::text(std::string_view text) {
  if (!std::all_of(text.begin(), text.end(), needs_no_escape)) {
    return written(policy::one_line(policy::Json(text)));
  }
  separate();
  out_.append("\"").append(text).append("\"");
}

}  // namespace sluice::wire
