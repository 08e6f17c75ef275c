// An HTTP request on the native port gets an answer that its sender can read.
// Flow:   read_frame() refuses the first bytes -> is_http_request() -> encode_wrong_port().
// Shape:  docs/protocol.md, "Hello and Welcome".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::wire {

inline constexpr size_t wrong_port_bytes_max = 512;

// Whether `bytes` begin as a request of HTTP/1 does: with a method. The connection preface of
// HTTP/2, whose sender wants frames, does not count.
bool is_http_request(std::span<const std::byte> bytes) noexcept;

// 400 with a text that names the port of REST, which HEAD does not get. `wall_ns` is the time of
// its Date. Returns the size in bytes, at most wrong_port_bytes_max.
size_t encode_wrong_port(std::span<const std::byte> request, uint16_t rest_port, int64_t wall_ns,
                         std::span<std::byte> out) noexcept;

}  // namespace sluice::wire
