// One entry that a client has asked for, and what has become of it.
// Shape:  every entry can be recognised wherever it is decided: by its key, which no other entry
//         has, or by the number that it sets for its key's queue, far more than ever wait.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/entry.hpp"

namespace sluice::simulation {

using CallId = uint32_t;
inline constexpr uint32_t call_mark = 1'000'000;  // added to ids in maxRequestsInQueue

struct CallWindow {
  uint32_t node = 0;
  uint64_t start = 0;  // which of the node's
  std::string key;
  int64_t end_ms = 0;
  auto operator<=>(const CallWindow&) const = default;
};

struct CallDecision {
  uint32_t node = 0;
  uint64_t start = 0;
  api::Verdict verdict{};
  api::Detail detail;
  int64_t at_ns = 0;
  std::optional<CallWindow> window;     // if it was approved, at once or later
  std::optional<api::Verdict> outcome;  // of a waiter
  // When the verdict was known, or the outcome: by the time that the entry node has run.
  int64_t known_served_ns = 0;
  bool came_too_late = false;  // the outcome: the entry node knew that its client had left
};

struct Call {
  CallId id = 0;
  CallId asked_id = 0;  // by which it is recognised
  // The record of what its owner decides and nobody receives, because the entry node has stood in.
  CallId lost_id = 0;
  std::string key;
  uint32_t entry_node = 0;
  uint32_t connection = 0;
  CallId first_of_frame = 0;  // the first call of the frame that it was sent in
  api::Op op{};
  uint32_t cost = 1;
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;
  int64_t asked_ns = 0;
  int64_t asked_served_ns = 0;  // by the time that the entry node has run

  std::optional<CallDecision> decision;
  std::optional<api::Verdict> answer;  // that the client has received; its last one
  bool is_queued = false;              // the client knows that it waits
  bool by_policy = false;              // the answer
  bool may_be_policy = false;          // the answer, which reads as the decision does
  bool has_left = false;               // the client has ended the connection
  // Since when it must not wait any more: withdrawn, left, or answered by the policy.
  int64_t gone_ns = -1;
  int64_t gone_served_ns = 0;  // by the time that the entry node has run
  // Where it is decided nobody knows which one it is.
  bool is_anonymous() const { return op == api::Op::release && key.find('-') == std::string::npos; }
  bool is_over() const { return has_left || answer.has_value(); }
};

}  // namespace sluice::simulation
