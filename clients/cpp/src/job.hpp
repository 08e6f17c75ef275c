// A job: one frame of a lane, and the targets of its answers. Part of Client.
// Flow:   a caller stages it -> the writing thread calls encode() -> take() its answers -> Finished
// Shape:  Gathered (gathered.hpp) has single calls of many callers; Slice is a part of one caller's
//         batch; Question is any other frame. A job keeps one id, which is its frame's.
// Errors: take() throws ProtocolError for an answer that does not fit.
// Lives:  a Slice and a Question refer to their caller's memory until they are complete, or the
//         caller has left them.
// Threads: encode() runs without the lane's lock, concurrently with everything but take() and
//         leave() of a Slice or Question.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/client.hpp"
#include "waiter.hpp"

namespace sluicegate {

class HandleTable;

// Frames of batches and questions in flight at once. Four would keep a server busy that answers
// each frame as it arrives. But the server answers all frames of one turn of its loop together, and
// with four frames client and server would alternately wait for each other.
constexpr size_t batch_window = 16;

constexpr size_t head_bytes = 24 * sizeof(uint64_t);  // of any frame, with its columns' pointers

// A list's elements fill whole words.
constexpr size_t list_bytes(size_t bytes) noexcept {
  return (bytes + 7) / 8 * 8;
}

// The receiver of one entry's outcome: a place of a waiting caller, a callback, or none.
struct Target {
  Waiter* waiter = nullptr;
  uint32_t index = 0;  // the waiter's place
  Client::Callback callback;
  // Of calls about quotas: receives what `Decided` cannot hold. Lives as long as waiter or
  // callback.
  QuotaOutcome* place = nullptr;
  Outcome* details = nullptr;  // of calls of keys, likewise: receives the details

  // Stores the outcome in `place`, unless that has an answer of the server.
  void note(const Decided& outcome) const noexcept;
  void call_back(const Decided& outcome) const { callback({outcome.verdict, outcome.failure}); }
};

struct FinishedEntry {
  Target target;
  Decided outcome;
};

// A grant whose caller has left: the client releases the permits, or cancels the reservation.
struct UnwantedGrant {
  std::string key;
  uint32_t cost = 1;
  uint64_t reservation = 0;  // 0: permits of a key
};

// The consequences of an answer, to be handled without the lane's lock.
struct Finished {
  std::vector<FinishedEntry> entries;
  std::vector<uint32_t> to_withdraw;  // of the frame just answered
  std::vector<UnwantedGrant> to_release;
  size_t calls = 0;  // as counted against `pending_max`
  size_t callbacks = 0;
  uint64_t instance_id = 0;  // of the start of the server that answered

  void clear() {
    entries.clear();
    to_withdraw.clear();
    to_release.clear();
    calls = callbacks = 0;
    instance_id = 0;
  }
  void add(Target target, Decided outcome) {
    callbacks += target.callback ? 1 : 0;
    entries.push_back({std::move(target), outcome});
  }
};

// A refusal because the server is shutting down is not the caller's mistake.
Failure failure_of(const Refusal& refusal) noexcept;
[[noreturn]] void throw_misfit();

// The outcome of a failure, or of a verdict, under the client's failure policy.
Decided outcome_of(Failure failure, OnFailure policy) noexcept;
Decided outcome_of(Verdict verdict, OnFailure policy) noexcept;
Decided outcome_of(QuotaCode code, OnFailure policy) noexcept;

// The details that an Outcome has.
inline constexpr uint8_t outcome_details =
    detail::limit | detail::window | detail::remaining | detail::reset | detail::retry;
// Those at a place of an answer; a server may leave a column out.
void put_details(Outcome& to, const Details& details, size_t place) noexcept;
// Of a batch, whose columns have room.
void reserve_details(BatchOutcome& batch);
void put_details(BatchOutcome& batch, size_t index, const Outcome& outcome) noexcept;

// While a batch is under way, an entry that failed has this mark for a verdict: when all is over,
// the failure policy decides it.
constexpr Verdict mark_of(Failure failure) noexcept {
  return static_cast<Verdict>(0x80 | static_cast<uint8_t>(failure));
}
// `none` for a verdict that is no mark.
constexpr Failure failure_marked(Verdict verdict) noexcept {
  const auto byte = static_cast<uint8_t>(verdict);
  const bool is_mark = byte > 0x80 && byte <= 0x80 + static_cast<uint8_t>(Failure::closed);
  return is_mark ? static_cast<Failure>(byte & 0x7F) : Failure::none;
}

class Gathered;

class Job {
 public:
  explicit Job(OnFailure policy) : policy_{policy} {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  uint64_t id = 0;
  // Of the lane, under its lock.
  bool is_being_written = false;
  size_t counted_bytes = 0;  // against the server's bound of outstanding bytes

  // It is sent when fewer frames than this are in flight on its connection.
  virtual size_t window() const noexcept { return batch_window; }
  // Called before encode(): false when there is nothing left to request.
  virtual bool prepare() { return true; }
  // Appends its frame to `out`; false, and nothing, when it cannot be sent on this connection.
  virtual bool encode(std::vector<uint64_t>& out) = 0;
  // Completes a job that could not be sent on this connection.
  virtual void complete_unsent(Finished& finished) { fail(Failure::refused, finished); }
  // An upper bound of its frame's size, while its caller has not left.
  virtual size_t frame_bytes() const = 0;
  // True when this answer leaves entries in a queue, so that further answers follow.
  virtual bool will_wait(const Answer&) const { return false; }
  // Applies an answer. Adds the entries that it completes to `finished`.
  virtual void take(const Answer& answer, Finished& finished) = 0;
  // Completes all open entries.
  virtual void fail(Failure failure, Finished& finished) = 0;
  // This job if it is a Gathered, else null.
  virtual Gathered* gathered() noexcept { return nullptr; }
  // True when it makes no sense on another connection.
  virtual bool dies_with_link() const noexcept { return false; }
  // True while a caller waits for an entry.
  virtual bool has_open_entries() const noexcept { return true; }
  // False when no other lane can send it: then this completes it.
  virtual bool may_move() const noexcept { return true; }
  virtual void complete_unmoved(Finished& finished) { complete_unsent(finished); }
  // Its callers wait on another lane than the one that has it now, which has this link tag.
  virtual void note_moved(const uint32_t& link_tag) noexcept = 0;
  // As counted against `pending_max`, and how many of them have a callback.
  virtual size_t open_calls() const noexcept = 0;
  virtual size_t open_callbacks() const noexcept { return 0; }
  // Completes the entries of a caller that leaves, with `timed_out`. True when nothing is left to
  // request from the server.
  virtual bool leave(const Waiter& waiter, Finished& finished) = 0;
  // Prepares its open entries to be sent a second time; false when there are none.
  virtual bool begin_repeat() { return false; }
  // Completes the entries whose deadline has passed, with `timed_out`; returns the next deadline.
  virtual Waiter::Clock::time_point expire(Waiter::Clock::time_point, Finished&) {
    return Waiter::Clock::time_point::max();
  }

 protected:
  OnFailure policy_;
};

// ------------------------------------------------------------------------- parts of a batch

// A part of a batch that does not wait. Entry i of its frame is place `places[i]` of the waiter,
// or `first + i` without places.
class Slice : public Job {
 public:
  Slice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
        size_t count)
      : Job{policy}, waiter_{&waiter}, first_{first}, places_{places}, count_{count} {}

  void take(const Answer& answer, Finished& finished) override;
  void fail(Failure failure, Finished& finished) override;
  bool leave(const Waiter& waiter, Finished& finished) override;
  bool begin_repeat() override { return waiter_ != nullptr; }
  void note_moved(const uint32_t&) noexcept override {
    if (waiter_ != nullptr) waiter_->was_taken_over = true;
  }
  size_t open_calls() const noexcept override { return waiter_ != nullptr ? 1 : 0; }

 protected:
  size_t count() const noexcept { return count_; }
  // Completes all entries with a verdict that the server did not give.
  void complete_with(Verdict verdict, Finished& finished);
  Waiter* waiter() noexcept { return waiter_; }
  size_t place(size_t entry) const noexcept {
    return places_.empty() ? first_ + entry : places_[entry];
  }

 private:
  void note_draining();

  Waiter* waiter_;
  uint32_t first_;
  std::span<const uint32_t> places_;
  size_t count_;
};

// A slice that acquires; `details`, of the whole batch, is null where none are wanted.
class AcquireSlice : public Slice {
 public:
  AcquireSlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
               size_t count, BatchOutcome* details)
      : Slice{policy, waiter, first, places, count}, details_{details} {}

  void take(const Answer& answer, Finished& finished) override;

 private:
  BatchOutcome* details_;
};

// The columns of a batch's frames: its options, repeated for each entry of the largest frame.
struct BatchColumns {
  BatchColumns(const AcquireOptions& options, size_t count);

  template <typename Request>
  void put(Request& request, size_t count) const {
    request.costs = first(costs, count);
    request.max_requests = first(max_requests, count);
    request.max_requests_in_queue = first(max_requests_in_queue, count);
    request.window_ms = first(window_ms, count);
    request.details = details;
  }
  size_t bytes(size_t count) const noexcept;

  uint8_t details = 0;
  std::vector<uint32_t> costs;
  std::vector<uint32_t> max_requests;
  std::vector<uint32_t> max_requests_in_queue;
  std::vector<uint64_t> window_ms;

 private:
  template <typename T>
  static std::span<const T> first(const std::vector<T>& column, size_t count) {
    return std::span{column}.first(column.empty() ? 0 : count);
  }
};

class KeySlice final : public AcquireSlice {
 public:
  KeySlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
           std::span<const std::string_view> keys, size_t key_bytes, const BatchColumns& columns,
           BatchOutcome* details)
      : AcquireSlice{policy, waiter, first, places, keys.size(), details},
        keys_{keys},
        key_bytes_{key_bytes},
        columns_{columns} {}

  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override;

 private:
  std::span<const std::string_view> keys_;
  size_t key_bytes_;
  const BatchColumns& columns_;
};

// A slice by handles of the client. encode() translates them into the server's, because only then
// is it certain which connection carries the frame. If the connection does not hold one of them,
// the slice is not sent: its places become `not_held`, and its caller acquires by key.
class HandleSlice final : public AcquireSlice {
 public:
  static constexpr auto not_held = static_cast<Verdict>(0xFF);

  HandleSlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
              std::span<const uint32_t> handles, const BatchColumns& columns,
              const HandleTable& table, const uint32_t& link_tag, BatchOutcome* details)
      : AcquireSlice{policy, waiter, first, places, handles.size(), details},
        handles_{handles},
        columns_{columns},
        table_{table},
        link_tag_{link_tag} {}

  bool encode(std::vector<uint64_t>& out) override;
  void complete_unsent(Finished& finished) override;
  bool may_move() const noexcept override { return false; }
  size_t frame_bytes() const override;

 private:
  std::span<const uint32_t> handles_;
  const BatchColumns& columns_;
  const HandleTable& table_;
  const uint32_t& link_tag_;  // of the lane that writes it
};

// ---------------------------------------------------------------------------- anything else

class Question final : public Job {
 public:
  using Encode = std::function<void(uint64_t id, std::vector<uint64_t>& out)>;
  using Take = std::function<void(const Answer&)>;
  // `link_tag`, if given, always refers to that of the lane that has the question: what an answer
  // says of a connection belongs to this one.
  struct Target {
    Waiter* waiter;
    const uint32_t** link_tag = nullptr;
    bool may_move = true;  // false: a node of which no other one knows the answer is asked
  };

  // `encode`, `take` and the target are used until the waiter is done or has left. `take` throws
  // for an answer that it does not accept; a Refusal becomes Failure::refused before that.
  Question(OnFailure policy, Target target, Encode encode, Take take)
      : Job{policy},
        waiter_{target.waiter},
        link_tag_{target.link_tag},
        may_move_{target.may_move},
        encode_{std::move(encode)},
        take_{std::move(take)} {}
  // Without a waiter: Withdraw.
  Question(OnFailure policy, Encode encode) : Job{policy}, encode_{std::move(encode)} {}

  bool encode(std::vector<uint64_t>& out) override {
    encode_(id, out);
    return true;
  }
  size_t frame_bytes() const override;
  void take(const Answer& answer, Finished& finished) override;
  void fail(Failure failure, Finished& finished) override;
  bool leave(const Waiter& waiter, Finished& finished) override;
  bool begin_repeat() override { return waiter_ != nullptr; }
  void note_moved(const uint32_t& link_tag) noexcept override {
    if (waiter_ == nullptr) return;
    waiter_->was_taken_over = true;
    if (link_tag_ != nullptr) *link_tag_ = &link_tag;
  }
  size_t open_calls() const noexcept override { return waiter_ != nullptr ? 1 : 0; }
  bool dies_with_link() const noexcept override { return waiter_ == nullptr; }
  bool may_move() const noexcept override { return may_move_; }
  void complete_unmoved(Finished& finished) override { fail(Failure::unreachable, finished); }

 private:
  Waiter* waiter_ = nullptr;
  const uint32_t** link_tag_ = nullptr;
  bool may_move_ = true;
  Encode encode_;
  Take take_;
};

}  // namespace sluicegate
