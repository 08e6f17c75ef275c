// The book of settles that the client repeats until a server takes them. Part of Client.
// Flow:   add_fresh() or add_failed() -> take_due() -> answered(), unanswered() or refused().
// Shape:  fresh settles are due at once; those that failed wait together for the next attempt, the
//         pause before which doubles with each failure; the others are under way in a frame. No
//         clock and no socket: the time is an argument.
// Bounds: `kept_max` settles in all three together.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backoff.hpp"
#include "sluicegate/client.hpp"

namespace sluicegate {

// Under which usage is recorded: a repeat has the same id, so the server charges it once.
inline constexpr std::string_view settle_id_prefix = "settle-";
std::string settle_id(uint64_t number);

// What a guard knows of its call, to record the usage of a reservation that no server has.
struct ReservedCall {
  using Clock = std::chrono::steady_clock;
  // Where the caller gives none: as long as the default of a server may be expected to be.
  static constexpr std::chrono::minutes default_lifetime{10};

  std::vector<std::string> subjects{};
  Used amounts{};  // as reserved: each is given
  std::chrono::milliseconds lifetime{};
  OnException on_exception = OnException::charge_reported;
  bool renew = false;
  bool has_lifetime = false;  // given by the caller
  // Before the call, unless it may wait: its lifetime does not begin earlier.
  std::optional<Clock::time_point> since{};

  static ReservedCall of(const Subjects& subjects, const ReserveOptions& options,
                         Clock::time_point now);
};

struct KeptSettle {
  using Clock = std::chrono::steady_clock;
  enum class Stage : uint8_t { settle, record };

  uint64_t reservation = 0;  // 0: the failure policy admitted the call without a server
  Used used{};
  std::shared_ptr<const ReservedCall> reserved{};  // null: only its reservation's id is known
  std::string own_id{};                            // of the record, where there is no reservation
  Clock::time_point ends = Clock::time_point::max();
  uint64_t instance_id = 0;  // of the start of the server that has it; 0: not known
  Stage stage = Stage::settle;
  bool may_be_taken = false;  // it was sent, and no answer says what became of it
  bool is_alone = false;      // has a frame of its own, because the server refused one with others
  uint32_t attempts = 0;      // as a kept settle

  // Whether the server has lost the reservation and what that had charged, as far as is known. A
  // server that was not restarted forgets none before its end, and keeps what it has charged.
  bool is_to_be_recorded(QuotaCode code, uint64_t answering_instance) const noexcept;
  // Whether the reservation ended by an earlier attempt, the answer to which was lost.
  bool was_taken(QuotaCode code, uint64_t answering_instance) const noexcept;
  std::string record_id() const;
  // What to record: amounts that the settle does not give are those of the reserve.
  Used recorded() const;
  // Whether the code leaves open that a later repeat is taken.
  bool may_be_repeated(QuotaCode code) const noexcept;

 private:
  bool is_unknown(QuotaCode code) const noexcept {
    return stage == Stage::settle && code == QuotaCode::unknown_reservation;
  }
  bool is_the_same_start(uint64_t answering_instance) const noexcept {
    return instance_id != 0 && instance_id == answering_instance;
  }
};

class KeptSettles {
 public:
  using Clock = KeptSettle::Clock;

  KeptSettles(size_t kept_max, Backoff backoff) : kept_max_{kept_max}, backoff_{backoff} {}

  // False: there is no room, or the book is closed.
  bool add_fresh(KeptSettle settle);
  bool add_failed(KeptSettle settle, Clock::time_point now);
  // One that is lost before it was kept, and nobody else can report it.
  void count_lost() noexcept { ++counts_.lost; }
  // A call has recorded its usage, because the server had forgotten the reservation.
  void count_recorded() noexcept { ++counts_.recorded; }

  // When take_due() has something to return or to drop; max(): never.
  Clock::time_point due() const noexcept;
  // Each is under way until one of the calls below returns it. Drops those whose lifetime has
  // ended, but no settle before its first attempt.
  std::vector<KeptSettle> take_due(Clock::time_point now);
  // `instance_id`: of the start of the server that answered; 0: not known.
  void answered(KeptSettle settle, QuotaCode code, Clock::time_point now, uint64_t instance_id = 0);
  // They were sent, and may be taken.
  void unanswered(std::span<const KeptSettle> settles, Clock::time_point now);
  void unsent(std::span<const KeptSettle> settles, Clock::time_point now);
  // The server refuses their frame: each is tried alone once more, as only one of them may be at
  // fault.
  void refused(std::span<const KeptSettle> settles, Clock::time_point now);

  // Makes the next attempt due at once.
  void hurry() noexcept;
  // What is still kept is lost, and so is each settle that is returned later.
  void close() noexcept;
  SettleCounts counts() const noexcept;

 private:
  static constexpr std::chrono::seconds sweep_pause{1};

  Clock::time_point next_sweep() const noexcept { return std::max(earliest_end_, sweep_after_); }
  size_t kept() const noexcept { return fresh_.size() + waiting_.size() + under_way_; }
  bool has_room() const noexcept { return !is_closed_ && kept() < kept_max_; }
  void wait(KeptSettle settle, Clock::time_point now);
  void wait_or_lose(KeptSettle settle, Clock::time_point now);
  void drop_ended(Clock::time_point now);
  void decide(KeptSettle settle, QuotaCode code, Clock::time_point now, uint64_t instance_id);

  const size_t kept_max_;
  Backoff backoff_;
  std::vector<KeptSettle> fresh_;
  std::vector<KeptSettle> waiting_;
  size_t under_way_ = 0;
  Clock::time_point next_attempt_ = Clock::time_point::max();
  Clock::time_point earliest_end_ = Clock::time_point::max();  // of waiting ones
  Clock::time_point sweep_after_ = Clock::time_point::min();   // a sweep visits all that wait
  uint32_t failures_ = 0;                                      // attempts in a row
  bool is_closed_ = false;
  SettleCounts counts_{};  // without `kept`
};

}  // namespace sluicegate
