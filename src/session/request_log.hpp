// What the log says of one connection's REST requests: a WARN line for what was refused, for
// waiters that left and for releases of unknown keys; with the switches a line for every exchange.
// Flow:   keep() with every head, then one of answered() and vanished() for each, in their order.
// Shape:  fields as gocc's (correlation-id, key; request{...}, response{...}, id, error); a
//         correlation id that the client did not send is made up when a line needs it.
// Errors: none. Values above 1 KiB are cut, headers above 4 KiB together not told: a line stays
//         below about 12 KiB.
// Lives:  one per connection; when no line can be wanted nothing is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/limits.hpp"
#include "base/time.hpp"

namespace sluice::session {

inline constexpr uint16_t client_left = 499;  // as nginx calls it; nobody sees it but the log

// Classes of status whose exchanges are told.
struct AccessLog {
  bool of_2xx = false;
  bool of_4xx = false;
  bool of_5xx = false;
};

class RequestLog {
 public:
  // What a connection keeps of heads that are not answered yet.
  static constexpr size_t memory_bytes = 2 * limits::http_header_bytes_max;

  RequestLog(std::span<char> memory, const AccessLog& access) noexcept;

  // Whether a head may be kept; if not, the requests before it have to be answered first. There is
  // always room for one.
  bool has_room(std::string_view head) const noexcept;
  void keep(std::string_view head, base::Now now) noexcept;

  // The oldest request's response, head and body as sent.
  void answered(std::span<const std::byte> response) noexcept;
  void answered(uint16_t status, uint64_t body_bytes) noexcept;

  // Its client left while it waited.
  void vanished() noexcept;

  // Of the oldest request, before it is answered.
  void refused(std::string_view cause) noexcept;
  void released_unknown() noexcept;
  void inspected_unknown() noexcept;

  // Whether released_unknown() would say anything.
  bool warns() const noexcept { return warns_; }

 private:
  struct Record;

  Record oldest() const noexcept;
  std::string_view oldest_head() const noexcept;
  void forget_oldest() noexcept;
  bool is_logged(uint16_t status) const noexcept;
  void warn(std::string_view message) noexcept;
  void log(uint16_t status, uint64_t body_bytes) noexcept;

  std::span<char> memory_;
  AccessLog access_;
  bool warns_;
  bool keeps_;
  uint32_t begin_ = 0;  // of the oldest record
  uint32_t end_ = 0;    // of the newest
};

}  // namespace sluice::session
