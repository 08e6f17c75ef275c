// Single calls that acquire or release permits of keys. Part of Client.
#pragma once

#include "gathered.hpp"

namespace sluicegate {

// The terms that all entries of one frame share.
struct CallTerms {
  bool is_release = false;
  bool may_wait = false;
  uint32_t wait_limit_ms = 0;
  bool wants_details = false;

  bool operator==(const CallTerms&) const = default;
};

class Calls;

// One entry, as its caller requests it.
struct Call {
  using Frame = Calls;

  std::string_view key;
  const AcquireOptions& options;
  bool is_release = false;
  Waiter::Clock::time_point deadline = Waiter::Clock::time_point::max();

  CallTerms terms() const noexcept {
    return {is_release, options.may_wait, options.wait_limit_ms, options.wants_details};
  }
  // The server decides the entries of a key in the order of the calls.
  bool may_overtake(const Gathered&) const noexcept { return false; }
};

class Calls final : public Gathered {
 public:
  Calls(const ClientOptions& options, const Call& first)
      : Gathered{options, first.options.may_wait}, terms_{first.terms()} {}
  void begin_anew(const Call& first);

  bool has_room(const Call& call, const Bounds& bounds) const noexcept;
  uint32_t add(const Call& call, Target target, Clock::time_point deadline);

  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override;
  void take(const Answer& answer, Finished& finished) override;

 private:
  std::string_view key(size_t entry) const noexcept;
  void take_verdicts(const Verdicts& verdicts, Finished& finished);
  void take_granted(const Granted& granted, Finished& finished);
  void take_details(size_t entry, const Details& details, size_t place);
  void decide(size_t entry, Verdict verdict, Finished& finished);

  CallTerms terms_;
  std::string key_bytes_;
  std::vector<uint32_t> key_ends_;
  std::vector<uint32_t> costs_;  // this and the next: empty while all are the default
  std::vector<uint32_t> max_requests_;
  std::vector<uint32_t> max_requests_in_queue_;
  std::vector<uint64_t> window_ms_;
};

}  // namespace sluicegate
