// The sessions whose requests all nodes answer (?cluster=true).
// Flow:   a session -> ask() -> peer::NodeQuestions -> deliver() -> the session, with one text.
// Errors: a session that has ended gets no reply.
// Bounds: a turn delivers one text.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/node_questions.hpp"
#include "server/session_table.hpp"
#include "server/task_pool.hpp"

namespace sluice::server {

class NodeQueries {
 public:
  explicit NodeQueries(SessionTable& sessions) : sessions_(sessions) {}

  // Without it nobody can be asked.
  void attach(peer::NodeQuestions& questions) noexcept { questions_ = &questions; }
  bool has_room() const noexcept { return questions_ != nullptr && questions_->has_room(); }
  void ask(const session::Session& session, uint64_t id, std::string_view method,
           std::string_view target) noexcept;
  void deliver() noexcept;

 private:
  struct Open {
    uint64_t question;
    Asker asker;
  };

  SessionTable& sessions_;
  peer::NodeQuestions* questions_ = nullptr;
  std::vector<Open> open_;
};

}  // namespace sluice::server
