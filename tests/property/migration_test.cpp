// Whatever a file of go-ratelimit has, a server that starts with its import counts what the library
// counts, and forgets it at most a sub-window later; an export has the same again, and so has the
// import of that.
// Method: random files and times, with events around each edge; the library's own counting beside
// the server's. SEED=n repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "migration/model_quota.hpp"
#include "migration/outgoing.hpp"
#include "migration/stored_subjects.hpp"
#include "property/seeds.hpp"
#include "support/migrated_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::migration {
namespace {

using test::file_wall_ns;
using test::LibraryCount;
using test::StartedServer;
using transfer::GoRatelimitFile;
using transfer::ModelUsage;

constexpr int64_t s = base::ns_per_s;
constexpr int64_t sub_window_ns = 4 * s;
const std::string model = "model";

class Maker {
 public:
  explicit Maker(Dice& dice) : dice_(dice) {}

  GoRatelimitFile file() {
    GoRatelimitFile file;
    file.quotas[model] = {
        .max_rpm = amount(200), .max_tpm = amount(20'000), .max_rpd = amount(500)};
    file.quotas["another"] = {.max_rpm = amount(9)};
    ModelUsage& usage = file.usage[model];
    for (uint64_t count = dice_.below(100); count > 0; --count) {
      usage.requests_wall_ns.push_back(event_wall_ns());
      if (dice_.percent(20)) continue;  // the library has as many of both; files of others may not
      const int64_t at = dice_.percent(90) ? usage.requests_wall_ns.back() : event_wall_ns();
      usage.tokens.push_back({.wall_ns = at, .count = dice_.between(0, 500)});
    }
    std::ranges::sort(usage.requests_wall_ns);
    std::ranges::sort(usage.tokens, {}, &transfer::TokenEvent::wall_ns);
    if (dice_.percent(10)) return file;
    usage.day_start_wall_ns = file_wall_ns - base::ns_per_day + near(12 * 3'600 * s);
    usage.day_count = dice_.between(0, 600);
    return file;
  }

 private:
  int64_t amount(int64_t max) { return dice_.percent(20) ? 0 : dice_.between(1, max); }
  // Often at an edge, or a nanosecond beside it.
  int64_t near(int64_t max_ns) {
    if (dice_.percent(20)) return dice_.between(-1, 1);
    return dice_.between(0, max_ns);
  }
  int64_t event_wall_ns() {
    if (dice_.percent(5)) return file_wall_ns + dice_.between(-1, 100 * s);
    if (dice_.percent(10)) return file_wall_ns - 60 * s + dice_.between(-1, 1);
    const int64_t ns = dice_.between(0, 70 * s);
    const bool at_edge = dice_.percent(20);  // of a sub-window
    return file_wall_ns - ns -
           (at_edge ? (file_wall_ns - ns) % sub_window_ns - dice_.between(-1, 1) : 0);
  }

  Dice& dice_;
};

struct Used {
  uint64_t requests = 0;
  uint64_t tokens = 0;
  uint64_t day = 0;
  bool operator==(const Used&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Used& used) {
  return out << used.requests << " requests, " << used.tokens << " tokens, " << used.day
             << " of the day";
}

Used used_of(StartedServer& server) {
  return {.requests = server->used(model, "rpm"),
          .tokens = server->used(model, "tpm"),
          .day = server->used(model, "rpd")};
}

Used used_of(const LibraryCount& library, int64_t wall_ns) {
  return {.requests = library.requests(wall_ns),
          .tokens = library.tokens(wall_ns),
          .day = library.day(wall_ns)};
}

// Denied by the library's first limit that has no room, in its order.
api::QuotaCode library_code(const transfer::ModelQuota& quota, const Used& used, uint64_t tokens) {
  const auto denies = [](int64_t max, uint64_t is_used, uint64_t asked) {
    return max > 0 && is_used + asked > static_cast<uint64_t>(max);
  };
  if (quota == transfer::ModelQuota{}) return api::QuotaCode::unlimited;
  if (denies(quota.max_rpd, used.day, 1)) return api::QuotaCode::rpd_exceeded;
  if (denies(quota.max_rpm, used.requests, 1)) return api::QuotaCode::rpm_exceeded;
  return denies(quota.max_tpm, used.tokens, tokens) ? api::QuotaCode::tpm_exceeded
                                                    : api::QuotaCode::ok;
}

class MigrationProperty : public testing::Test {
 protected:
  std::string next_path() { return folder_.file("state" + std::to_string(++files_)); }

  static Outgoing export_at(const std::string& path, int64_t wall_ns) {
    const auto clock = [&] { return test::machine_at(wall_ns); };
    return outgoing_of(read_stored_subjects(path, nullptr, clock), nullptr);
  }

 private:
  const test::TemporaryFolder folder_{test::TemporaryFolder::memory()};
  int files_ = 0;
};

TEST_F(MigrationProperty, a_server_counts_and_decides_as_the_library) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    const GoRatelimitFile file = Maker(dice).file();
    const std::string path = next_path();
    test::import_at(file, path);
    const LibraryCount library(file.usage.at(model), file_wall_ns);
    StartedServer server(path, file_wall_ns);
    const Used present = used_of(library, file_wall_ns);
    ASSERT_EQ(used_of(server), present);
    const auto tokens = dice.below(1'000);
    const api::QuotaCode expected = library_code(file.quotas.at(model), present, tokens);
    const api::QuotaCode code = server->check({model}, quota::asking_tokens(tokens)).code;
    // ADR 0012: what never fits has a code of its own.
    if (code != api::QuotaCode::exceeds_limit) {
      ASSERT_EQ(code, expected);
    }
    int64_t wall_ns = file_wall_ns;
    while (wall_ns < file_wall_ns + 70 * s) {
      const int64_t step_ns = dice.between(1, 5 * s);
      wall_ns += step_ns;
      server->advance_ns(step_ns);
      const Used used = used_of(server);
      const Used least = used_of(library, wall_ns);
      const Used most = used_of(library, wall_ns - sub_window_ns);
      ASSERT_GE(used.requests, least.requests) << "forgotten early";
      ASSERT_LE(used.requests, most.requests);
      ASSERT_GE(used.tokens, least.tokens);
      ASSERT_LE(used.tokens, most.tokens);
      ASSERT_EQ(used.day, least.day);
    }
  }
}

// theirs -> ours -> theirs
TEST_F(MigrationProperty, an_export_has_every_event_at_most_a_sub_window_later) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    const GoRatelimitFile file = Maker(dice).file();
    const std::string path = next_path();
    test::import_at(file, path);
    const Outgoing outgoing = export_at(path, file_wall_ns);
    ASSERT_EQ(outgoing.file.quotas, file.quotas);
    const LiveUsage before = live_usage(file.usage.at(model), file_wall_ns);
    const auto found = outgoing.file.usage.find(model);
    const ModelUsage after = found == outgoing.file.usage.end() ? ModelUsage{} : found->second;
    ASSERT_EQ(after.requests_wall_ns.size(), before.requests_wall_ns.size());
    for (size_t at = 0; at < after.requests_wall_ns.size(); ++at) {
      const int64_t later_ns = after.requests_wall_ns[at] - before.requests_wall_ns[at];
      ASSERT_TRUE(later_ns >= 0 && later_ns < sub_window_ns) << later_ns;
    }
    ASSERT_EQ(live_usage(after, file_wall_ns).day, before.day);
    for (int64_t wall_ns = file_wall_ns; wall_ns < file_wall_ns + 64 * s; wall_ns += s) {
      const uint64_t sum = LibraryCount(after, file_wall_ns).tokens(wall_ns);
      ASSERT_GE(sum, LibraryCount(file.usage.at(model), file_wall_ns).tokens(wall_ns));
      ASSERT_LE(sum,
                LibraryCount(file.usage.at(model), file_wall_ns).tokens(wall_ns - sub_window_ns));
    }
  }
}

// ours -> theirs -> ours
TEST_F(MigrationProperty, an_import_of_an_export_decides_alike_ever_after) {
  for (const uint64_t seed : property_seeds(150)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    const std::string path = next_path();
    const std::string again = next_path();
    test::import_at(Maker(dice).file(), path);
    const int64_t wall_ns = file_wall_ns + dice.between(0, 70 * s);
    const Outgoing outgoing = export_at(path, wall_ns);
    test::import_at(outgoing.file, again, wall_ns);
    const Outgoing same = export_at(again, wall_ns);
    ASSERT_EQ(same.file, outgoing.file) << "the sums of each sub-window";
    StartedServer first(path, wall_ns);
    StartedServer second(again, wall_ns);
    for (int64_t step_ns = 0, all_ns = 0; all_ns < 70 * s; all_ns += step_ns) {
      ASSERT_EQ(used_of(first), used_of(second));
      ASSERT_EQ(first->limit(model, "rpd").reset_ms, second->limit(model, "rpd").reset_ms);
      step_ns = dice.between(1, 5 * s);
      first->advance_ns(step_ns);
      second->advance_ns(step_ns);
      const auto call = quota::asking_tokens(dice.below(200));
      ASSERT_EQ(first->reserve({model}, call).code, second->reserve({model}, call).code);
    }
  }
}

// What a server has done: sub-windows that begin anywhere, reservations that are open.
class Lived {
 public:
  Lived(Dice& dice, const std::string& path, bool begins_in_place) : dice_(dice), file_(path) {
    driver_.wall_ns = file_wall_ns;
    driver_.ns = 1'000 * s + (begins_in_place ? file_wall_ns % (60 * s) : dice.between(0, 60 * s));
    driver_.put(model, quota_of({.max_rpm = 200, .max_tpm = 20'000, .max_rpd = 500}));
    for (uint64_t calls = dice.below(100); calls > 0; --calls) call();
    file_.commit(driver_);
  }

  int64_t wall_ns() const { return driver_.wall_ns; }

 private:
  void call() {
    driver_.advance_ns(dice_.between(0, 3 * s));
    const uint64_t tokens = dice_.below(500);
    if (dice_.percent(50)) {
      driver_.record({model}, {.requests = dice_.below(3), .input_tokens = tokens});
      return;
    }
    auto asked = quota::asking_tokens(tokens);
    asked.lifetime_ms = 3'600'000;
    const uint64_t reservation = driver_.reserve({model}, asked).reservation;
    if (reservation == 0 || dice_.percent(10)) return;
    driver_.advance_ns(dice_.between(0, 9 * s));
    if (dice_.percent(20)) {
      driver_.cancel(reservation);
    } else {
      driver_.settle(reservation, dice_.below(500));
    }
  }

  Dice& dice_;
  test::WrittenState file_;
  quota::StoreDriver driver_{test::written_options};
};

TEST_F(MigrationProperty, what_a_server_has_done_moves_there_and_back) {
  for (const uint64_t seed : property_seeds(100)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    const bool begins_in_place = dice.percent(50);
    const std::string path = next_path();
    const std::string again = next_path();
    const Lived lived(dice, path, begins_in_place);
    const int64_t wall_ns = lived.wall_ns() + dice.between(0, 30 * s);
    test::import_at(export_at(path, wall_ns).file, again, wall_ns);
    StartedServer first(path, wall_ns);
    StartedServer ahead(path, wall_ns);
    StartedServer second(again, wall_ns);
    ahead->advance_ns(sub_window_ns);
    ASSERT_EQ(used_of(second), used_of(first));
    std::vector<Used> earlier;  // of each second
    for (int second_number = 0; second_number < 70; ++second_number) {
      const Used used = used_of(second);
      if (begins_in_place) {
        ASSERT_EQ(used, used_of(first)) << second_number;
      }
      earlier.push_back(used_of(first));
      const Used& most = earlier[static_cast<size_t>(std::max(second_number - 4, 0))];
      ASSERT_GE(used.requests, used_of(ahead).requests);
      ASSERT_LE(used.requests, most.requests);
      ASSERT_GE(used.tokens, used_of(ahead).tokens);
      ASSERT_LE(used.tokens, most.tokens);
      ASSERT_EQ(used.day, used_of(first).day);
      for (StartedServer* const each : {&first, &ahead, &second}) (*each)->advance_ns(s);
    }
  }
}

TEST_F(MigrationProperty, both_formats_have_all_of_it) {
  for (const uint64_t seed : property_seeds(5)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    Dice dice(seed);
    const std::string path = next_path();
    test::import_at(Maker(dice).file(), path);
    const GoRatelimitFile file = export_at(path, file_wall_ns).file;
    const std::string yaml = next_path();
    const std::string sqlite = next_path();
    ASSERT_TRUE(transfer::write_go_ratelimit_yaml(yaml, file));
    ASSERT_TRUE(transfer::write_go_ratelimit_sqlite(sqlite, file));
    ASSERT_EQ(transfer::read_go_ratelimit(yaml).value(), file);
    ASSERT_EQ(transfer::read_go_ratelimit(sqlite).value(), file);
  }
}

}  // namespace
}  // namespace sluice::migration
