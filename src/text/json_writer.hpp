// Appends JSON to an output, piece by piece, without building a tree.
// Flow:   replies, /debug and log lines -> JsonWriter -> a string, or a buffer with `text(view)`.
// Shape:  one line without spaces, or as Go's json.Encoder does after SetIndent("", "  ").
// Errors: bytes that are not UTF-8 become replacement characters. Brackets that do not match are
//         the caller's bug; the writer does not check them.
// Lives:  borrows the output; allocates only what the output does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "text/json_string.hpp"
#include "text/number.hpp"

namespace sluice::text {

struct JsonStyle {
  Escapes escapes = Escapes::plain;
  bool pretty = false;
};

template <typename Out>
class JsonWriter {
 public:
  explicit JsonWriter(Out& out, JsonStyle style = {}) noexcept : out_(out), style_(style) {}

  // Continues within `depth` objects that another writer has opened; `first`: the innermost has no
  // member yet.
  JsonWriter(Out& out, JsonStyle style, uint32_t depth, bool first) noexcept
      : out_(out), style_(style), depth_(depth), next_(first ? Next::first : Next::more) {}

  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_array() { open('['); }
  void close_array() { close(']'); }

  // The name of the next value. `name` needs no escapes.
  [[gnu::flatten]] void name(std::string_view name) {
    if (next_ == Next::more && !style_.pretty) {
      put(",\"");
    } else {
      begin();
      put('"');
    }
    put(name);
    put("\":");
    if (style_.pretty) put(' ');
    next_ = Next::value;
  }
  // A name with any characters.
  void escaped_name(std::string_view name) {
    begin();
    string(name);
    put(':');
    if (style_.pretty) put(' ');
    next_ = Next::value;
  }

  // nullptr, a bool, a whole number or text.
  template <typename Value>
  void value(const Value& value) {
    begin();
    if constexpr (std::is_null_pointer_v<Value>) {
      put("null");
    } else if constexpr (std::is_same_v<Value, bool>) {
      put(value ? "true" : "false");
    } else if constexpr (std::is_integral_v<Value>) {
      DigitBuffer buffer;
      put(digits(value, buffer));
    } else {
      string(value);
    }
  }

  template <typename Value>
  void field(std::string_view name_, const Value& value_) {
    name(name_);
    value(value_);
  }

  // A value that is JSON already.
  void written(std::string_view json) {
    begin();
    put(json);
  }

 private:
  // What comes next: the first item of an object or array, one more, or the value of a name.
  enum class Next : uint8_t { first, more, value };

  void begin() {
    if (next_ != Next::value) separate();
    next_ = Next::more;
  }
  void separate() {
    if (next_ == Next::more) put(',');
    if (style_.pretty) new_line();
  }

  void open(char bracket) {
    begin();
    put(bracket);
    ++depth_;
    next_ = Next::first;
  }

  void close(char bracket) {
    --depth_;
    if (style_.pretty && next_ != Next::first) new_line();
    put(bracket);
    next_ = Next::more;
  }

  void new_line() {
    put('\n');
    for (uint32_t i = 0; i < depth_; ++i) put("  ");
  }

  [[gnu::flatten]] void string(std::string_view value) {
    put('"');
    for (JsonStringPieces pieces{value, style_.escapes}; !pieces.is_done();) put(pieces.next());
    put('"');
  }

  void put(char c) {
    if constexpr (std::is_same_v<Out, std::string>) {
      out_ += c;
    } else {
      out_.text({&c, 1});
    }
  }
  void put(std::string_view piece) {
    if constexpr (std::is_same_v<Out, std::string>) {
      out_.append(piece);
    } else {
      out_.text(piece);
    }
  }

  Out& out_;
  JsonStyle style_;
  uint32_t depth_ = 0;
  Next next_ = Next::value;
};

}  // namespace sluice::text
