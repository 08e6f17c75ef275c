// A frame of kept settles, or of the records that replace them. Part of Client.
// Shape:  all of one stage. It belongs to no call: its answers go to the keeper.
// Threads: as for every Job; encode() reads only what never changes.
#pragma once

#include <utility>
#include <vector>

#include "job.hpp"
#include "settle_keeper.hpp"

namespace sluicegate {

class KeptFrame final : public Job {
 public:
  // Of a record, whose columns are the larger ones.
  static constexpr size_t entry_bytes = 1 + 2 + 4 + 4 * 8;
  static size_t text_bytes_of(const KeptSettle& settle);

  KeptFrame(SettleKeeper& keeper, std::vector<KeptSettle> settles, size_t text_bytes,
            Waiter::Clock::time_point deadline)
      : Job{OnFailure::error},
        keeper_{keeper},
        settles_{std::move(settles)},
        text_bytes_{text_bytes},
        deadline_{deadline} {}

  bool prepare() override {
    may_be_taken_ = !is_over_;
    return may_be_taken_;
  }
  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override {
    return head_bytes + list_bytes(text_bytes_) + (entry_bytes + 8) * settles_.size();
  }
  void take(const Answer& answer, Finished& finished) override;
  void fail(Failure failure, Finished& finished) override;
  bool has_open_entries() const noexcept override { return !is_over_; }
  void note_moved(const uint32_t&) noexcept override {}
  size_t open_calls() const noexcept override { return 0; }
  bool leave(const Waiter&, Finished&) override { return is_over_; }
  // Gives its settles back; a later answer to it changes nothing.
  Waiter::Clock::time_point expire(Waiter::Clock::time_point now, Finished& finished) override;

 private:
  SettleKeeper& keeper_;
  const std::vector<KeptSettle> settles_;
  const size_t text_bytes_;
  const Waiter::Clock::time_point deadline_;
  bool is_over_ = false;       // its settles are the keeper's again
  bool may_be_taken_ = false;  // it is sent
};

}  // namespace sluicegate
