// The requests under way that all nodes answer, this one included: it asks itself over its REST
// port, as any other.
// Flow:   ask() -> a NodeFetch to each node -> take_answered() -> the session that asked.
// Bounds: questions_max at a time; answer_bytes_max() of each node's answer.
// Lives:  one per worker, one thread only. Off the request path: answers allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "peer/address_book.hpp"
#include "peer/context.hpp"
#include "peer/node_fetch.hpp"

namespace sluice::peer {

class NodeQuestions {
 public:
  static constexpr uint32_t questions_max = 4;
  static constexpr size_t bytes_max = 64 * 1024 * 1024;  // of all answers to one question
  static uint32_t connections_max(uint32_t nodes_count) noexcept {
    return questions_max * nodes_count;
  }
  static size_t answer_bytes_max(size_t nodes_count) noexcept {
    return std::min<size_t>(limits::reply_bytes_max, bytes_max / nodes_count);
  }

  NodeQuestions(Context& context, const AddressBook& addresses);

  bool has_room() const noexcept { return !is_closing_ && questions_.size() < questions_max; }
  // `target`: as the client sent it. Returns the question's number.
  uint64_t ask(std::string_view method, std::string_view target);

  struct Answered {
    uint64_t question = 0;
    std::vector<wire::NodeAnswer> answers;  // in the list's order
  };
  // A question that has all answers, or their reasons, once.
  std::optional<Answered> take_answered();
  bool has_answered() const noexcept;

  void on_tick() noexcept;
  // After a connection has gone.
  void go_on() noexcept;
  void close() noexcept;
  bool is_closed() const noexcept { return questions_.empty(); }

 private:
  struct Question {
    uint64_t number = 0;
    std::vector<std::unique_ptr<NodeFetch>> fetches;  // by node
    bool is_taken = false;

    bool is_answered() const noexcept {
      return std::ranges::all_of(fetches, [](const auto& one) { return one->is_answered(); });
    }
    bool is_over() const noexcept {
      return std::ranges::all_of(fetches, [](const auto& one) { return one->is_over(); });
    }
  };

  std::optional<io::PeerAddress> address_of(uint32_t node) const;

  Context& context_;
  const AddressBook& addresses_;
  std::vector<Question> questions_;
  uint64_t count_ = 0;
  bool is_closing_ = false;
};

}  // namespace sluice::peer
