// What clients of HTTP/2 have seen and done, to be counted.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::simulation {

enum class Http2Event : uint8_t {
  prior_knowledge,
  upgraded,
  waiter_reset,    // the client has reset a stream that waited
  drain_goaway,    // GOAWAY with the highest stream
  drained,         // and the connection ended behind both
  late_body,       // the server has reset the stream
  upload_refused,  // 413
  head_refused,    // 431
  quota_call,      // was answered
  quota_waited,    // likewise, after it was queued
  closed_window,   // the server has reset the stream, whose answer nobody read
  refused_stream,  // behind the last GOAWAY, or many resets: seldom
};
inline constexpr uint32_t http2_events_count = 12;
using Http2Counts = std::array<uint64_t, http2_events_count>;

constexpr std::string_view http2_event_name(Http2Event event) {
  constexpr std::array<std::string_view, http2_events_count> names = {
      "http/2: prior knowledge", "http/2: upgraded",      "http/2: waiter reset",
      "http/2: GOAWAY of drain", "http/2: drained",       "http/2: late body",
      "http/2: body refused",    "http/2: head refused",  "http/2: quota call",
      "http/2: quota waited",    "http/2: closed window", "http/2: refused stream"};
  return names[static_cast<uint32_t>(event)];
}

}  // namespace sluice::simulation
