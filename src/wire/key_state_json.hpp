// A key's state as gocc's JSON shows it.
#pragma once

#include <cstdint>
#include <span>

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

// The first in the queue, who is served next.
inline void write_waiters(std::span<const uint32_t> costs, JsonWriter& json) noexcept {
  json.name("Waiters");
  json.open_array();
  uint32_t position = 0;
  for (const uint32_t cost : costs) {
    json.open_object();
    json.field("Position", ++position);
    json.field("Cost", cost);
    json.close_object();
  }
  json.close_array();
}

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
  if (!key.waiting_costs.empty()) write_waiters(key.waiting_costs, json);
  json.field("Found", true);
  json.close_object();
}

}  // namespace sluice::wire
