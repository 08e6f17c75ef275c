// Writes JSON at the end of a text, piece by piece, without a tree of it.
// Flow:   rest_quota_reply.cpp -> JsonWriter -> the body of an answer.
// Shape:  byte for byte as policy::one_line() has the same values: one line, no spaces.
// Errors: text that is not UTF-8 gets replacement characters. Brackets that do not match are the
//         caller's bug, and not noticed.
// Lives:  borrows the text.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice::wire {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) noexcept : out_(out) {}

  void open_object() { open('{'); }
  void close_object() { out_ += '}'; }
  void open_array() { open('['); }
  void close_array() { out_ += ']'; }

  // Of the value that comes next. `name` needs no escapes.
  void name(std::string_view name) {
    separate();
    out_.append("\"").append(name).append("\":");
  }

  // nullptr, a truth value, a whole number or text.
  template <typename Value>
  void value(const Value& value) {
    if constexpr (std::is_null_pointer_v<Value>) {
      written("null");
    } else if constexpr (std::is_same_v<Value, bool>) {
      written(value ? "true" : "false");
    } else if constexpr (std::is_integral_v<Value>) {
      number(value);
    } else {
      text(value);
    }
  }

  template <typename Value>
  void field(std::string_view name_, const Value& value_) {
    name(name_);
    value(value_);
  }

  // A value that is JSON already.
  void written(std::string_view json) {
    separate();
    out_ += json;
  }

 private:
  // A comma, unless what comes is the first of its object or array, or has its name before it.
  void separate() {
    const char last = out_.empty() ? '{' : out_.back();
    if (last != '{' && last != '[' && last != ':') out_ += ',';
  }

  void open(char bracket) {
    separate();
    out_ += bracket;
  }

  template <typename Number>
  void number(Number value) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    written({digits.data(), static_cast<size_t>(end - digits.data())});
  }

  void text(std::string_view text);

  std::string& out_;
};

}  // namespace sluice::wire
