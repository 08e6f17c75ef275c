#include "wire/rest_answer.hpp"

#include "base/overloaded.hpp"

namespace sluice::wire {

size_t answer_bytes_max(const RestAnswer& answer) noexcept {
  return std::visit(base::Overloaded{
                        [](const RestReply&) { return rest_head_bytes_max; },
                        [](const RestContent& content) {
                          return rest_head_bytes_max + content.headers.size() + content.body.size();
                        },
                        [](const DecisionAnswer& decision) {
                          return decision_bytes_max(decision.key.size(), decision.json);
                        },
                        [](const KeyAnswer& key) {
                          return rest_head_bytes_max +
                                 inspected_key_bytes_max(key.state.key.size());
                        },
                    },
                    answer);
}

}  // namespace sluice::wire
