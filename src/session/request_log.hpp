// Logs one connection's REST requests: a WARN line for each that was refused, for each waiter that
// left and for each release of an unknown key; with the switches a line for every exchange.
// Flow:   keep() with every head, then one of answered() and abandoned() for each, in their order.
// Shape:  fields as gocc's (correlation-id, key; request{...}, response{...}, id, error); a
//         correlation id that the client did not send is made up when a line needs it.
// Errors: none. Values above 1 KiB are cut, headers above 4 KiB together are left out: a line
//         stays below about 12 KiB.
// Lives:  one per connection of HTTP/1.1, one per stream of HTTP/2; it keeps nothing when switches
//         and level allow no line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/limits.hpp"
#include "base/time.hpp"

namespace sluice::session {

inline constexpr uint16_t client_left = 499;  // nginx's status; only the log shows it

// Which exchanges are logged, by class of status.
struct AccessLog {
  bool of_2xx = false;
  bool of_4xx = false;
  bool of_5xx = false;
};

class RequestLog {
 public:
  // Memory of a connection for the heads of requests that are not answered yet.
  static constexpr size_t memory_bytes = 2 * limits::http_header_bytes_max;

  RequestLog(std::span<char> memory, const AccessLog& access) noexcept;

  // Whether there is room for a head; if not, the requests before it have to be answered first.
  // There is always room for one.
  bool has_room(std::string_view head) const noexcept;
  void keep(std::string_view head, base::Now now) noexcept;
  // For a log of one request, made without memory: the head stays where it is.
  void keep_view(std::string_view head, base::Now now) noexcept { only_ = {now, head}; }

  // The oldest request's response, head and body as sent.
  // Returns whether it wrote a line.
  bool answered(std::span<const std::byte> response) noexcept;
  bool answered(uint16_t status, uint64_t body_bytes) noexcept;

  // The client of the oldest request left while it waited.
  void abandoned() noexcept;

  // For the oldest request, before it is answered.
  void refused(std::string_view cause) noexcept;
  void released_unknown() noexcept;
  void inspected_unknown() noexcept;

  // Whether released_unknown() would log anything.
  bool warns() const noexcept { return warns_; }

 private:
  struct Record;
  struct Request {
    base::Now started;
    std::string_view head;
  };

  Request oldest() const noexcept;
  void forget_oldest() noexcept;
  void move_down() noexcept;
  bool is_logged(uint16_t status) const noexcept;
  void warn(std::string_view message) noexcept;
  void log(uint16_t status, uint64_t body_bytes) noexcept;

  std::span<char> memory_;
  Request only_;  // if there is no memory
  AccessLog access_;
  bool warns_;
  bool keeps_;
  uint32_t begin_ = 0;  // of the oldest record
  uint32_t end_ = 0;    // of the newest
};

}  // namespace sluice::session
