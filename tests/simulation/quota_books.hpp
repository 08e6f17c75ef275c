// The books of clients about quotas: from their calls and answers follow the least and the most
// that each subject can be charged. They use nothing of the store, and no order but that of the
// wire.
// Flow:   a peer enters a call before it is sent, and its answer -> bounds of what each subject is
//         charged; usage that the server reports has to lie between them.
// Shape:  each subject has two limits that only count (`all` tokens, `calls`), for a year, beside
//         small ones that refuse. New quotas differ only in amounts, and never allow more than the
//         first.
// Errors: reported to the run's Failure.
// Lives:  one per run.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "io/sim/sim_faults.hpp"
#include "oracle.hpp"
#include "policy/quota_book.hpp"

namespace sluice::simulation {

// The charge of the two limits that only count.
struct Tally {
  uint64_t tokens = 0;
  uint64_t requests = 0;
};

// A call that charges.
struct Charge {
  std::vector<std::string> subjects;
  Tally may;   // the most that can be charged for it now
  Tally must;  // the least
  api::Amounts reserved;
  uint64_t id = 0;            // of its reservation, once the answer has arrived
  std::vector<Tally> ends;    // of the settles and cancels that were sent
  bool ended = false;         // one of them was answered as done
  int64_t open_from_ns = 0;   // when its answer arrived
  int64_t open_until_ns = 0;  // open at least until then, unless ended
  bool connection_bound = false;
  std::map<std::string, std::string> reported;  // REST: the answer to each way to end it
};
using ChargePtr = std::shared_ptr<Charge>;

// A reserve with an id of its client's, to be repeated.
struct NamedReserve {
  std::string client_id;
  std::vector<std::string> subjects;
  api::Amounts amounts;
  std::multiset<int64_t> unanswered;  // when it was sent; calls that were lost stay
  ChargePtr charge;                   // of the last one that was admitted
};

// A record or consume with an id of its client's, to be repeated.
struct NamedCharge {
  std::string client_id;
  api::QuotaOp op;
  std::vector<std::string> subjects;
  api::Amounts amounts;
};

// Of every reserve with an id, so that a repeat is the same call.
inline constexpr uint32_t named_lifetime_ms = 300;

// A query for a subject's usage, until its answer arrives.
struct UsageQuestion {
  std::string subject;
  Tally least;
  Tally most;
};
using QuestionPtr = std::shared_ptr<UsageQuestion>;

class QuotaBooks {
 public:
  QuotaBooks(io::Random& random, Failure& failure);

  // The rules of the configuration file: at the start, and when it changes.
  policy::QuotaRules first_rules();
  policy::QuotaRules changed_rules();
  api::Quota changed_quota(const std::string& subject);

  const std::vector<std::string>& subjects() const { return subjects_; }
  // 1 to 3 subjects: any, or those of one tag.
  std::vector<std::string> draw_call();
  // Whether several shards may have them: they have no common tag.
  static bool are_apart(const std::vector<std::string>& subjects);
  const std::string& draw_subject();
  api::Amounts draw_amounts();
  uint32_t draw_lifetime_ms();
  bool strict() const { return overtakers_max_ == 0; }
  bool changes() const { return changes_; }
  bool resets() const { return resets_; }
  uint32_t default_lifetime_ms() const { return lifetime_ms_; }
  // Whether the subject has a quota, and with it a queue.
  bool has_quota(const std::string& subject) const {
    return kept_.contains(subject) || unknown_ == policy::UnknownSubjects::use_quota;
  }
  // How many reservations may hold a slot of the subject at a time.
  uint64_t slots_of(const std::string& subject) const;

  // Reserve and record: before the call is sent, and when its answer has arrived.
  ChargePtr ask_charge(const std::vector<std::string>& subjects, const api::Amounts& amounts);
  void denied(Charge& charge);
  void recorded(Charge& charge);
  // `asked_ns`: when the call was sent. Returns the charge that this reservation has already, if
  // any.
  ChargePtr admitted(const ChargePtr& charge, uint64_t id, int64_t asked_ns, int64_t now_ns,
                     uint32_t lifetime_ms, bool connection_bound);

  // Settle and cancel.
  void ask_end(uint64_t id, const Tally& tally);
  void ended(uint64_t id, int64_t now_ns);
  Charge* find(uint64_t id);
  uint64_t draw_reservation();  // 0: no client has received one yet
  // A reserve with an id: a new one, or a repeat. A repeat while the reservation is certainly open
  // gets the same answer.
  NamedReserve& name(const std::vector<std::string>& subjects, const api::Amounts& amounts);
  NamedReserve* draw_named();
  void ask_named(NamedReserve& named, int64_t now_ns) { named.unanswered.insert(now_ns); }
  // A record or consume with an id: a new one (`is_repeat` is false), or a repeat.
  const NamedCharge& draw_named_charge(api::QuotaOp op, bool& is_repeat);
  void denied_named(const std::string& client_id, int64_t asked_ns);
  void admitted_named(const std::string& client_id, const ChargePtr& charge, int64_t asked_ns,
                      int64_t now_ns);
  // Reserves of holders of this name were queued. A REST client gives each reserve its own.
  void note_queued(const std::string& owner) { queued_[owner] = true; }
  void note_outcome(const std::string& owner) { queued_[owner] = false; }
  bool waits(const std::string& owner) const {
    const auto found = queued_.find(owner);
    return found != queued_.end() && found->second;
  }
  bool was_queued(const std::string& owner) const { return queued_.contains(owner); }
  // Every answer to the same end must have the same `text`.
  void check_end(uint64_t id, const std::string& way, const std::string& text);

  QuestionPtr ask_usage(const std::string& subject);
  void check_usage(const UsageQuestion& question, const std::string& limit, uint64_t used);
  void forget(const QuestionPtr& question) { questions_.remove(question); }
  uint64_t usages_checked() const { return usages_checked_; }

 private:
  struct Kept {
    api::Quota quota;  // the first
    Tally may;
    Tally must;
  };

  api::Quota draw_quota();
  policy::QuotaRules rules(bool changed);
  NamedReserve& find_named(const std::string& client_id);
  template <typename Change>
  void change(Charge& charge, Change apply);

  io::Random& random_;
  Failure& failure_;
  const bool changes_;
  const bool resets_;
  const bool refunds_expired_;
  const uint32_t overtakers_max_;
  const uint32_t lifetime_ms_;
  const policy::UnknownSubjects unknown_;
  std::vector<std::string> subjects_;
  std::map<std::string, Kept> kept_;
  api::Quota default_quota_;
  std::map<uint64_t, ChargePtr> charges_;  // by reservation
  std::vector<uint64_t> ids_;
  std::vector<std::unique_ptr<NamedReserve>> named_;
  std::vector<NamedCharge> named_charges_;
  std::list<QuestionPtr> questions_;
  std::map<std::string, bool> queued_;  // by owner: whether it still waits
  uint64_t usages_checked_ = 0;
};

}  // namespace sluice::simulation
