// The requests under way that all nodes answer, this one included: it asks itself over its REST
// port, as any other.
// Flow:   ask() -> a NodeFetch to each node -> take_answered() -> the session that asked.
// Errors: see NodeFetch; the time is --peer-timeout-millis, and limits::durable_wait_ms_max more
//         where the nodes change something.
// Bounds: questions_max at a time; bytes_max of all answers to one, which is what its client can be
//         sent. The node whose answer does not fit any more has not answered.
// Lives:  one per worker, one thread only. Off the request path: answers allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "peer/address_book.hpp"
#include "peer/answer_check.hpp"
#include "peer/context.hpp"
#include "peer/node_fetch.hpp"

namespace sluice::peer {

class NodeQuestions {
 public:
  static constexpr uint32_t questions_max = 4;
  static constexpr size_t bytes_max = limits::reply_bytes_max - limits::http_header_bytes_max;
  static uint32_t connections_max(uint32_t nodes_count) noexcept {
    return questions_max * nodes_count;
  }

  NodeQuestions(Context& context, AddressBook& addresses);

  bool has_room() const noexcept { return !is_closing_ && questions_.size() < questions_max; }
  // `target`: as the client sent it. Returns the question's number.
  uint64_t ask(std::string_view method, std::string_view target);

  struct Answered {
    uint64_t question = 0;
    std::vector<wire::NodeAnswer> answers;  // in the list's order
  };
  // A question that has all answers, or their reasons, once. A call checks at most
  // AnswerCheck::bytes_max of them; what is left is checked by the next calls.
  std::optional<Answered> take_answered();
  // take_answered() has something to do.
  bool has_answered() const noexcept;

  void on_tick() noexcept;
  // After a connection has gone.
  void go_on() noexcept;
  void close() noexcept;
  bool is_closed() const noexcept { return questions_.empty(); }

 private:
  struct Question {
    uint64_t number = 0;
    size_t room = bytes_max;                          // what the answers may still have
    std::vector<std::unique_ptr<NodeFetch>> fetches;  // by node
    std::vector<wire::NodeAnswer> answers;            // likewise, once all are there
    AnswerCheck check;
    bool is_taken = false;

    bool is_answered() const noexcept {
      return std::ranges::all_of(fetches, [](const auto& one) { return one->is_answered(); });
    }
    bool is_over() const noexcept {
      return std::ranges::all_of(fetches, [](const auto& one) { return one->is_over(); });
    }
  };

  std::optional<io::PeerAddress> address_of(uint32_t node) const;
  int64_t timeout_ms(std::string_view method) const noexcept;
  void take_answers(Question& question);

  Context& context_;
  AddressBook& addresses_;
  std::list<Question> questions_;
  uint64_t count_ = 0;
  bool is_closing_ = false;
};

}  // namespace sluice::peer
