// A call of a client that charges subjects, and what each of them may have charged for it.
// Shape:  what callers have been answered leaves a few amounts: a call is charged as a whole, or
//         not, or as it was settled. A node that starts again may have any state that it had since
//         its last cut, so that all amounts since then stay possible.
// Units:  tokens; nanoseconds of the network's clock.
// Lives:  from its first question until the end of the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/quota.hpp"
#include "base/time.hpp"

namespace sluice::simulation {

using Subjects = std::vector<std::string>;  // of one call: of any nodes

// One of a few amounts. In order, all different.
class Charged {
 public:
  static Charged exactly(uint64_t tokens) { return Charged({tokens}); }
  static Charged nothing_or(uint64_t tokens) { return exactly(0).or_else(exactly(tokens)); }
  Charged or_else(const Charged& other) const {
    std::vector<uint64_t> all;
    std::set_union(amounts_.begin(), amounts_.end(), other.amounts_.begin(), other.amounts_.end(),
                   std::back_inserter(all));
    return Charged(std::move(all));
  }

  const std::vector<uint64_t>& amounts() const { return amounts_; }
  uint64_t least() const { return amounts_.front(); }
  uint64_t most() const { return amounts_.back(); }
  bool is_exact() const { return amounts_.size() == 1; }

 private:
  explicit Charged(std::vector<uint64_t> amounts) : amounts_(std::move(amounts)) {}

  std::vector<uint64_t> amounts_;
};

// What several calls may have charged together.
class ChargedSums {
 public:
  void add(const Charged& charged) {
    std::vector<bool> sums(most() + charged.most() + 1);
    for (const uint64_t amount : charged.amounts()) {
      for (uint64_t sum = 0; sum <= most(); ++sum) {
        if (sums_[sum]) sums[sum + amount] = true;
      }
    }
    sums_ = std::move(sums);
  }

  bool has(uint64_t sum) const { return sum <= most() && sums_[sum]; }
  uint64_t count() const { return static_cast<uint64_t>(std::ranges::count(sums_, true)); }
  uint64_t least() const {
    return static_cast<uint64_t>(std::ranges::find(sums_, true) - sums_.begin());
  }
  uint64_t most() const { return sums_.size() - 1; }

 private:
  std::vector<bool> sums_{true};
};

// Of one subject.
class ChargeHistory {
 public:
  const Charged& now() const { return steps_.back().charged; }
  int64_t since_ns() const { return steps_.back().since_ns; }
  void set(int64_t now_ns, Charged charged) {
    steps_.push_back({.since_ns = now_ns, .charged = std::move(charged)});
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
  std::vector<Step> steps_{{.since_ns = INT64_MIN, .charged = Charged::exactly(0)}};
};

// Until when one node has a reservation open, at least.
class OpenUntil {
 public:
  OpenUntil() = default;
  explicit OpenUntil(int64_t until_ns) : steps_{{.since_ns = INT64_MIN, .until_ns = until_ns}} {}

  int64_t ns() const { return steps_.back().until_ns; }
  void set(int64_t now_ns, int64_t until_ns) {
    steps_.push_back({.since_ns = now_ns, .until_ns = until_ns});
  }
  // It may be all that it has been since then.
  void lose(int64_t now_ns, int64_t kept_ns) {
    int64_t least_ns = ns();
    for (size_t step = steps_.size() - 1; step > 0 && steps_[step].since_ns > kept_ns; --step) {
      least_ns = std::min(least_ns, steps_[step - 1].until_ns);
    }
    set(now_ns, least_ns);
  }

 private:
  struct Step {
    int64_t since_ns;
    int64_t until_ns;
  };
  std::vector<Step> steps_{{.since_ns = INT64_MIN, .until_ns = 0}};
};

// Whether the subject's owner has it.
enum class Kept : uint8_t { yes, unknown, no };

// What its home brings to a part, again and again, as long as the part is known.
struct Mending {
  int64_t since_ns;
  int64_t until_ns;
  uint64_t tokens;
};

struct CallCharge {
  ChargeHistory charged;
  OpenUntil open_until;   // at its owner, unless it is over at home
  Kept kept = Kept::yes;  // since a crash of the owner
  // It may stay so: the home is gone before it repeats the end, or the owner has lost that.
  std::optional<Charged> without_home;
  std::optional<Mending> mending;
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

  bool is_known() const {
    return std::ranges::all_of(
        charges, [](const CallCharge& each) { return each.charged.now().is_exact(); });
  }

  // Of a reservation.
  uint64_t reservation = 0;
  bool is_bound = false;                        // to a connection
  int64_t opened_ns = 0;                        // when its client knew
  OpenUntil open_until;                         // at home
  int64_t extending_until_ns = base::never_ns;  // by the extension that is under way
  int64_t over_at_ns = 0;                       // at most; never_ns: unknown
  int64_t longest_until_ns = 0;         // of all over_at_ns: a part ends later by its home's word
  std::vector<uint64_t> starts_at_end;  // of the owners, when that was asked for, or known
  bool is_ending = false;               // somebody has asked for its end
  bool has_ended = false;               // or was not made
  api::QuotaOp end_op{};
  uint64_t settled_tokens = 0;
  int64_t end_asked_ns = 0;   // the first time
  int64_t ended_ns = 0;       // when that was known
  bool is_extending = false;  // somebody waits for the answer to an extension
  bool is_known_open = false;
  bool is_sure = false;  // its owners know it until its lifetime is over

  // At least.
  int64_t open_until_ns() const { return std::min(open_until.ns(), extending_until_ns); }
  int64_t open_until_ns(size_t place) const {
    return std::min(open_until_ns(), charges[place].open_until.ns());
  }
};
using CallPtr = std::shared_ptr<KnownCall>;

}  // namespace sluice::simulation
