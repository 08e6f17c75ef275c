#include "wire/http2_fields.hpp"

#include <algorithm>

#include "wire/http_text.hpp"

namespace sluice::wire {
namespace {

constexpr FieldName status_name{.http_1 = {}, .http_2 = ":status"};

}  // namespace

void Http2Fields::encode(const ReplyHead& head, int64_t wall_ns, std::optional<size_t> body_bytes) {
  begin(head.status, head.headers.size());
  write_fields(*this, head, wall_ns);
  if (body_bytes) {
    number(field_name::content_length,
           [&](HttpWriter& value) { value.decimal_unsigned(*body_bytes); });
  }
}

void Http2Fields::encode_status(uint16_t status) {
  begin(status, 0);
}

// The text must not move while it is written: the list points into it.
void Http2Fields::begin(uint16_t status, size_t lines_bytes) {
  list_.clear();
  used_ = 0;
  text_.resize(std::max(text_.size(), head_bytes_max + lines_bytes));
  add(status_name, written([status](HttpWriter& value) { value.status(status); }));
}

void Http2Fields::text(const FieldName& name, std::string_view value) {
  if (!value.empty()) add(name, value);
}

void Http2Fields::lines(std::string_view lines) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(std::min(line.size() + 2, lines.size()));
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name =
        written([&](HttpWriter& text) { text.text(line.substr(0, colon)); });
    std::transform(name.begin(), name.end(), text_.begin() + (name.data() - text_.data()),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    add(name, trim_white_space(line.substr(std::min(colon + 1, line.size()))), changes);
  }
}

std::span<std::byte> Http2Fields::room() noexcept {
  return std::as_writable_bytes(std::span(text_)).subspan(used_);
}

std::string_view Http2Fields::commit(size_t bytes) noexcept {
  const std::string_view text = std::string_view{text_}.substr(used_, bytes);
  used_ += bytes;
  return text;
}

// nghttp2 copies what it keeps, except for these names, and changes nothing.
void Http2Fields::add(const FieldName& name, std::string_view value, uint8_t flags) {
  add(name.http_2, value, flags | NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

void Http2Fields::add(std::string_view name, std::string_view value, uint8_t flags) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  };
  list_.push_back({bytes(name), bytes(value), name.size(), value.size(), flags});
}

}  // namespace sluice::wire
