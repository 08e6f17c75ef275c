// A call of a client that charges subjects, and what each of them may have charged for it.
// Shape:  what callers have been answered leaves a least and a most. A node that starts again may
//         have any state that it had since its last cut, so that all values since then stay
//         possible.
// Units:  tokens; nanoseconds of the network's clock.
// Lives:  from its first question until the end of the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/quota.hpp"
#include "base/time.hpp"

namespace sluice::simulation {

using Subjects = std::vector<std::string>;  // of one call: of any nodes

struct Charged {
  uint64_t least = 0, most = 0;

  static Charged exactly(uint64_t tokens) { return {.least = tokens, .most = tokens}; }
  Charged or_else(Charged other) const {
    return {.least = std::min(least, other.least), .most = std::max(most, other.most)};
  }
};

// Of one subject.
class ChargeHistory {
 public:
  Charged now() const { return steps_.back().charged; }
  int64_t since_ns() const { return steps_.back().since_ns; }
  void set(int64_t now_ns, Charged charged) {
    steps_.push_back({.since_ns = now_ns, .charged = charged});
  }
  // All that it has been since then.
  Charged since(int64_t kept_ns) const {
    Charged all = steps_.back().charged;
    for (size_t step = steps_.size() - 1; step > 0 && steps_[step].since_ns > kept_ns; --step) {
      all = all.or_else(steps_[step - 1].charged);
    }
    return all;
  }

 private:
  struct Step {
    int64_t since_ns;
    Charged charged;
  };
  std::vector<Step> steps_{{.since_ns = INT64_MIN, .charged = {}}};
};

// Whether the subject's owner has it.
enum class Kept : uint8_t { yes, unknown, no };

struct CallCharge {
  ChargeHistory charged;
  Kept kept = Kept::yes;  // since a crash of the owner
  // It may stay so: the home is gone before it repeats the end, or the owner has lost that.
  std::optional<Charged> without_home;
};

struct KnownCall {
  api::QuotaOp op{};
  Subjects subjects;
  std::string id;  // the client's own
  uint64_t tokens = 0;
  uint32_t lifetime_ms = 0;
  int64_t asked_ns = 0;          // the first time
  std::vector<uint64_t> starts;  // of the owners, when it was asked for
  std::vector<CallCharge> charges;
  uint32_t under_way = 0;  // without an answer yet
  bool is_lost = false;    // it was asked for, and nobody will know the answer

  // Of a reservation.
  uint64_t reservation = 0;
  bool is_bound = false;                // to a connection
  int64_t opened_ns = 0;                // when its client knew
  int64_t shortest_until_ns = 0;        // of all open_until_ns
  int64_t open_until_ns = 0;            // at least
  int64_t over_at_ns = 0;               // at most; never_ns: unknown
  std::vector<uint64_t> starts_at_end;  // of the owners
  bool is_ending = false;               // somebody has asked for its end
  bool is_extending = false;            // somebody waits for the answer to an extension
  bool is_known_open = false;
  bool is_sure = false;  // its owners know it until its lifetime is over
};
using CallPtr = std::shared_ptr<KnownCall>;

}  // namespace sluice::simulation
