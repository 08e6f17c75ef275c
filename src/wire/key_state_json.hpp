// A key's state as gocc's JSON shows it.
#pragma once

#include "api/entry.hpp"
#include "text/json_writer.hpp"
#include "wire/http_writer.hpp"

namespace sluice::wire {

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

inline void write_key_state(const api::KeyState& key, JsonWriter& json) noexcept {
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

}  // namespace sluice::wire
