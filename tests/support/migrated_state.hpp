// A store that starts with a state file at a moment of the test's choosing, as a server would, and
// the library's own counting to compare with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "migration/incoming.hpp"
#include "migration/new_state.hpp"
#include "server/stored_file.hpp"
#include "state/part_builder.hpp"
#include "support/stored_state.hpp"
#include "transfer/go_ratelimit.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::test {

inline constexpr int64_t file_wall_ns = 1'763'000'017 * base::ns_per_s + 123'456'789;
inline constexpr state::BootId file_boot{.high = 1, .low = 2};

// Of a machine that was started a day before file_wall_ns.
inline state::MachineTime machine_at(int64_t wall_ns) {
  return {.boot = file_boot,
          .boot_ns = base::ns_per_day + (wall_ns - file_wall_ns),
          .wall_ns = wall_ns};
}

inline constexpr server::StateSeeds file_seeds{.name_seed = 42, .routing_seed = 43};

inline migration::Incoming import_at(const transfer::GoRatelimitFile& file, const std::string& path,
                                     int64_t wall_ns = file_wall_ns, bool puts_quotas = true) {
  migration::Incoming incoming = migration::incoming_of(file, wall_ns);
  EXPECT_TRUE(incoming.complaints.empty());
  migration::write_new_state(
      incoming.subjects,
      {.path = path, .now = machine_at(wall_ns), .seeds = file_seeds, .puts_quotas = puts_quotas});
  return incoming;
}

inline const quota::Options written_options{.routing_seed = file_seeds.routing_seed,
                                            .subjects_max = 100,
                                            .reservations_max = 100,
                                            .waiters_max = 10,
                                            .name_seed = file_seeds.name_seed,
                                            .id_seed = 9,
                                            .keeps_state = true};

// A state file that a store with written_options writes.
class WrittenState {
 public:
  explicit WrittenState(const std::string& path)
      : file_(store::StateFile::open({.path = path}).value()) {
    server::set_meta(*file_, file_seeds, 1);
  }

  void commit(quota::StoreDriver& driver) {
    ++epoch_;
    state::PartBuilder builder(
        {.subjects_max = 100, .name_bytes_max = 1'024, .reservations_max = 100});
    driver.store.begin_cut(builder, {.epoch = epoch_});
    while (driver.store.hand_over(1'000)) {
    }
    const quota::CutFacts facts = driver.store.cut_facts();
    builder.finish({.epoch = epoch_,
                    .time = {.state_ns = driver.ns, .machine = machine_at(driver.wall_ns)},
                    .calendar_wall_ns = facts.calendar_wall_ns,
                    .order = facts.order,
                    .reset_all_order = facts.reset_all_order});
    OwnedCut cut(epoch_, 0);
    for (const auto& each : builder.parts()) cut.part(1, as_text(each));
    for (const auto& each : builder.quota_classes()) cut.quota_class(each.id, each.quota);
    for (const auto& each : builder.quota_changes()) cut.put(each.name, *each.quota, each.wall_ms);
    ASSERT_TRUE(commit_one(*file_, cut));
  }

 private:
  std::unique_ptr<store::StateFile> file_;
  uint64_t epoch_ = 0;
};

// A server of one shard that starts with the file.
class StartedServer {
 public:
  StartedServer(const std::string& path, int64_t wall_ns, policy::QuotaRules rules = {})
      : book_(std::move(rules)) {
    const server::StoredFile stored(path);
    const state::StateStart start =
        state::start_state_clock(stored.last_time(), machine_at(wall_ns), 0);
    driver_ = std::make_unique<quota::StoreDriver>(
        quota::Options{.routing_seed = stored.seeds()->routing_seed,
                       .subjects_max = 1'000,
                       .reservations_max = 1'000,
                       .waiters_max = 10,
                       .name_seed = stored.seeds()->name_seed,
                       .id_seed = 7,
                       .keeps_state = true});
    driver_->ns = start.state_ns;
    driver_->wall_ns = wall_ns;
    restored_ = stored.restore(driver_->store, driver_->now());
    driver_->store.adopt(book_, driver_->now());
    while (driver_->store.next_due_ns() <= driver_->ns) driver_->store.run_due(driver_->now());
  }

  quota::StoreDriver& driver() noexcept { return *driver_; }
  quota::StoreDriver* operator->() noexcept { return driver_.get(); }
  const quota::Restored& restored() const noexcept { return restored_; }

 private:
  policy::QuotaBook book_;
  std::unique_ptr<quota::StoreDriver> driver_;
  quota::Restored restored_;
};

// What the library counts of a model that it has loaded: an event for exactly a minute, from the
// present on if it was in the future; a day for 24 hours.
class LibraryCount {
 public:
  LibraryCount(const transfer::ModelUsage& usage, int64_t loaded_wall_ns) : usage_(usage) {
    for (int64_t& wall_ns : usage_.requests_wall_ns) wall_ns = std::min(wall_ns, loaded_wall_ns);
    for (auto& event : usage_.tokens) event.wall_ns = std::min(event.wall_ns, loaded_wall_ns);
    if (usage_.day_start_wall_ns) {
      usage_.day_start_wall_ns = std::min(*usage_.day_start_wall_ns, loaded_wall_ns);
    }
  }

  uint64_t requests(int64_t wall_ns) const {
    return static_cast<uint64_t>(std::ranges::count_if(
        usage_.requests_wall_ns, [&](int64_t at) { return counts(at, wall_ns); }));
  }
  uint64_t tokens(int64_t wall_ns) const {
    uint64_t sum = 0;
    for (const auto& event : usage_.tokens) {
      if (counts(event.wall_ns, wall_ns)) sum += static_cast<uint64_t>(event.count);
    }
    return sum;
  }
  uint64_t day(int64_t wall_ns) const {
    const auto start = usage_.day_start_wall_ns;
    const bool is_over = !start || wall_ns - *start >= base::ns_per_day;
    return is_over ? 0 : static_cast<uint64_t>(usage_.day_count);
  }

 private:
  static bool counts(int64_t at, int64_t wall_ns) { return at > wall_ns - 60 * base::ns_per_s; }

  transfer::ModelUsage usage_;
};

}  // namespace sluice::test
