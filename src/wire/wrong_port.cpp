#include "wire/wrong_port.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "wire/content_type.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_writer.hpp"

namespace sluice::wire {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_http_request(std::span<const std::byte> bytes) noexcept {
  constexpr size_t shortest = 3;  // GET, PUT
  const std::string_view text = text_of(bytes);
  if (text.size() < shortest || text.starts_with("PRI ")) return false;
  return std::ranges::all_of(text.substr(0, shortest), [](char c) { return c >= 'A' && c <= 'Z'; });
}

size_t encode_wrong_port(std::span<const std::byte> request, uint16_t rest_port, int64_t wall_ns,
                         std::span<std::byte> out) noexcept {
  std::array<std::byte, 128> text;
  HttpWriter body(text);
  body.text("this is the port of the native protocol: REST is on port ");
  body.decimal(rest_port);
  body.text("\n");
  const RestContent content{
      .status = 400,
      .content_type = text_plain,
      .headers = {},
      .body = text_of(std::span(text).first(body.size_bytes())),
  };
  const bool head_only = text_of(request).starts_with("HEAD");
  return encode_content(content, {.keep_alive = false, .head_only = head_only, .wall_ns = wall_ns},
                        out);
}

}  // namespace sluice::wire
