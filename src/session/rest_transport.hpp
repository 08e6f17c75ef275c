// The connection as one of its REST exchanges sees it.
// Flow:   RestExchange -> RestTransport -> bytes of HTTP/1.1, and questions to the shards.
// Shape:  an exchange ends with one answer(), or with begin_keys(), a write_key() for each key and
//         end_keys(). A connection with many exchanges has a transport for each.
// Lives:  as long as its exchange. Views in arguments are valid until the call returns.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "wire/rest_answer.hpp"

namespace sluice::session {

struct AnswerOptions {
  uint64_t reservation = 0;  // that the answer names; 0: none
  bool closes = false;       // ends the connection after it: another shard already drains
};

class RestTransport {
 public:
  virtual void answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept = 0;

  // A GET /debug with more keys than one answer holds.
  virtual void begin_keys(bool pretty, bool table_order) noexcept = 0;
  virtual void write_key(const api::KeyState& key) noexcept = 0;
  virtual void end_keys() noexcept = 0;
  // Whether the peer reads fast enough for more keys.
  virtual bool has_room() const noexcept = 0;

  // Whether another query may be asked. False: the connection is held until then, and end_turn() of
  // the exchange follows.
  virtual bool make_query_room() noexcept = 0;
  // As in Backend, on behalf of this exchange: its on_...() gets the reply, now or later.
  virtual void inspect(std::string_view key) noexcept = 0;
  virtual void page(uint64_t cursor, uint32_t keys_max) noexcept = 0;
  virtual void count_keys() noexcept = 0;
  virtual void metrics() noexcept = 0;
  virtual void top(uint32_t keys_max) noexcept = 0;
  virtual void ask_nodes(std::string_view method, std::string_view target) noexcept = 0;
  virtual void ask(api::QuotaBatch& batch) noexcept = 0;

 protected:
  ~RestTransport() = default;
};

}  // namespace sluice::session
