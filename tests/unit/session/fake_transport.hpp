// A transport without a connection: records the answers and queries of an exchange.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/overloaded.hpp"
#include "session/rest_transport.hpp"

namespace sluice::session {

class FakeTransport final : public RestTransport {
 public:
  void answer(const wire::RestAnswer& answer, const AnswerOptions& options) noexcept override {
    answers.push_back(text_of(answer));
    last_options = options;
  }
  void begin_keys(bool pretty, bool table_order) noexcept override {
    answers.emplace_back(pretty ? "pretty" : "keys");
    if (table_order) answers.back() += " in table order";
  }
  void write_key(const api::KeyState& key) noexcept override {
    answers.back().append(" ").append(key.key);
    if (--room == 0) is_full = true;
  }
  void end_keys() noexcept override { answers.back() += " end"; }
  bool has_room() const noexcept override { return !is_full; }

  bool make_query_room() noexcept override { return has_query_room; }
  void inspect(std::string_view key) noexcept override { note("inspect ", key); }
  void page(uint64_t cursor, uint32_t) noexcept override {
    note("page ", std::to_string(cursor));
    if (reply_to_page) reply_to_page();
  }
  void count_keys() noexcept override { note("count", ""); }
  void metrics() noexcept override { note("metrics", ""); }
  void top(uint32_t keys_max) noexcept override { note("top ", std::to_string(keys_max)); }
  void ask_nodes(std::string_view method, std::string_view target) noexcept override {
    note("nodes ", std::string(method).append(" ").append(target));
  }
  void ask(api::QuotaBatch& asked_batch) noexcept override {
    note("ask", "");
    asked_batch.own_texts();  // the test reads it when the request is gone
    asked_batch.make_answers();
    batch = &asked_batch;
  }

  std::vector<std::string> answers;  // "200 body"
  std::vector<std::string> asked;
  api::QuotaBatch* batch = nullptr;  // the last batch
  AnswerOptions last_options;
  int room = 0;  // keys until the peer has to read; 0: no bound
  bool is_full = false;
  bool has_query_room = true;
  std::function<void()> reply_to_page;  // replies at once; if unset, the test replies later

 private:
  void note(const char* what, std::string_view of) { asked.push_back(what + std::string(of)); }

  static std::string text_of(const wire::RestAnswer& answer) {
    const auto text = [](uint16_t status, std::string_view body) {
      return std::to_string(status).append(" ").append(body);
    };
    return std::visit(
        base::Overloaded{
            [&](const wire::RestReply& reply) { return text(reply.status, reply.body); },
            [&](const wire::RestContent& content) { return text(content.status, content.body); },
            [&](const wire::DecisionAnswer& decision) {
              return std::string(api::verdict_name(decision.verdict))
                  .append(" ")
                  .append(decision.key)
                  .append(decision.json ? " json " : " plain ")
                  .append(std::to_string(decision.detail.request_id));
            },
            [&](const wire::KeyAnswer& key) {
              return std::string(key.state.key).append(key.pretty ? " pretty" : " plain");
            },
        },
        answer);
  }
};

}  // namespace sluice::session
