// Goal:   a shard hands over sound and complete cuts, each of the instant at which all shards cut,
//         in shares that no turn notices.
// Method: quotas that count their steps, or a real store; a writer that keeps what it gets and
//         releases epochs when the test says so. Time is an argument.
#include "server/state_keeper.hpp"

#include <gtest/gtest.h>

#include <map>

#include "quota/quota_class.hpp"
#include "tests/unit/quota/store_driver.hpp"
#include "tests/unit/server/fake_quotas.hpp"
#include "tests/unit/server/fake_writer.hpp"
#include "tests/unit/shard/shard_driver.hpp"

namespace sluice::server {
namespace {

constexpr int64_t ms = base::ns_per_ms;
constexpr state::BootId boot{.high = 1, .low = 2};

// Quotas that have something to hand over for as long as the test says.
class CutQuotas final : public FakeQuotas {
 public:
  explicit CutQuotas(api::ShardId shard) : FakeQuotas(asked_, shard) {}

  bool has_changes() const noexcept override { return changed; }
  void begin_cut(state::StateSink& sink, const quota::CutStart& start) noexcept override {
    begun.push_back(start);
    is_under_way = true;
    sink.append(state::SubjectRecord{.name = "of the instant"});
    changed = false;
  }
  bool hand_over(uint32_t records) noexcept override {
    EXPECT_TRUE(is_under_way) << "the cut has everything";
    shares.push_back(records);
    return is_under_way = shares.size() < steps;
  }
  quota::CutFacts cut_facts() const noexcept override { return facts; }
  void write_all() noexcept override {
    written_all_before = begun.size();
    ++written_all;
  }

  bool changed = false;
  bool is_under_way = false;
  size_t steps = 1;
  quota::CutFacts facts;
  std::vector<quota::CutStart> begun;
  std::vector<uint32_t> shares;
  int written_all = 0;
  size_t written_all_before = 0;

 private:
  Asked asked_;
};

quota::Options options_of(uint32_t shard) {
  return {.shard = shard,
          .shards = 2,
          .subjects_max = 10,
          .reservations_max = 10,
          .waiters_max = 10,
          .name_bytes_max = 100,
          .name_seed = 42,
          .id_seed = 42,
          .keeps_state = true};
}

class StateKeeperTest : public testing::Test {
 protected:
  base::Now now() const { return {.monotonic_ns = now_ns_, .wall_ns = 7}; }
  bool keep(StateKeeper& keeper, uint64_t calls = 0) { return keeper.keep(now(), calls); }
  static state::PartHeader header_of(const FakeWriter::Cut& cut) {
    const auto reader = state::PartReader::open(cut.parts.at(0));
    EXPECT_TRUE(reader);
    return reader->header();
  }
  // Both cut, and the writer commits.
  void end_epoch() {
    for (StateKeeper* keeper : {&first_, &second_}) {
      while (keeper->due_ns() == 0) keep(*keeper);
    }
    ASSERT_EQ(writer_.cuts_of(schedule_.epoch()), 2U);
    writer_.commit(schedule_.epoch());
    now_ns_ += 100 * ms;
  }

  void acquire(shard::KeyShard& keys, std::string_view key, int64_t window_ms) {
    const api::Overrides overrides{.window_ms = window_ms};
    api::Entry entry = shard::ShardDriver::entry(key, {});
    entry.given_overrides = &overrides;
    api::Verdict verdict{};
    api::Detail detail;
    api::WaiterId waiter = api::no_waiter;
    keys.decide(std::span(&entry, 1),
                {.verdicts = {&verdict, 1}, .details = {&detail, 1}, .waiters = {&waiter, 1}},
                now(), 0);
  }

  int64_t now_ns_ = 1'000 * ms;
  int64_t cpu_ns_ = 0;
  FakeWriter writer_;
  CutSchedule schedule_{writer_, {.shards = 2, .interval_ns = 100 * ms, .last_epoch = 7}};
  const StateOptions options_{
      .schedule = &schedule_,
      .machine_time = [] { return state::MachineTime{.boot = boot, .boot_ns = 3, .wall_ns = 4}; },
      // Each reading is a millisecond after the last: so is each step of a cut.
      .cpu_ns = [this] { return cpu_ns_ += ms; }};
  CutQuotas first_quotas_{0};
  CutQuotas second_quotas_{1};
  shard::KeyShard keys_{{.keys_max = 1'000, .kept_window_ms = 60'000}};
  WindowKeeper windows_{options_, {.keys_max = 1'000, .kept_window_ms = 60'000}, keys_};
  WindowKeeper no_windows_{{}, {}, keys_};
  StateKeeper first_{options_, options_of(0), first_quotas_, windows_};
  StateKeeper second_{options_, options_of(1), second_quotas_, no_windows_};
};

// The thread may have lost its processor since the turn began: the machine's time is that of the
// state's, or the next start would take the pause for a part of the turn.
TEST_F(StateKeeperTest, pairs_the_turn_s_time_with_the_machine_s_of_that_moment) {
  const auto machine_time_after = [this](int64_t pause_ns) {
    CutSchedule schedule{writer_, {.shards = 1, .interval_ns = 100 * ms, .last_epoch = 7}};
    StateOptions options = options_;
    options.schedule = &schedule;
    options.machine_time = [this, pause_ns] {
      return state::MachineTime{
          .boot = boot, .boot_ns = 9'000 * ms, .wall_ns = now().wall_ns + pause_ns};
    };
    StateKeeper keeper(options, options_of(0), first_quotas_, windows_);
    first_quotas_.changed = true;
    EXPECT_TRUE(keep(keeper));
    return header_of(writer_.cuts.back()).time.machine;
  };
  EXPECT_EQ(machine_time_after(15 * ms).boot_ns, 8'985 * ms);
  EXPECT_EQ(machine_time_after(15 * ms).wall_ns, now().wall_ns);
  // Somebody has set the clock.
  EXPECT_EQ(machine_time_after(5'000 * ms).boot_ns, 9'000 * ms);
  EXPECT_EQ(machine_time_after(-3).boot_ns, 9'000 * ms);
}

TEST_F(StateKeeperTest, hands_over_a_part_with_the_facts_of_its_cut) {
  first_quotas_.changed = true;
  first_quotas_.facts = {
      .order = 30, .calendar_wall_ns = 20, .reset_all_order = 10, .complete_since_epoch = 5};
  EXPECT_TRUE(keep(first_));
  ASSERT_EQ(writer_.cuts.size(), 1U);
  const FakeWriter::Cut& cut = writer_.cuts[0];
  EXPECT_EQ(cut.epoch, 8U);
  EXPECT_EQ(cut.shard, 0U);
  EXPECT_EQ(cut.kinds, std::vector<uint8_t>{static_cast<uint8_t>(state::PartKind::quotas)});
  EXPECT_EQ(cut.records_count, 1U);
  EXPECT_EQ(cut.needed_from_epoch, 5U);
  const state::PartHeader header = header_of(cut);
  EXPECT_EQ(header.epoch, 8U);
  EXPECT_EQ(header.shard, 0U);
  EXPECT_EQ(header.shards, 2U);
  EXPECT_EQ(header.time,
            (state::StoredTime{.state_ns = now_ns_,
                               .machine = {.boot = boot, .boot_ns = 3, .wall_ns = 4}}));
  EXPECT_EQ(header.calendar_wall_ns, 20);
  EXPECT_EQ(header.order, 30U);
  EXPECT_EQ(header.reset_all_order, 10U);
}

TEST_F(StateKeeperTest, begins_no_epoch_without_a_change) {
  EXPECT_FALSE(keep(first_));
  EXPECT_FALSE(first_.has_changes());
  EXPECT_EQ(first_.due_ns(), base::never_ns);
  EXPECT_EQ(schedule_.epoch(), 7U);
  schedule_.want(8);
  EXPECT_LE(first_.due_ns(), now_ns_);
  EXPECT_TRUE(keep(first_)) << "somebody waits for it";
  EXPECT_EQ(schedule_.epoch(), 8U);
}

TEST_F(StateKeeperTest, cuts_before_it_reads_what_a_shard_sent_behind_its_own_cut) {
  first_quotas_.changed = true;
  keep(first_);
  EXPECT_EQ(second_.due_ns(), 0);
  second_.before_message();
  ASSERT_EQ(second_quotas_.begun.size(), 1U);
  EXPECT_EQ(second_quotas_.begun[0].epoch, 8U);
  second_.before_message();
  EXPECT_EQ(second_quotas_.begun.size(), 1U) << "once an epoch";
  EXPECT_EQ(writer_.cuts.size(), 1U);
  EXPECT_FALSE(keep(second_)) << "it has not begun the epoch";
  EXPECT_EQ(writer_.cuts.size(), 2U);
  EXPECT_EQ(second_.due_ns(), base::never_ns);
}

TEST_F(StateKeeperTest, cuts_for_an_epoch_that_began_before_its_worker_started) {
  first_quotas_.changed = true;
  keep(first_);
  CutQuotas late_quotas(1);
  StateKeeper late(options_, options_of(1), late_quotas, no_windows_);
  EXPECT_EQ(late.due_ns(), 0);
  keep(late);
  EXPECT_EQ(writer_.cuts_of(8), 2U);
}

TEST_F(StateKeeperTest, hands_over_more_records_in_turns_with_more_calls) {
  first_quotas_.changed = true;
  first_quotas_.steps = 5;
  for (const uint64_t calls : {0, 1, 256, 260, 4'000}) keep(first_, calls);
  EXPECT_EQ(first_quotas_.shares, (std::vector<uint32_t>{1'024, 64, 64, 65, 1'000}));
  EXPECT_EQ(writer_.cuts.size(), 1U);
  keep(first_);
  EXPECT_EQ(first_quotas_.shares.size(), 5U) << "the cut is over";
}

TEST_F(StateKeeperTest, does_not_sleep_while_a_cut_is_under_way) {
  first_quotas_.changed = true;
  first_quotas_.steps = 2;
  keep(first_);
  EXPECT_EQ(first_.due_ns(), 0);
  first_quotas_.changed = true;
  keep(first_);
  EXPECT_EQ(first_.due_ns(), base::never_ns) << "the writer wakes it";
  first_quotas_.changed = false;
  keep(second_);
  writer_.commit(8);
  EXPECT_EQ(first_.due_ns(), base::never_ns) << "there is nothing to write";
  first_quotas_.changed = true;
  // Both steps of its cut took a millisecond.
  EXPECT_EQ(first_.due_ns(), now_ns_ + 100 * ms);
}

TEST_F(StateKeeperTest, counts_the_time_of_all_steps_of_a_cut_alone) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    first_quotas_.changed = true;
    first_quotas_.shares.clear();
    first_quotas_.steps = 4;
    now_ns_ += 1'000 * ms;
    const int64_t begun_ns = now_ns_;
    ASSERT_TRUE(keep(first_));
    end_epoch();
    first_quotas_.changed = true;
    EXPECT_EQ(first_.due_ns(), begun_ns + 50 * 4 * ms) << epoch;
  }
}

TEST_F(StateKeeperTest, passes_on_that_a_lap_begins) {
  writer_.state.log_bytes.store(uint64_t{64} << 20);
  first_quotas_.changed = true;
  keep(first_);
  end_epoch();
  ASSERT_EQ(second_quotas_.begun.size(), 1U);
  EXPECT_TRUE(first_quotas_.begun[0].begins_lap);
  EXPECT_TRUE(second_quotas_.begun[0].begins_lap);
  first_quotas_.changed = true;
  keep(first_);
  EXPECT_FALSE(first_quotas_.begun[1].begins_lap);
}

TEST_F(StateKeeperTest, writes_everything_once_after_each_failed_fsync) {
  for (const int failures : {0, 1, 1, 3}) {
    writer_.state.rewrites_count.store(static_cast<uint64_t>(failures));
    first_quotas_.changed = true;
    keep(first_);
    end_epoch();
  }
  EXPECT_EQ(first_quotas_.begun.size(), 4U);
  EXPECT_EQ(first_quotas_.written_all, 2);
  EXPECT_EQ(second_quotas_.written_all, 2);
  EXPECT_EQ(first_quotas_.written_all_before, 3U) << "before the cut, which has it";
}

TEST_F(StateKeeperTest, promises_the_epoch_that_has_what_changes_now) {
  EXPECT_EQ(first_.epoch_of_changes(), 7U) << "the last of the file";
  EXPECT_TRUE(first_.is_durable(7));
  EXPECT_TRUE(first_.may_promise(now()));
  first_quotas_.changed = second_quotas_.changed = true;
  EXPECT_EQ(first_.epoch_of_changes(), 8U);
  keep(first_);
  first_quotas_.changed = true;
  EXPECT_EQ(first_.epoch_of_changes(), 9U);
  EXPECT_EQ(second_.epoch_of_changes(), 8U) << "it has not cut yet";
  EXPECT_FALSE(first_.is_durable(8));
  end_epoch();
  EXPECT_EQ(second_.epoch_of_changes(), 8U) << "nothing has changed since";
  EXPECT_TRUE(first_.is_durable(8));
  EXPECT_FALSE(first_.is_durable(9));
  first_.want(9);
  EXPECT_TRUE(schedule_.is_wanted());
}

TEST_F(StateKeeperTest, cuts_no_more_when_the_writer_takes_nothing) {
  first_quotas_.changed = true;
  writer_.accepts = false;
  keep(first_);
  EXPECT_TRUE(writer_.cuts.empty());
  writer_.set_status(store::WriterStatus::failed);
  writer_.state.released_epoch.store(8);
  now_ns_ += 10'000 * ms;
  first_quotas_.changed = true;
  EXPECT_EQ(first_.due_ns(), base::never_ns);
  EXPECT_FALSE(keep(first_));
  EXPECT_EQ(first_quotas_.begun.size(), 1U);
  EXPECT_FALSE(first_.may_promise(now()));
  EXPECT_TRUE(first_.has_changes());
}

TEST_F(StateKeeperTest, reports_how_far_the_file_is_behind) {
  const auto behind_ns = [this](int64_t after_ns) {
    ProcessStatistics statistics;
    first_.add_statistics(statistics, {.monotonic_ns = now_ns_ + after_ns, .wall_ns = 0});
    EXPECT_EQ(statistics.state, &writer_.state);
    EXPECT_EQ(statistics.state_is_committed, writer_.state.is_durable(schedule_.epoch()));
    return statistics.state_behind_ns;
  };
  first_quotas_.changed = true;
  keep(first_);
  EXPECT_EQ(behind_ns(30 * ms), 30 * ms);
  second_quotas_.changed = true;  // before its cut, which has it
  end_epoch();
  keep(first_);
  EXPECT_EQ(behind_ns(30 * ms), 0);
  now_ns_ += 3'600'000 * ms;
  first_quotas_.changed = true;
  keep(first_);
  EXPECT_EQ(behind_ns(30 * ms), 30 * ms) << "of the hour nothing can be lost";
  first_quotas_.changed = true;
  now_ns_ += 10 * ms;
  keep(first_);
  end_epoch();
  EXPECT_EQ(behind_ns(0), 100 * ms) << "since the change behind the cut";
  EXPECT_GT(first_.reserved_bytes(), 0U);
}

TEST_F(StateKeeperTest, hands_over_windows_in_parts_of_their_own) {
  acquire(keys_, "a key", 3'600'000);
  EXPECT_TRUE(keep(first_)) << "a share is due, although no quota has changed";
  while (writer_.cuts.back().parts.size() < 2) {  // the key is in one of the lap's shares
    while (second_.due_ns() == 0) keep(second_);
    writer_.commit(schedule_.epoch());
    now_ns_ += 1'000 * ms;
    ASSERT_TRUE(keep(first_));
  }
  const FakeWriter::Cut& cut = writer_.cuts.back();
  EXPECT_EQ(cut.kinds, (std::vector<uint8_t>{1, 2}));
  EXPECT_EQ(cut.records_count, 2U);
  auto reader = state::PartReader::open(cut.parts.at(1)).value();
  state::PartHeader expected = header_of(cut);
  expected.records_bytes = reader.header().records_bytes;
  EXPECT_EQ(reader.header(), expected);
  EXPECT_EQ(std::get<state::WindowRecord>(reader.next().value()).key, "a key");
}

TEST_F(StateKeeperTest, a_turn_that_decides_on_keys_is_not_idle) {
  first_quotas_.changed = true;
  first_quotas_.steps = 4;
  keep(first_);
  for (const int64_t window_ms : {1'000, 3'600'000}) {
    acquire(keys_, "a", window_ms);
    keep(first_);
  }
  keep(first_);
  EXPECT_EQ(first_quotas_.shares, (std::vector<uint32_t>{1'024, 64, 64, 1'024}));
}

TEST_F(StateKeeperTest, hands_over_many_windows_in_several_turns) {
  shard::KeyShard many({.keys_max = 100'000, .kept_window_ms = 60'000});
  for (int number = 0; number < 20'000; ++number) acquire(many, std::to_string(number), 60'000);
  WindowKeeper windows(options_, {.keys_max = 100'000, .kept_window_ms = 60'000}, many);
  StateKeeper keeper(options_, options_of(0), first_quotas_, windows);
  int turns = 1;
  for (keep(keeper); keeper.due_ns() == 0; keep(keeper)) ++turns;
  EXPECT_GT(turns, 1);
  EXPECT_EQ(first_quotas_.shares.size(), 1U);
  EXPECT_EQ(writer_.cuts_of(8), 1U);
}

TEST_F(StateKeeperTest, does_nothing_where_no_state_is_kept) {
  StateKeeper keeper({}, options_of(0), first_quotas_, no_windows_);
  first_quotas_.changed = true;
  keeper.before_message();
  EXPECT_FALSE(keeper.is_on());
  EXPECT_FALSE(keep(keeper));
  EXPECT_FALSE(keeper.has_changes());
  EXPECT_EQ(keeper.due_ns(), base::never_ns);
  EXPECT_EQ(keeper.reserved_bytes(), 0U);
  ProcessStatistics statistics;
  keeper.add_statistics(statistics, now());
  EXPECT_EQ(statistics.state, nullptr);
  EXPECT_TRUE(first_quotas_.begun.empty());
}

// ------------------------------------------------------------------------- with a real store

class KeptStore : public testing::Test {
 protected:
  static quota::Options options() {
    quota::Options options = options_of(0);
    options.shards = 1;
    options.subjects_max = options.reservations_max = 5'000;
    return options;
  }
  void cut() {
    driver_.advance_ms(1'000);
    do keeper_.keep(driver_.now(), 1);
    while (keeper_.due_ns() == 0);
    writer_.commit(schedule_.epoch());
  }
  static std::map<std::string, int> subjects_in(const FakeWriter::Cut& cut) {
    std::map<std::string, int> names;
    for (const auto& part : cut.parts) {
      auto reader = state::PartReader::open(part);
      EXPECT_TRUE(reader);
      while (const auto record = reader->next()) {
        if (const auto* subject = std::get_if<state::StoredSubject>(&*record)) {
          ++names[std::string(subject->name)];
        }
      }
      EXPECT_FALSE(reader->damage());
    }
    return names;
  }

  FakeWriter writer_;
  CutSchedule schedule_{writer_, {.interval_ns = 100 * ms}};
  quota::StoreDriver driver_{options()};
  shard::KeyShard keys_{{.keys_max = 100}};
  WindowKeeper no_windows_{{}, {}, keys_};
  StateKeeper keeper_{{.schedule = &schedule_,
                       .machine_time = [] { return state::MachineTime{}; },
                       .cpu_ns = [] { return int64_t{0}; }},
                      options(),
                      driver_.store,
                      no_windows_};
};

TEST_F(KeptStore, every_change_is_in_some_cut_once) {
  const api::Quota quota = quota::quota_of({quota::rpm(1'000)});
  for (int i = 0; i < 500; ++i) driver_.put(quota::numbered("s", i), quota.limits);
  cut();
  ASSERT_EQ(writer_.cuts.size(), 1U);
  const FakeWriter::Cut& cut = writer_.cuts[0];
  const auto names = subjects_in(cut);
  EXPECT_EQ(names.size(), 500U);
  EXPECT_TRUE(std::ranges::all_of(names, [](const auto& each) { return each.second == 1; }));
  EXPECT_EQ(cut.records_count, 500U);
  const std::string text = quota::quota_text(quota);
  EXPECT_EQ(cut.classes, (std::vector<FakeWriter::Class>{{quota::class_id(text), text}}));
  ASSERT_EQ(cut.changes.size(), 500U);
  EXPECT_TRUE(std::ranges::all_of(cut.changes, [&](const FakeWriter::Change& change) {
    return names.contains(change.name) && change.quota == text && change.put_at > 0;
  }));
}

TEST_F(KeptStore, a_cut_has_only_what_changed_since_the_last_one) {
  for (const char* name : {"a", "b"}) driver_.put(name, {quota::rpm(1'000)});
  cut();
  EXPECT_FALSE(keeper_.has_changes());
  driver_.reserve({"b"}, quota::asking({.requests = 1}));
  EXPECT_TRUE(keeper_.has_changes());
  cut();
  ASSERT_EQ(writer_.cuts.size(), 2U);
  EXPECT_EQ(subjects_in(writer_.cuts[1]), (std::map<std::string, int>{{"b", 1}}));
  EXPECT_TRUE(writer_.cuts[1].changes.empty());
  EXPECT_TRUE(writer_.cuts[1].classes.empty());
}

// The writer reads them on its own thread.
TEST_F(KeptStore, what_was_handed_over_stays_until_the_next_epoch) {
  driver_.put("a", {quota::rpm(1'000)});
  driver_.advance_ms(1'000);
  keeper_.keep(driver_.now(), 1);
  for (int i = 0; i < 100; ++i) {
    driver_.reserve({"a"}, quota::asking({.requests = 1}));
    driver_.advance_ms(1'000);
    keeper_.keep(driver_.now(), 1);
  }
  ASSERT_EQ(writer_.cuts.size(), 1U);
  const FakeWriter::Cut& cut = writer_.cuts[0];
  for (size_t part = 0; part < cut.parts.size(); ++part) {
    EXPECT_TRUE(std::ranges::equal(cut.parts[part], cut.lent[part]));
  }
}

}  // namespace
}  // namespace sluice::server
