// An answer as a value: status, header fields and body, without the framing of an HTTP version.
// Flow:   RestAnswer -> reply_value() -> the writer of HTTP/1.1 (http_codec_reply.cpp) or of HTTP/2
//         (http2_fields.cpp).
// Shape:  docs/rest.md; fields in the order of Go's server, each with its names in both versions.
// Lives:  views of the answer, and of the room for a body that had to be written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "base/time.hpp"
#include "wire/http_writer.hpp"
#include "wire/rest_answer.hpp"

namespace sluice::wire {

// Empty values are left out.
struct ReplyHead {
  uint16_t status = 200;
  std::string_view allow;
  std::string_view content_type;
  const api::Detail* detail = nullptr;  // RateLimit and RateLimit-Policy
  bool has_retry_after = false;         // Retry-After, from `detail`
  bool table_order = false;
  std::string_view headers;  // more lines, each with its line end
};

struct ReplyValue {
  ReplyHead head;
  std::string_view body;
};

// The longest head that is written, without the caller's lines, Allow and Content-Type.
inline constexpr size_t head_bytes_max = 512;

// A body that is no view of the answer is written to `room`, which has answer_bytes_max().
ReplyValue reply_value(const RestAnswer& answer, std::span<std::byte> room) noexcept;
ReplyValue reply_value(const RestReply& answer, std::span<std::byte> room) noexcept;
ReplyValue reply_value(const RestContent& answer) noexcept;
ReplyValue reply_value(const DecisionAnswer& answer, std::span<std::byte> room) noexcept;
ReplyValue reply_value(const KeyAnswer& answer, std::span<std::byte> room) noexcept;

// RFC 9110: no Content-Length with 204; with HEAD only the one of GET, which is not known here.
inline bool has_length(const ReplyHead& head, const ReplyContext& reply) noexcept {
  return head.status != 204 && !reply.head_only;
}

// The name of a header field in HTTP/1.1 and in HTTP/2.
struct FieldName {
  std::string_view http_1;
  std::string_view http_2;
};
namespace field_name {
inline constexpr FieldName allow{"Allow: ", "allow"};
inline constexpr FieldName content_type{"Content-Type: ", "content-type"};
inline constexpr FieldName rate_limit{"RateLimit: ", "ratelimit"};
inline constexpr FieldName rate_limit_policy{"RateLimit-Policy: ", "ratelimit-policy"};
inline constexpr FieldName retry_after{"Retry-After: ", "retry-after"};
inline constexpr FieldName degraded{"Sluicegate-Degraded: ", "sluicegate-degraded"};
inline constexpr FieldName order{"X-Sluicegate-Order: ", "x-sluicegate-order"};
inline constexpr FieldName date{"Date: ", "date"};
inline constexpr FieldName content_length{"Content-Length: ", "content-length"};
}  // namespace field_name

// Calls for each field of a head fields.text(name, value), fields.lines(headers), or, with a
// write(HttpWriter&) that writes the value, fields.number(name, write) if it changes with every
// answer and fields.shared(name, write) if many answers have the same.
// draft-ietf-httpapi-ratelimit-headers: q permits per w seconds; r remain, and the window ends in t
// seconds. A key's first window may last up to a millisecond longer than its policy: that is not
// shown as a whole second.
template <typename Fields>
void write_fields(Fields& fields, const ReplyHead& head, int64_t wall_ns) noexcept {
  fields.text(field_name::allow, head.allow);
  fields.text(field_name::content_type, head.content_type);
  // What was decided without the key's owner shows no window.
  if (const api::Detail* detail = head.detail; detail != nullptr && detail->limit > 0) {
    fields.number(field_name::rate_limit, [&](HttpWriter& value) {
      value.text("\"window\";r=");
      value.decimal(detail->remaining);
      value.text(";t=");
      value.decimal(base::ceil_seconds(std::min(detail->reset_ms, detail->window_ms)));
    });
    fields.shared(field_name::rate_limit_policy, [&](HttpWriter& value) {
      value.text("\"window\";q=");
      value.decimal(detail->limit);
      value.text(";w=");
      value.decimal(base::ceil_seconds(detail->window_ms));
    });
  }
  if (head.has_retry_after) {
    fields.number(field_name::retry_after, [&](HttpWriter& value) {
      value.decimal(std::max<int64_t>(1, base::ceil_seconds(head.detail->retry_after_ms)));
    });
  }
  if (head.detail != nullptr && head.detail->is_degraded) {
    fields.text(field_name::degraded, "owner unreachable");
  }
  if (!head.headers.empty()) fields.lines(head.headers);
  if (head.table_order) fields.text(field_name::order, "table");
  fields.shared(field_name::date, [&](HttpWriter& value) { value.date(wall_ns); });
}

}  // namespace sluice::wire
