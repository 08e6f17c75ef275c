// What clients of a fleet know of its quotas: which reservations are theirs, and what they were
// admitted to consume. The limits must hold for that at every moment.
// Shape:  a client knows a reservation as open from the answer that names it until it asks for its
//         end, or leaves when it is bound to its connection. The owner has it open for longer, at
//         both ends; so what clients know never exceeds a limit.
//         A node that crashes has forgotten all that was used of its subjects.
// Lives:  one per run.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/node_hash.hpp"

namespace sluice::simulation {

inline constexpr uint64_t slots_max = 3;       // open reservations of a subject
inline constexpr uint64_t tokens_max = 1'500;  // that a subject may consume

class QuotaOracle {
 public:
  explicit QuotaOracle(uint32_t nodes) : nodes_(nodes) {}

  uint32_t owner_of(const std::string& subject) const {
    return proto::subject_node(subject, nodes_);
  }
  uint64_t starts_of(const std::string& subject) const {
    const auto found = starts_.find(owner_of(subject));
    return found == starts_.end() ? 0 : found->second;
  }

  // `starts`: of the subject's owner, when it was asked for.
  void on_reserved(const std::string& subject, uint64_t reservation, uint64_t starts) {
    if (starts != starts_of(subject)) return;  // nobody knows whether that was before the crash
    ++reserved_;
    if (!open_[subject].insert(reservation).second) fail("a reservation was given twice");
    if (open_[subject].size() > slots_max) fail(subject + " has more open reservations than slots");
  }
  void on_ending(const std::string& subject, uint64_t reservation) {
    open_[subject].erase(reservation);
  }
  // An id is consumed once, however often it is asked for.
  void on_consumed(const std::string& subject, uint64_t tokens, const std::string& id,
                   uint64_t starts) {
    if (starts != starts_of(subject)) return;
    if (!id.empty() && !ids_.insert(id + " of " + subject).second) return;
    ++consumed_;
    consumed_tokens_[subject] += tokens;
    if (consumed_tokens_[subject] > tokens_max) fail(subject + " has consumed more than its limit");
  }
  void on_crash(uint32_t node) {
    ++starts_[node];
    for (auto& [subject, reservations] : open_) {
      if (owner_of(subject) == node) reservations.clear();
    }
    for (auto& [subject, tokens] : consumed_tokens_) {
      if (owner_of(subject) == node) tokens = 0;
    }
  }

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  const std::string& failure() const { return failure_; }
  uint64_t reserved() const { return reserved_; }
  uint64_t consumed() const { return consumed_; }
  const std::map<std::string, uint64_t>& consumed_tokens() const { return consumed_tokens_; }

 private:
  const uint32_t nodes_;
  std::map<uint32_t, uint64_t> starts_;  // by node
  std::map<std::string, std::set<uint64_t>> open_;
  std::map<std::string, uint64_t> consumed_tokens_;
  std::set<std::string> ids_;
  uint64_t reserved_ = 0, consumed_ = 0;
  std::string failure_;
};

}  // namespace sluice::simulation
