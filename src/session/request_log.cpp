#include "session/request_log.hpp"

#include <algorithm>
#include <boost/uuid/random_generator.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "log/log.hpp"
#include "log/time.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"
#include "wire/http_codec.hpp"
#include "wire/http_text.hpp"

namespace sluice::session {

struct RequestLog::Record {
  base::Now started;
  uint32_t head_bytes = 0;
};

namespace {

using log::Fields;
using log::Level;

constexpr size_t value_bytes_max = 1'024;
constexpr size_t headers_bytes_max = 4'096;

// Headers that must not be logged.
constexpr std::string_view secret_headers[] = {"Authorization", "Cookie",       "Set-Cookie",
                                               "X-Auth-Token",  "X-Csrf-Token", "X-Xsrf-Token"};

struct Header {
  std::string_view name;
  std::string_view value;
};

std::string_view take_line(std::string_view& rest) noexcept {
  const size_t end = std::min(rest.find("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 2, rest.size()));
  return line;
}

std::string_view take_word(std::string_view& rest) noexcept {
  const size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

Header header_of(std::string_view line) noexcept {
  const size_t colon = std::min(line.find(':'), line.size());
  return {.name = line.substr(0, colon),
          .value = wire::trim_white_space(line.substr(std::min(colon + 1, line.size())))};
}

// The head of a request, cut into what the log shows. It was parsed before.
struct Head {
  explicit Head(std::string_view text) noexcept : headers(text) {
    std::string_view line = take_line(headers);
    method = take_word(line);
    target = wire::origin_form(take_word(line));
  }

  std::string_view find(std::string_view name) const noexcept {
    for (std::string_view rest = headers; !rest.empty();) {
      const Header header = header_of(take_line(rest));
      if (wire::equals_ignoring_case(header.name, name)) return header.value;
    }
    return {};
  }

  std::string_view method;
  std::string_view target;
  std::string_view headers;  // all lines
};

// "x-request-ID" is logged as "X-Request-Id", as in Go.
std::string canonical_name(std::string_view name) {
  std::string text{name};
  bool begins = true;
  for (char& c : text) {
    if (begins && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!begins && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    begins = c == '-';
  }
  return text;
}

bool is_public(std::string_view name) noexcept {
  if (name.empty() || wire::equals_ignoring_case(name, "Host")) return false;
  return std::none_of(std::begin(secret_headers), std::end(secret_headers),
                      [name](auto secret) { return wire::equals_ignoring_case(name, secret); });
}

// The part of a value that is logged.
std::string loggable(std::string_view text) {
  return text::shortened(text, value_bytes_max);
}

Fields header_fields(std::string_view headers) {
  Fields fields = Fields::object();
  for (size_t bytes = 0; !headers.empty() && bytes <= headers_bytes_max;) {
    const Header header = header_of(take_line(headers));
    if (!is_public(header.name)) continue;
    fields[canonical_name(header.name)].push_back(loggable(header.value));
    bytes += header.name.size() + header.value.size();
  }
  return fields;
}

std::string decoded(std::string_view text) {
  std::string buffer(text.size(), '\0');
  return loggable(wire::DecodeBuffer{buffer}.percent_decode(text).value_or(text));
}

// The key, decoded as for the decision; empty when the path has none.
std::string key_of(const Head& head) {
  return std::string{wire::trim_white_space(decoded(wire::path_of(head.target).key))};
}

// The parameters of a request that was routed; for other requests gocc logs none.
Fields param_fields(const wire::RestPath& path) {
  Fields fields = Fields::object();
  if (path.route.ends_with("/:id")) fields["id"] = decoded(path.id);
  if (path.route.find("/:key") != path.route.npos) fields["key"] = decoded(path.key);
  return fields;
}

// What the client announced; bodies are thrown away.
int32_t content_bytes(const Head& head) noexcept {
  return text::parse_int32(head.find("Content-Length")).value_or(0);
}

Fields request_fields(const Head& head, const wire::RestPath& path, bool routed,
                      int64_t started_wall_ns) {
  const size_t question_mark = std::min(head.target.find('?'), head.target.size());
  const log::Format format = log::format();
  const Fields params = routed ? param_fields(path) : Fields::object();
  Fields fields{
      {"time", log::time_value(format, started_wall_ns)},
      {"method", loggable(head.method)},
      {"host", loggable(head.find("Host"))},
      {"path", decoded(head.target.substr(0, question_mark))},
      {"query", loggable(head.target.substr(std::min(question_mark + 1, head.target.size())))},
      {"params", log::map_value(format, params)},
      {"route", path.route},
      {"referer", loggable(head.find("Referer"))},
      {"length", content_bytes(head)}};
  if (format != log::Format::system_default) fields["header"] = header_fields(head.headers);
  return fields;
}

// The phrase of a 4xx or 5xx is the message.
std::string_view message_of(uint16_t status) noexcept {
  if (status == client_left) return {};
  return status < 400 ? "Incoming request" : wire::reason_phrase(status);
}

Level level_of(uint16_t status) noexcept {
  if (status < 400) return Level::info;
  return status < 500 ? Level::warning : Level::error;
}

std::string correlation_id(const Head& head) {
  const std::string_view given = head.find("X-Correlation-ID");
  if (!given.empty()) return loggable(given);
  thread_local boost::uuids::random_generator_mt19937 random;
  return "gcc-" + boost::uuids::to_string(random());
}

}  // namespace

RequestLog::RequestLog(std::span<char> memory, const AccessLog& access) noexcept
    : memory_(memory), access_(access), warns_(log::wants(Level::warning)) {
  access_.of_2xx = access.of_2xx && log::wants(Level::info);
  access_.of_4xx = access.of_4xx && log::wants(Level::warning);
  access_.of_5xx = access.of_5xx && log::wants(Level::error);
  keeps_ = warns_ || access_.of_2xx || access_.of_4xx || access_.of_5xx;
}

bool RequestLog::has_room(std::string_view head) const noexcept {
  const size_t used_bytes = end_ - begin_;
  return !keeps_ || used_bytes == 0 || memory_.size() - used_bytes >= sizeof(Record) + head.size();
}

void RequestLog::keep(std::string_view head, base::Now now) noexcept {
  if (!keeps_) return;
  if (begin_ == end_) begin_ = end_ = 0;
  const size_t bytes = sizeof(Record) + head.size();
  if (memory_.size() - end_ < bytes) move_down();
  ASSERT(memory_.size() - end_ >= bytes);
  const Record record{.started = now, .head_bytes = static_cast<uint32_t>(head.size())};
  std::memcpy(memory_.data() + end_, &record, sizeof record);
  std::memcpy(memory_.data() + end_ + sizeof record, head.data(), head.size());
  end_ += static_cast<uint32_t>(bytes);
}

void RequestLog::move_down() noexcept {
  std::memmove(memory_.data(), memory_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

RequestLog::Request RequestLog::oldest() const noexcept {
  if (memory_.empty()) return only_;
  ASSERT(begin_ < end_);
  Record record;
  std::memcpy(&record, memory_.data() + begin_, sizeof record);
  const char* const head = memory_.data() + begin_ + sizeof record;
  return {.started = record.started, .head = {head, record.head_bytes}};
}

void RequestLog::forget_oldest() noexcept {
  if (!memory_.empty()) begin_ += static_cast<uint32_t>(sizeof(Record) + oldest().head.size());
}

bool RequestLog::is_logged(uint16_t status) const noexcept {
  if (status < 400) return access_.of_2xx;
  return status < 500 ? access_.of_4xx : access_.of_5xx;
}

bool RequestLog::answered(std::span<const std::byte> response) noexcept {
  if (!keeps_) return false;
  const std::string_view text{reinterpret_cast<const char*>(response.data()), response.size()};
  constexpr size_t status_at = std::string_view{"HTTP/1.1 "}.size();
  ASSERT(text.size() > status_at + 3);
  const auto digit = [&](size_t at) { return text[status_at + at] - '0'; };
  const auto status = static_cast<uint16_t>(100 * digit(0) + 10 * digit(1) + digit(2));
  const bool logs = is_logged(status);
  if (logs) log(status, text.size() - (text.find("\r\n\r\n") + 4));
  forget_oldest();
  return logs;
}

bool RequestLog::answered(uint16_t status, uint64_t body_bytes) noexcept {
  if (!keeps_) return false;
  const bool logs = is_logged(status);
  if (logs) log(status, body_bytes);
  forget_oldest();
  return logs;
}

void RequestLog::abandoned() noexcept {
  if (!keeps_) return;
  if (warns_) warn("client gave up on request. context cancelled before receiving response");
  answered(client_left, 0);
}

void RequestLog::refused(std::string_view cause) noexcept {
  if (warns_) warn(cause);
}

void RequestLog::released_unknown() noexcept {
  if (warns_) warn("Received release request for unknown instance");
}

void RequestLog::inspected_unknown() noexcept {
  if (!warns_) return;
  const std::string key = decoded(wire::path_of(Head{oldest().head}.target).key);
  log::warning("Received debug snapshot request for unknown instance", {{"key", key}});
  log::warning("Instance not found", {{"key", key}});
}

void RequestLog::warn(std::string_view message) noexcept {
  const Head head{oldest().head};
  log::warning(message, {{"correlation-id", correlation_id(head)}, {"key", key_of(head)}});
}

void RequestLog::log(uint16_t status, uint64_t body_bytes) noexcept {
  const Request request = oldest();
  const Head head{request.head};
  const wire::RestPath path = wire::path_of(head.target);
  const base::Now now = log::now();
  const log::Format format = log::format();
  const bool unknown_path = status == 404 && path.route.empty();
  const bool routed = !unknown_path && status != 405 && head.method != "OPTIONS";
  Fields fields{
      {"request", request_fields(head, path, routed, request.started.wall_ns)},
      {"response",
       {{"time", log::time_value(format, now.wall_ns)},
        {"latency", log::duration_value(format, now.monotonic_ns - request.started.monotonic_ns)},
        {"status", status},
        {"length", body_bytes}}}};
  const std::string_view id = head.find("X-Request-Id");
  if (!id.empty()) fields["id"] = loggable(id);
  if (status == 405 || unknown_path) {
    fields["error"] = log::map_value(
        format, {{"code", status}, {"internal", nullptr}, {"message", message_of(status)}});
  }
  log::write(level_of(status), message_of(status), fields);
}

}  // namespace sluice::session
