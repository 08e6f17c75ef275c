// Header fields of HTTP/2 as bytes, without Huffman code: also those that no client sends.
// Source: RFC 7541, 5 and 6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::support::hpack {

// Indexes of the static table, each as a field of its own.
inline constexpr std::string_view method_get = "\x82";
inline constexpr std::string_view method_post = "\x83";
inline constexpr std::string_view scheme_http = "\x86";
// The field that was put into the connection's table last.
inline constexpr char last_indexed = '\xbe';

inline std::string text(std::string_view value) {
  constexpr size_t prefix_max = 127;
  if (value.size() < prefix_max) {
    return std::string(1, static_cast<char>(value.size())).append(value);
  }
  std::string bytes(1, static_cast<char>(prefix_max));
  size_t left = value.size() - prefix_max;
  for (; left >= 128; left /= 128) bytes.push_back(static_cast<char>(left % 128 + 128));
  bytes.push_back(static_cast<char>(left));
  return bytes.append(value);
}

inline std::string field(std::string_view name, std::string_view value) {
  return std::string(1, '\0') + text(name) + text(value);
}

// It is put into the connection's table.
inline std::string indexed_field(std::string_view name, std::string_view value) {
  return "\x40" + text(name) + text(value);
}

// A request's pseudo-header fields.
inline std::string head(std::string_view path = "/", std::string_view method = method_get) {
  return std::string{method}.append(scheme_http) + "\x01" + text("x") + "\x04" + text(path);
}

}  // namespace sluice::support::hpack
