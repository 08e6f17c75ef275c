#include "server/node_queries.hpp"

#include <algorithm>
#include <string>

#include "base/assert.hpp"
#include "wire/content_type.hpp"

namespace sluice::server {

void NodeQueries::ask(const session::Session& session, uint64_t id, std::string_view method,
                      std::string_view target) noexcept {
  ASSERT(has_room());
  open_.push_back({questions_->ask(method, target), Asker{session.connection().socket(), id}});
}

void NodeQueries::deliver() noexcept {
  if (open_.empty()) return;
  if (const auto answered = questions_->take_answered()) {
    const auto at = std::ranges::find(open_, answered->question, &Open::question);
    ASSERT(at != open_.end());
    const Asker asker = at->asker;
    open_.erase(at);
    session::Session* const session = sessions_.find(asker.socket);
    if (session != nullptr && !session->ended()) {
      session->on_text(asker.id, wire::application_json,
                       wire::nodes_text(answered->answers, peer::NodeQuestions::bytes_max));
    }
  }
  questions_->go_on();
}

}  // namespace sluice::server
