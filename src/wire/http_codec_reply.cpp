#include "base/assert.hpp"
#include "wire/content_type.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_writer.hpp"
#include "wire/key_state_json.hpp"
#include "wire/reply_value.hpp"

namespace sluice::wire {

namespace {

// How the client finds the end of a body.
enum class Framing : uint8_t { sized, chunked, until_close };

// Writes the lines of a head.
class HeadLines {
 public:
  explicit HeadLines(HttpWriter& writer) noexcept : writer_(writer) {}

  void text(const FieldName& name, std::string_view value) noexcept {
    if (value.empty()) return;
    writer_.text(name.http_1);
    writer_.text(value);
    writer_.text("\r\n");
  }
  template <typename Write>
  void number(const FieldName& name, Write&& write) noexcept {
    writer_.text(name.http_1);
    write(writer_);
    writer_.text("\r\n");
  }
  template <typename Write>
  void shared(const FieldName& name, Write&& write) noexcept {
    number(name, write);
  }
  void lines(std::string_view lines) noexcept { writer_.text(lines); }

 private:
  HttpWriter& writer_;
};

void write_connection(HttpWriter& writer, const ReplyContext& reply) noexcept {
  if (!reply.keep_alive) {
    writer.text("Connection: close\r\n");
  } else if (reply.http_1_0) {
    writer.text("Connection: keep-alive\r\n");
  }
}

void write_head(HttpWriter& writer, const ReplyHead& head, Framing framing, size_t body_bytes,
                const ReplyContext& reply) noexcept {
  writer.text(reply.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ");
  writer.status(head.status);
  writer.text(" ");
  writer.text(reason_phrase(head.status));
  writer.text("\r\n");
  HeadLines lines{writer};
  write_fields(lines, head, reply.wall_ns);
  if (framing == Framing::sized && has_length(head, reply)) {
    lines.number(field_name::content_length,
                 [&](HttpWriter& value) { value.decimal_unsigned(body_bytes); });
  }
  write_connection(writer, reply);
  if (framing == Framing::chunked) writer.text("Transfer-Encoding: chunked\r\n");
  writer.text("\r\n");
}

// A body that was written to `out` lies behind room for the head, and moves up.
size_t write_reply(const ReplyValue& value, const ReplyContext& reply,
                   std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  write_head(writer, value.head, Framing::sized, value.body.size(), reply);
  if (reply.head_only) return writer.size_bytes();
  const auto* body = reinterpret_cast<const std::byte*>(value.body.data());
  if (body == out.data() + head_bytes_max) {
    writer.append_tail(head_bytes_max, value.body.size());
  } else {
    writer.text(value.body);
  }
  return writer.size_bytes();
}

std::span<std::byte> body_room(std::span<std::byte> out) noexcept {
  ASSERT(out.size() >= head_bytes_max);
  return out.subspan(head_bytes_max);
}

// --- GET /debug, streamed ------------------------------------------------------------------

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
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

size_t encode_answer(const RestAnswer& answer, const ReplyContext& reply,
                     std::span<std::byte> out) noexcept {
  return write_reply(reply_value(answer, body_room(out)), reply, out);
}

size_t encode_reply(const RestReply& answer, const ReplyContext& reply,
                    std::span<std::byte> out) noexcept {
  return write_reply(reply_value(answer, body_room(out)), reply, out);
}

size_t encode_decision(const DecisionAnswer& answer, const ReplyContext& reply,
                       std::span<std::byte> out) noexcept {
  return write_reply(reply_value(answer, body_room(out)), reply, out);
}

size_t encode_key_state(const api::KeyState& key, bool pretty, const ReplyContext& reply,
                        std::span<std::byte> out) noexcept {
  return write_reply(reply_value(KeyAnswer{key, pretty}, body_room(out)), reply, out);
}

size_t encode_content(const RestContent& content, const ReplyContext& reply,
                      std::span<std::byte> out) noexcept {
  return write_reply(reply_value(content), reply, out);
}

size_t encode_continue(std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  writer.text("HTTP/1.1 100 Continue\r\n\r\n");
  return writer.size_bytes();
}

size_t encode_upgrade(std::span<std::byte> out) noexcept {
  HttpWriter writer{out};
  writer.text("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  return writer.size_bytes();
}

size_t encode_debug_head(DebugStream& stream, bool table_order, const ReplyContext& reply,
                         std::span<std::byte> out) noexcept {
  ReplyContext ending = reply;
  ending.keep_alive = reply.keep_alive && stream.chunked;
  HttpWriter writer{out};
  write_head(writer, {.content_type = application_json, .table_order = table_order},
             stream.chunked ? Framing::chunked : Framing::until_close, 0, ending);
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
