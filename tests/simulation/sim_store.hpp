// A state file in memory, whose commits fail as a disk's may: and what the next start reads of it.
// Flow:   SimSink -> commit() -> what a crash leaves -> restore(), in the stores of the next start.
// Shape:  as StateFile: a commit is whole or not there at all; after one whose fsync failed, only
//         reopen() finds out which. Parts are deleted with a commit that needs them no more.
// Errors: rates by kind, drawn by the run; none after calm().
// Lives:  longer than the workers of any start; one thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/sim/random.hpp"
#include "server/state_options.hpp"
#include "state/part.hpp"
#include "store/state_store.hpp"

namespace sluice::simulation {

class SimStore final : public store::StateStore, public server::StateSource {
 public:
  explicit SimStore(io::Random& random) : random_(random) {}

  // Of the next start; a quarter of the runs have a disk that never fails.
  void draw_failures();
  void calm() { rates_ = {}; }

  // As in store::StateStore.
  store::Result<void> commit(const store::Batch& batch) override;
  store::Result<void> tidy() override;
  store::Result<void> reopen() override;
  store::Result<void> close() override { return {}; }
  store::StoreSize size() const noexcept override {
    return {.file_bytes = log_bytes_, .log_bytes = log_bytes_};
  }

  // A power failure in the middle of this commit: the disk has it, or has nothing of it.
  void crash_within(const store::Batch& batch);

  // The next start opens it: the disk has what it has.
  void open_again();

  bool is_empty() const { return parts_.empty(); }
  uint64_t last_epoch() const { return last_epoch_; }
  // That wrote its newest parts.
  uint32_t shards_count() const;
  // The latest of the newest parts; none: there is no part.
  std::optional<state::StoredTime> last_time() const;
  quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const override;
  server::RestoredWindows restore(shard::KeyDecider& keys, const server::OwnKeys& own,
                                  base::Now now) const override;

  uint64_t commits() const { return commits_; }
  uint64_t failures() const { return failures_; }

 private:
  friend class SimRecords;
  using Bytes = std::vector<std::byte>;
  struct Class {
    std::string quota;
    uint64_t epoch = 0;
  };
  struct Rates {
    double full = 0;  // of any commit: there is no room
    double io = 0;
    double fsync = 0;
    double tidy = 0;
    double reopen = 0;
  };

  store::Result<void> fail(store::FailureKind kind);
  void write(const store::Batch& batch);
  void write(const store::ShardCut& cut);

  io::Random& random_;
  Rates rates_;
  bool must_reopen_ = false;
  uint64_t last_epoch_ = 0;
  std::vector<Bytes> parts_;    // in the order of their commits
  std::vector<Bytes> windows_;  // likewise, of this kind
  std::map<uint64_t, Class> classes_;
  std::map<std::string, std::string> run_time_quotas_;
  uint64_t log_bytes_ = 0;
  uint64_t commits_ = 0;
  uint64_t failures_ = 0;
};

}  // namespace sluice::simulation
