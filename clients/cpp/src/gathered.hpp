// A frame of single calls of many callers: the target of each entry, and which entries are
// complete. Part of Client.
// Flow:   entries join while it is staged -> prepare() -> sent -> decided, or in the server's queue
//         -> complete
// Shape:  the derived classes have the requests of the entries, and read the answers.
// Threads: as for every Job.
#pragma once

#include "job.hpp"

namespace sluicegate {

class Gathered : public Job {
 public:
  using Clock = Waiter::Clock;
  struct Bounds {
    size_t entries_max;
    size_t bytes_max;
  };

  Gathered(const ClientOptions& options, bool may_wait)
      : Job{options.on_failure}, window_{options.frames_in_flight}, may_wait_{may_wait} {}

  bool prepare() override;
  bool will_wait(const Answer& answer) const override;
  void fail(Failure failure, Finished& finished) override;
  bool leave(const Waiter& waiter, Finished& finished) override;
  bool begin_repeat() override;
  Clock::time_point expire(Clock::time_point now, Finished& finished) override;
  size_t window() const noexcept override { return window_; }
  bool has_open_entries() const noexcept override { return left_ > 0; }
  void note_moved(const uint32_t& link_tag) noexcept override;
  size_t open_calls() const noexcept override { return left_; }
  size_t open_callbacks() const noexcept override;
  Gathered* gathered() noexcept override { return this; }

  // True while calls may still join; false for a frame that is sent a second time.
  bool may_be_joined() const noexcept { return may_be_joined_; }
  size_t left() const noexcept { return left_; }
  // Withdraws an entry from its queue, now or as soon as the server queues it.
  void cancel(uint32_t entry, Finished& finished);

 protected:
  // Resets it like a new one, but keeps its memory.
  void begin_anew(bool may_wait);
  // Returns the entry's number.
  uint32_t add_entry(Target target, Clock::time_point deadline);
  size_t entries_count() const noexcept { return targets_.size(); }
  const Target& target(size_t entry) const noexcept { return targets_[entry]; }

  // The entries that the frame requests, in their order there.
  size_t requested_count() const noexcept {
    return order_.empty() ? targets_.size() : order_.size();
  }
  size_t entry_at(size_t place) const noexcept { return order_.empty() ? place : order_[place]; }
  // A column's elements for the requested entries.
  template <typename T>
  std::span<const T> requested(const std::vector<T>& column, std::vector<T>& scratch) const {
    if (order_.empty() || column.empty()) return column;
    scratch.clear();
    for (const uint32_t entry : order_) scratch.push_back(column[entry]);
    return scratch;
  }
  // Adds to a column that is empty while all its elements are `absent`.
  template <typename T>
  static void put(std::vector<T>& column, size_t entry, T value, T absent) {
    if (column.empty()) {
      if (value == absent) return;
      column.assign(entry, absent);
    }
    column.push_back(value);
  }

  // Notes the first answer, for `answered_count` entries; throws for a wrong count, or when it was
  // noted before.
  void note_decided(size_t answered_count);
  // Removes the granted entry at a place from the queue; throws if it does not wait.
  size_t take_out_of_queue(uint32_t place);
  void put_in_queue(size_t entry, Finished& finished);
  // True when the entry's caller has left and did not count it as approved: no caller uses the
  // grant then, and the client must undo it.
  bool conclude(size_t entry, const Decided& outcome, Finished& finished);
  bool is_abandoned(size_t entry) const noexcept { return (states_[entry] & abandoned) != 0; }
  void take_refusal(const Refusal& refusal, Finished& finished);

 private:
  // `used`: abandoned, but its caller got `approved` by the failure policy.
  enum State : uint8_t {
    open = 0,
    queued = 1,
    cancelled = 2,
    abandoned = 4,
    used = 8,
    complete = 16
  };

  // Completes one entry at once; the client undoes the server's later answer to it.
  void abandon(uint32_t entry, Finished& finished);
  void finish(size_t entry, const Decided& outcome, Finished& finished);
  void withdraw(size_t entry, Finished& finished) const;

  size_t window_;
  bool may_wait_;
  std::vector<Target> targets_;
  std::vector<Clock::time_point> deadlines_;
  std::vector<uint8_t> states_;
  std::vector<uint32_t> order_;  // the requested entries; empty: all
  bool has_gaps_ = false;        // some entries are not to be requested
  bool is_sent_ = false;
  bool is_decided_ = false;  // its first answer has arrived
  bool may_be_joined_ = true;
  size_t left_ = 0;
};

}  // namespace sluicegate
