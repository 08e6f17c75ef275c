#include <algorithm>
#include <array>
#include <optional>

#include "base/assert.hpp"
#include "base/time.hpp"
#include "text/json_writer.hpp"
#include "wire/content_type.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_writer.hpp"

namespace sluice::wire {

namespace {

// Escapes the same characters as gocc's replies.
struct JsonWriter : text::JsonWriter<HttpWriter> {
  explicit JsonWriter(HttpWriter& out, bool pretty = false) noexcept
      : text::JsonWriter<HttpWriter>(out, style(pretty)) {}
  JsonWriter(HttpWriter& out, bool pretty, uint32_t depth, bool first) noexcept
      : text::JsonWriter<HttpWriter>(out, style(pretty), depth, first) {}

 private:
  static constexpr text::JsonStyle style(bool pretty) noexcept {
    return {.escapes = text::Escapes::html, .pretty = pretty};
  }
};

// The longest head that this file writes, without the caller's Allow and Content-Type.
constexpr size_t head_bytes_max = 512;

// How the client finds the end of a body.
enum class Framing : uint8_t { sized, chunked, until_close };

// The values of a head, written in the order of Go's server; empty ones are left out.
struct Head {
  uint16_t status = 200;
  std::string_view allow;
  std::string_view content_type;
  const api::Detail* detail = nullptr;  // RateLimit and RateLimit-Policy
  bool has_retry_after = false;         // Retry-After, from `detail`
  bool table_order = false;
  std::string_view headers;  // more lines
  Framing framing = Framing::sized;
  size_t body_bytes = 0;
};

void write_header(HttpWriter& writer, std::string_view name, std::string_view value) noexcept {
  if (value.empty()) return;
  writer.text(name);
  writer.text(value);
  writer.text("\r\n");
}

// draft-ietf-httpapi-ratelimit-headers: q permits per w seconds; r remain, and the window ends in t
// seconds. A key's first window may last up to a millisecond longer than its policy: that is not
// shown as a whole second.
void write_rate_limit(HttpWriter& writer, const api::Detail& detail) noexcept {
  writer.text("RateLimit: \"window\";r=");
  writer.decimal(detail.remaining);
  writer.text(";t=");
  writer.decimal(base::ceil_seconds(std::min(detail.reset_ms, detail.window_ms)));
  writer.text("\r\nRateLimit-Policy: \"window\";q=");
  writer.decimal(detail.limit);
  writer.text(";w=");
  writer.decimal(base::ceil_seconds(detail.window_ms));
  writer.text("\r\n");
}

void write_connection(HttpWriter& writer, const ReplyContext& reply) noexcept {
  if (!reply.keep_alive) {
    writer.text("Connection: close\r\n");
  } else if (reply.http_1_0) {
    writer.text("Connection: keep-alive\r\n");
  }
}

// RFC 9110: no Content-Length with 204; with HEAD only the one of GET, which is not known here.
bool has_length(const Head& head, const ReplyContext& reply) noexcept {
  return head.framing == Framing::sized && head.status != 204 && !reply.head_only;
}

void write_head(HttpWriter& writer, const Head& head, const ReplyContext& reply) noexcept {
  writer.text(reply.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ");
  writer.decimal(head.status);
  writer.text(" ");
  writer.text(reason_phrase(head.status));
  writer.text("\r\n");
  write_header(writer, "Allow: ", head.allow);
  write_header(writer, "Content-Type: ", head.content_type);
  if (head.detail != nullptr) write_rate_limit(writer, *head.detail);
  if (head.has_retry_after) {
    writer.text("Retry-After: ");
    writer.decimal(std::max<int64_t>(1, base::ceil_seconds(head.detail->retry_after_ms)));
    writer.text("\r\n");
  }
  writer.text(head.headers);
  if (head.table_order) writer.text("X-Sluicegate-Order: table\r\n");
  writer.text("Date: ");
  writer.date(reply.wall_ns);
  writer.text("\r\n");
  if (has_length(head, reply)) {
    writer.text("Content-Length: ");
    writer.decimal_unsigned(head.body_bytes);
    writer.text("\r\n");
  }
  write_connection(writer, reply);
  if (head.framing == Framing::chunked) writer.text("Transfer-Encoding: chunked\r\n");
  writer.text("\r\n");
}

size_t write_reply(Head head, std::string_view body, const ReplyContext& reply,
                   std::span<std::byte> out) noexcept {
  head.body_bytes = body.size();
  HttpWriter writer{out};
  write_head(writer, head, reply);
  if (!reply.head_only) writer.text(body);
  return writer.size_bytes();
}

// For bodies of unknown length: writes the body first, behind room for the head, then the head, and
// moves the body behind it.
template <typename WriteBody>
size_t write_measured_reply(Head head, const ReplyContext& reply, std::span<std::byte> out,
                            WriteBody&& write_body) noexcept {
  ASSERT(out.size() >= head_bytes_max);
  HttpWriter body{out.subspan(head_bytes_max)};
  write_body(body);
  head.body_bytes = body.size_bytes();
  HttpWriter writer{out};
  write_head(writer, head, reply);
  if (!reply.head_only) writer.append_tail(head_bytes_max, head.body_bytes);
  return writer.size_bytes();
}

// --- Decisions -----------------------------------------------------------------------------

struct Outcome {
  uint16_t status;
  std::string_view text;  // the error in a JSON body; also the plain body, except with 429
};

Outcome outcome(api::Verdict verdict) noexcept {
  switch (verdict) {
    case api::Verdict::approved:
      return {200, {}};
    case api::Verdict::denied:
      return {429, "rate limit exceeded"};
    case api::Verdict::wait_limit:
      return {429, "waited as long as allowed (maxWaitMillis, --max-wait-millis)"};
    case api::Verdict::not_allowed:
      return {403, "overrides are disabled (--requests-can-set-rate, --requests-can-mod-queue)"};
    case api::Verdict::never_fits:
      return {400, "cost exceeds maxRequests"};
    case api::Verdict::invalid_key:
      return {400, "invalid key"};
    case api::Verdict::table_full:
      return {503, "the key table is full (--max-keys)"};
    case api::Verdict::waiters_full:
      return {503, "too many requests are waiting (--max-waiters)"};
    case api::Verdict::key_waiters_full:
      return {503,
              "too many requests are waiting for this key: they hold as many places as are free "
              "(--max-waiters)"};
    case api::Verdict::overloaded:
      return {503, "the server is overloaded"};
    case api::Verdict::draining:
      return {503, "the server is shutting down"};
    case api::Verdict::none:
    case api::Verdict::queued:                   // held, not answered
    case api::Verdict::withdrawn:                // only the native protocol can ask for it
    case api::Verdict::handles_full:             // likewise
    case api::Verdict::connection_waiters_full:  // a connection of REST has one waiter at a time
    case api::Verdict::owner_unreachable:
      break;
  }
  constexpr bool a_rest_request_can_have_this_verdict = false;
  ASSERT(a_rest_request_can_have_this_verdict);
  return {500, {}};
}

// Whether the shard has read the key's window, so that the headers can show its state.
bool was_decided(api::Verdict verdict) noexcept {
  return verdict == api::Verdict::approved || verdict == api::Verdict::denied ||
         verdict == api::Verdict::wait_limit || verdict == api::Verdict::never_fits;
}

// --- Inspection ----------------------------------------------------------------------------

void write_key_state(const api::KeyState& key, JsonWriter& json) noexcept {
  json.open_object();
  json.field("Key", key.key);
  json.name("Config");
  json.open_object();
  json.field("WindowMillis", key.window_ms);
  json.field("MaxRequestsPerWindow", key.max_requests);
  json.field("MaxRequestsInQueue", key.max_requests_in_queue);
  json.close_object();
  json.field("NumApprovedThisWindow", key.approved);
  json.field("NumDeniedThisWindow", key.denied);
  json.field("NumWaiting", key.waiting);
  json.field("Found", true);
  json.close_object();
}

// The depth of the keys in the JSON of GET /debug.
constexpr uint32_t debug_depth = 2;

// The longest line in front of a chunk: sixteen digits and a line end.
constexpr size_t chunk_line_bytes_max = 18;

// One chunk, or only the bytes where the connection's end ends the body.
template <typename WriteData>
void write_chunk(HttpWriter& writer, DebugStream& stream, std::span<std::byte> out,
                 WriteData&& write_data) noexcept {
  const size_t written = writer.size_bytes();
  const size_t data_start = written + (stream.chunked ? chunk_line_bytes_max : 0);
  ASSERT(out.size() >= data_start);
  HttpWriter data{out.subspan(data_start)};
  write_data(data);
  stream.body_bytes += data.size_bytes();
  if (stream.chunked) {
    writer.hexadecimal(data.size_bytes());
    writer.text("\r\n");
  }
  writer.append_tail(data_start, data.size_bytes());
  if (stream.chunked) writer.text("\r\n");
}

}  // namespace

std::string_view reason_phrase(uint16_t status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Request Entity Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

size_t encode_reply(const RestReply& answer, const ReplyContext& reply,
                    std::span<std::byte> out) noexcept {
  const Head head{
      .status = answer.status, .allow = answer.allow, .content_type = answer.content_type};
  if (!answer.json) return write_reply(head, answer.body, reply, out);
  return write_measured_reply(head, reply, out, [&answer](HttpWriter& body) {
    JsonWriter json{body};
    json.open_object();
    json.field("error", answer.body);
    json.close_object();
  });
}

size_t encode_decision(api::Verdict verdict, const api::Detail& detail, std::string_view key,
                       bool json, const ReplyContext& reply, std::span<std::byte> out) noexcept {
  const auto [status, text] = outcome(verdict);
  Head head{.status = status, .content_type = json ? application_json : text_plain};
  if (was_decided(verdict)) head.detail = &detail;
  head.has_retry_after = status == 429;

  if (verdict == api::Verdict::approved) {
    std::array<std::byte, 64> bytes;
    HttpWriter body{bytes};
    if (json) {
      JsonWriter object{body};
      object.open_object();
      object.field("request_id", detail.request_id);
      object.close_object();
    } else {
      body.decimal_unsigned(detail.request_id);
    }
    return write_reply(head, {reinterpret_cast<const char*>(bytes.data()), body.size_bytes()},
                       reply, out);
  }
  if (json) {
    return write_measured_reply(head, reply, out, [text = text, key](HttpWriter& body) {
      JsonWriter object{body};
      object.open_object();
      object.field("error", text);
      object.field("key", key);
      object.close_object();
    });
  }
  // gocc's denial is empty, and callers may rely on it.
  if (status == 429) head.content_type = {};
  return write_reply(head, status == 429 ? std::string_view{} : text, reply, out);
}

size_t encode_key_state(const api::KeyState& key, bool pretty, const ReplyContext& reply,
                        std::span<std::byte> out) noexcept {
  const Head head{.content_type = application_json};
  return write_measured_reply(head, reply, out, [&key, pretty](HttpWriter& body) {
    JsonWriter json{body, pretty};
    write_key_state(key, json);
    body.text("\n");
  });
}

size_t encode_content(const RestContent& content, const ReplyContext& reply,
                      std::span<std::byte> out) noexcept {
  const Head head{
      .status = content.status, .content_type = content.content_type, .headers = content.headers};
  return write_reply(head, content.body, reply, out);
}

size_t encode_continue(std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  writer.text("HTTP/1.1 100 Continue\r\n\r\n");
  return writer.size_bytes();
}

size_t encode_debug_head(DebugStream& stream, bool table_order, const ReplyContext& reply,
                         std::span<std::byte> out) noexcept {
  ReplyContext ending = reply;
  ending.keep_alive = reply.keep_alive && stream.chunked;
  HttpWriter writer{out};
  write_head(writer,
             {.content_type = application_json,
              .table_order = table_order,
              .framing = stream.chunked ? Framing::chunked : Framing::until_close},
             ending);
  const size_t head_bytes = writer.size_bytes();
  return head_bytes + encode_debug_open(stream, out.subspan(head_bytes));
}

size_t encode_debug_open(DebugStream& stream, std::span<std::byte> out) noexcept {
  ASSERT(stream.first);
  HttpWriter writer{out};
  write_chunk(writer, stream, out, [&stream](HttpWriter& data) {
    JsonWriter json{data, stream.pretty};
    json.open_object();
    json.name("Instances");
    json.open_object();
  });
  return writer.size_bytes();
}

size_t encode_debug_key(DebugStream& stream, const api::KeyState& key,
                        std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  write_chunk(writer, stream, out, [&stream, &key](HttpWriter& data) {
    JsonWriter json{data, stream.pretty, debug_depth, stream.first};
    json.escaped_name(key.key);
    write_key_state(key, json);
  });
  stream.first = false;
  return writer.size_bytes();
}

size_t encode_debug_tail(DebugStream& stream, std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  write_chunk(writer, stream, out, [&stream](HttpWriter& data) {
    JsonWriter json{data, stream.pretty, debug_depth, stream.first};
    json.close_object();
    json.close_object();
    data.text("\n");
  });
  if (stream.chunked) writer.text("0\r\n\r\n");
  return writer.size_bytes();
}

RestReply refusal_reply(uint16_t status, std::string_view cause) noexcept {
  return {.status = status, .body = cause, .content_type = text_plain};
}

}  // namespace sluice::wire
