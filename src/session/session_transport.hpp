// Asks the shards on behalf of an exchange of a session; how answers are written is the dialect's.
// Flow:   RestExchange -> here -> Backend; the replies go to the session, with this id.
// Lives:  as long as its exchange.
#pragma once

#include <cstdint>
#include <string_view>

#include "session/context.hpp"
#include "session/rest_transport.hpp"
#include "session/session.hpp"

namespace sluice::session {

class SessionTransport : public RestTransport {
 public:
  bool make_query_room() noexcept final { return session_.make_query_room(); }
  void inspect(std::string_view key) noexcept final {
    context_.backend.inspect(session_, query_id_, key);
  }
  void page(uint64_t cursor, uint32_t keys_max) noexcept final {
    context_.backend.page(session_, query_id_, cursor, keys_max);
  }
  void count_keys() noexcept final { context_.backend.count_keys(session_, query_id_); }
  void metrics() noexcept final { context_.backend.metrics(session_, query_id_); }
  void top(uint32_t keys_max) noexcept final {
    context_.backend.top(session_, query_id_, keys_max);
  }
  void ask_nodes(std::string_view method, std::string_view target) noexcept final {
    context_.backend.ask_nodes(session_, query_id_, method, target);
  }
  void ask(api::QuotaBatch& batch) noexcept final {
    context_.backend.ask(session_, query_id_, batch);
  }

 protected:
  SessionTransport(Context& context, Session& session, uint64_t query_id) noexcept
      : context_(context), session_(session), query_id_(query_id) {}
  ~SessionTransport() = default;

  Context& context_;
  Session& session_;

 private:
  const uint64_t query_id_;  // among those of its session
};

}  // namespace sluice::session
