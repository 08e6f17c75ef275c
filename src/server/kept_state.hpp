// The state file of a running server, with all that keeps it: its lock, what it had at the start,
// the writer's thread, the schedule of the cuts.
// Flow:   constructor: lock, check, read the headers -> options(), for the workers, which load and
//         then cut -> stop(), when they have drained.
// Errors: the constructor throws one line that names the file, the cause and the cure; the file is
//         left as it is.
// Lives:  made before the workers. stop() before they end: the writer reads their memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/cut_schedule.hpp"
#include "server/state_options.hpp"
#include "server/stored_file.hpp"
#include "store/state_file.hpp"
#include "store/state_writer.hpp"

namespace sluice::server {

struct KeptStateOptions {
  std::string path;
  uint32_t sync_ms = 100;
  uint32_t shards = 1;
  StateSeeds seeds;            // of a new file
  std::function<void()> wake;  // all workers; from the writer's thread
};

class KeptState {
 public:
  explicit KeptState(const KeptStateOptions& options);

  const StateSeeds& seeds() const noexcept { return seeds_; }
  // For io::Options: state time by the monotonic clock.
  int64_t clock_offset_ns() const noexcept { return start_.offset_ns; }
  StateOptions options() noexcept;
  // All workers have loaded their shares; what they found together.
  void has_started(const quota::Restored& restored, const RestoredWindows& windows);

  const CutSchedule& schedule() const noexcept { return *schedule_; }

  // Has the shards cut once more, commits that, and closes the file; takes at most as long as
  // `timeout` and store::close_patience. They go on with turns meanwhile.
  store::StateWriter::End stop(std::chrono::milliseconds timeout);
  // As after a crash.
  store::StateWriter::End stop_writer() { return writer_->stop(std::chrono::milliseconds(0)); }

 private:
  void log_start(const quota::Restored& restored, const RestoredWindows& windows) const;
  void wait_committed(uint64_t epoch, int64_t until_ns) const;

  const std::string path_;
  const std::function<void()> wake_;
  StateSeeds seeds_;
  state::BootId boot_;
  state::StateStart start_;
  bool is_new_ = false;
  uint64_t last_epoch_ = 0;
  uint32_t stored_shards_ = 0;
  std::unique_ptr<StoredFile> stored_;
  std::unique_ptr<store::StateWriter> writer_;
  std::unique_ptr<CutSchedule> schedule_;
};

}  // namespace sluice::server
