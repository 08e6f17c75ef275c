// Single calls about quotas: reserve, and the calls that follow a reservation. Part of Client.
#pragma once

#include "gathered.hpp"

namespace sluicegate {

class QuotaCalls;

// One entry, as its caller requests it.
struct QuotaCall {
  using Frame = QuotaCalls;
  enum class Kind : uint8_t { reserve, check, settle, cancel, extend, record, consume };

  Kind kind = Kind::reserve;
  uint8_t flags = 0;  // bits of quota_flag::
  uint32_t wait_limit_ms = 0;
  uint32_t lifetime_ms = 0;
  std::string_view owner;
  std::span<const std::string_view> subjects;  // of reserve, check, record and consume
  std::string_view client_id;
  uint32_t requests = keep;  // this and the next: as if the column were absent
  uint64_t input_tokens = unset;
  uint64_t cached_input_tokens = unset;
  uint64_t output_tokens = unset;
  uint64_t cost = unset;
  uint64_t reservation = 0;  // of settle, cancel and extend
  // A guard records the usage of a call that the policy admitted, so a late grant is cancelled.
  bool has_guard = false;
  std::chrono::milliseconds timeout{0};
  Waiter::Clock::time_point deadline = Waiter::Clock::time_point::max();

  bool may_wait() const noexcept { return (flags & quota_flag::may_wait) != 0; }
  bool names_subjects() const noexcept {
    return kind == Kind::reserve || kind == Kind::check || charges_used();
  }
  bool charges_used() const noexcept { return kind == Kind::record || kind == Kind::consume; }
  // Whether the server charges it once, however often it comes.
  bool may_repeat() const noexcept { return !charges_used() || !client_id.empty(); }
  // Calls that refund quota may go ahead of calls that charge it: no call can lose by that.
  bool may_overtake(const Gathered& frame) const noexcept;
};

class QuotaCalls final : public Gathered {
 public:
  QuotaCalls(const ClientOptions& options, const QuotaCall& first);

  bool has_room(const QuotaCall& call, const Bounds& bounds) const noexcept;
  uint32_t add(const QuotaCall& call, Target target, Clock::time_point deadline);
  bool only_charges() const noexcept { return names_subjects_; }

  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override;
  void take(const Answer& answer, Finished& finished) override;
  bool begin_repeat() override { return may_repeat_ && Gathered::begin_repeat(); }

 private:
  void encode_by_subject(std::vector<uint64_t>& out);
  void encode_by_reservation(std::vector<uint64_t>& out);
  void take_answers(const QuotaAnswers& answers, Finished& finished);
  void take_granted(const Granted& granted, Finished& finished);
  void decide(size_t entry, QuotaCode code, uint64_t reservation, Finished& finished);
  struct Text {
    uint32_t begin;
    uint32_t size;
  };
  Text keep_text(std::string_view text);
  std::string_view view(Text text) const noexcept {
    return std::string_view{texts_}.substr(text.begin, text.size);
  }

  QuotaCall::Kind kind_;
  bool names_subjects_;
  bool may_repeat_;  // this and the next: as all its calls
  bool has_guard_;
  uint8_t flags_;
  uint32_t wait_limit_ms_;
  uint32_t lifetime_ms_;
  std::string owner_;
  std::string texts_;  // subjects and ids, in the order they came
  std::vector<Text> subjects_;
  std::vector<uint32_t> first_subjects_;  // of each entry
  std::vector<uint8_t> subject_counts_;
  std::vector<Text> client_ids_;
  bool has_client_ids_ = false;
  std::vector<uint64_t> reservations_;
  std::vector<uint32_t> requests_;  // this and the next: empty while no entry sets a value
  std::vector<uint64_t> input_tokens_;
  std::vector<uint64_t> cached_input_tokens_;
  std::vector<uint64_t> output_tokens_;
  std::vector<uint64_t> costs_;
};

}  // namespace sluicegate
