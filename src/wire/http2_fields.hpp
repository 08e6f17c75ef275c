// The header fields of an answer as HTTP/2 has them: names in lower case, no Connection, no
// Transfer-Encoding.
// Flow:   ReplyHead -> encode() -> list() -> nghttp2.
// Shape:  values that change with every answer are never indexed (RFC 7541, 6.2.3): they would only
//         displace those that answers share, which the peer gets as an index of one byte.
// Lives:  a list is valid until the next encode(), and as long as the head's texts are.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/reply_value.hpp"

namespace sluice::wire {

class Http2Fields {
 public:
  void encode(const ReplyHead& head, int64_t wall_ns, std::optional<size_t> body_bytes);
  void encode_status(uint16_t status);
  std::span<const nghttp2_nv> list() const noexcept { return list_; }

  // For write_fields().
  void text(const FieldName& name, std::string_view value);
  template <typename Write>
  void number(const FieldName& name, Write&& write) {
    add(name, written(write), changes);
  }
  template <typename Write>
  void shared(const FieldName& name, Write&& write) {
    add(name, written(write));
  }
  void lines(std::string_view lines);

 private:
  static constexpr uint8_t changes = NGHTTP2_NV_FLAG_NO_INDEX;

  void begin(uint16_t status, size_t lines_bytes);
  template <typename Write>
  std::string_view written(Write&& write) noexcept {
    HttpWriter writer{room()};
    write(writer);
    return commit(writer.size_bytes());
  }
  std::span<std::byte> room() noexcept;
  std::string_view commit(size_t bytes) noexcept;
  void add(const FieldName& name, std::string_view value, uint8_t flags = 0);
  void add(std::string_view name, std::string_view value, uint8_t flags);

  std::string text_;  // of values, and of names that had to be written
  size_t used_ = 0;
  std::vector<nghttp2_nv> list_;
};

}  // namespace sluice::wire
