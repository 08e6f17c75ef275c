// What clients know of a server that keeps its state: the subjects and their quotas, reservations
// that were answered, and which changes of quotas must have outlived a crash.
// Lives:  one per run, over all its starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "io/sim/random.hpp"
#include "policy/quota_book.hpp"

namespace sluice::simulation {

// The changes of one subject's quota, each known by the amount of its limit `mark`.
class QuotaHistory {
 public:
  explicit QuotaHistory(uint64_t first) { changes_[0] = {.mark = first, .before = {}}; }

  // The change's number.
  uint64_t asked(uint64_t mark);
  // It is durable: what was answered before it was asked is over.
  void done(uint64_t number);
  // Nothing was changed.
  void refused(uint64_t number) { changes_.erase(number); }
  // It was changed in memory.
  void half_done(uint64_t number) { changes_.at(number).is_answered = true; }

  bool may_be(uint64_t mark) const;
  // After a restart: this is what it was.
  void is_now(uint64_t mark);

 private:
  struct Change {
    uint64_t mark = 0;
    bool is_answered = true;
    std::vector<uint64_t> before;  // over once this is done
  };

  std::map<uint64_t, Change> changes_;  // that may be the last one
  uint64_t last_ = 0;
};

class StateBooks {
 public:
  explicit StateBooks(io::Random& random);

  const std::vector<std::string>& subjects() const { return subjects_; }
  const policy::QuotaRules& rules() const { return rules_; }

  std::vector<std::string> draw_call();
  const std::string& draw_subject() { return subjects_[random_.below(subjects_.size())]; }
  // Its `mark` is one that was never put.
  api::Quota draw_quota();
  static uint64_t mark_of(const api::Quota& quota);
  static constexpr uint64_t first_mark = 1'000'000'000;  // of the policy's quotas

  void reserved(uint64_t id, const std::vector<std::string>& subjects);
  uint64_t draw_reservation();  // 0: there is none
  // Empty: it is unknown.
  std::vector<std::string> subjects_of(uint64_t id) const;

  QuotaHistory& history(const std::string& subject) { return histories_.at(subject); }

 private:
  io::Random& random_;
  std::vector<std::string> subjects_;
  policy::QuotaRules rules_;
  std::map<std::string, QuotaHistory> histories_;
  std::map<uint64_t, std::vector<std::string>> reservations_;
  std::vector<uint64_t> ids_;  // in the order of their answers
  uint64_t next_mark_ = first_mark;
};

}  // namespace sluice::simulation
