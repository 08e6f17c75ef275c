// A whole answer to a REST request as a value, independent of the HTTP version that writes it.
// Flow:   an exchange ends with a RestAnswer -> encode_answer() -> the bytes of HTTP/1.1.
// Shape:  docs/rest.md. GET /debug of many keys is no value: the session streams it (DebugStream).
// Lives:  an answer's views must be valid until it is written.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <variant>

#include "api/entry.hpp"
#include "wire/http_codec.hpp"

namespace sluice::wire {

// The answer to a decided /rate request. `detail` has the values of RateLimit, RateLimit-Policy and
// Retry-After; of an approved request the body is its request id. A JSON denial shows the key. A
// release is answered by RestReply{.status = 200}.
struct DecisionAnswer {
  api::Verdict verdict = api::Verdict::none;
  api::Detail detail;
  std::string_view key;
  bool json = false;
  // Of owner_unreachable: its name, if it is a gocc, which takes no such request.
  std::string_view unfit_owner;
};

// GET /debug/:key
struct KeyAnswer {
  const api::KeyState& state;
  bool pretty = false;
};

using RestAnswer = std::variant<RestReply, RestContent, DecisionAnswer, KeyAnswer>;

// The bound of the longest head together with a body that shows no key.
inline constexpr size_t rest_head_bytes_max = 4'096;

size_t answer_bytes_max(const RestAnswer& answer) noexcept;

// The bound of a DecisionAnswer with any verdict.
constexpr size_t decision_bytes_max(size_t key_bytes, bool json) noexcept {
  return rest_head_bytes_max + (json ? 6 * key_bytes : 0);
}

// Writes the answer at the start of `out`, which has at least answer_bytes_max(), and returns its
// size in bytes.
size_t encode_answer(const RestAnswer& answer, const ReplyContext& head,
                     std::span<std::byte> out) noexcept;
size_t encode_decision(const DecisionAnswer& answer, const ReplyContext& head,
                       std::span<std::byte> out) noexcept;

}  // namespace sluice::wire
