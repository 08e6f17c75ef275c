// Goal:   a server that starts with the new file has the usage that the library had, with any
//         number of shards; what cannot be written leaves nothing behind.
// Method: real files; a store that starts with them at a time of the test's choosing.
#include "migration/new_state.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "migration/model_quota.hpp"
#include "store/check.hpp"
#include "store/file_lock.hpp"
#include "support/migrated_state.hpp"
#include "support/stored_state.hpp"
#include "support/temporary_folder.hpp"

namespace sluice::migration {
namespace {

using test::file_wall_ns;
using test::StartedServer;
using transfer::GoRatelimitFile;

constexpr int64_t s = base::ns_per_s;

const GoRatelimitFile file{
    .quotas = {{"idle", {.max_rpm = 2}}, {"used", {.max_rpm = 10, .max_tpm = 100, .max_rpd = 50}}},
    .usage = {{"used",
               {.requests_wall_ns = {file_wall_ns - 50 * s, file_wall_ns - 10 * s, file_wall_ns},
                .tokens = {{.wall_ns = file_wall_ns - 50 * s, .count = 40},
                           {.wall_ns = file_wall_ns, .count = 30}},
                .day_start_wall_ns = file_wall_ns - 3'600 * s,
                .day_count = 48}}}};

class NewStateTest : public testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(each.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string refusal() const {
    try {
      test::import_at(file, path_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "it is not refused";
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("new");
};

TEST_F(NewStateTest, a_server_has_the_usage_and_decides_by_it) {
  test::import_at(file, path_);
  StartedServer server(path_, file_wall_ns);
  EXPECT_EQ(server->used("used", "rpm"), 3U);
  EXPECT_EQ(server->used("used", "tpm"), 70U);
  EXPECT_EQ(server->used("used", "rpd"), 48U);
  EXPECT_EQ(server->reserve({"used"}, quota::asking_tokens(31)).code, api::QuotaCode::tpm_exceeded);
  EXPECT_EQ(server->reserve({"used"}, quota::asking_tokens(30)).code, api::QuotaCode::ok);
  EXPECT_EQ(server->reserve({"used"}, quota::asking_tokens(0)).code, api::QuotaCode::ok);
  EXPECT_EQ(server->reserve({"used"}, quota::asking_tokens(0)).code, api::QuotaCode::rpd_exceeded);
  EXPECT_EQ(server->row("used").source, api::QuotaSource::run_time);
  EXPECT_EQ(server->limit("idle", "rpm").amount, 2U);
}

TEST_F(NewStateTest, time_goes_on_until_the_server_starts) {
  test::import_at(file, path_);
  StartedServer server(path_, file_wall_ns + 30 * s);
  EXPECT_EQ(server->used("used", "rpm"), 2U);
  EXPECT_EQ(server->used("used", "tpm"), 30U);
  server->advance_ns(34 * s);
  EXPECT_EQ(server->used("used", "rpm"), 0U);
  EXPECT_EQ(server->limit("used", "rpd").reset_ms, (86'400 - 3'600 - 64) * 1'000);
  StartedServer late(path_, file_wall_ns + 23 * 3'600 * s);
  EXPECT_EQ(late->used("used", "rpd"), 0U) << "its day is over";
}

// What is used belongs to the quota that is printed for the configuration file.
TEST_F(NewStateTest, usage_waits_for_a_quota_of_the_configuration_file) {
  test::import_at(file, path_, file_wall_ns, false);
  policy::QuotaRules rules;
  rules.rules.push_back(
      {.subject = "used", .quota = quota_of({.max_rpm = 10, .max_tpm = 100, .max_rpd = 50})});
  StartedServer server(path_, file_wall_ns, rules);
  EXPECT_EQ(server->used("used", "rpd"), 48U);
  EXPECT_EQ(server->row("used").source, api::QuotaSource::file);
  EXPECT_EQ(server->row("idle").source, api::QuotaSource::none);
  EXPECT_EQ(server.restored().subjects, 1U) << "one without usage needs no record";
}

TEST_F(NewStateTest, several_subjects_share_a_quota) {
  GoRatelimitFile many;
  for (int number = 0; number < 3'000; ++number) {
    const std::string name = quota::numbered("model-", number);
    many.quotas[name] = {.max_rpm = 1 + number % 2};
    many.usage[name].requests_wall_ns = {file_wall_ns};
  }
  test::import_at(many, path_);
  EXPECT_EQ(test::read_content(path_).classes.size(), 2U);
  StartedServer server(path_, file_wall_ns);
  EXPECT_EQ(server.restored().subjects, 1'000U) << "as many as it has room for";
  EXPECT_EQ(server.restored().subjects_left_out, 2'000U);
}

// The library has no bound of names, and a server's is a flag.
TEST_F(NewStateTest, a_server_leaves_out_names_that_are_too_long_for_it) {
  const std::string longest(limits::key_bytes_max, 'x');
  GoRatelimitFile names{
      .quotas = {{"m", {.max_rpm = 1}}, {std::string(2'000, 'y'), {.max_rpm = 1}}}, .usage = {}};
  names.quotas[longest] = {.max_rpm = 1};
  names.usage[longest].requests_wall_ns = {file_wall_ns};
  EXPECT_EQ(test::import_at(names, path_).subjects.size(), 3U);
  StartedServer server(path_, file_wall_ns);
  EXPECT_EQ(server.restored().subjects, 1U);
  EXPECT_EQ(server.restored().subjects_left_out, 2U) << "with usage, and without";
}

TEST_F(NewStateTest, is_a_sound_file_of_this_program) {
  test::import_at(file, path_);
  EXPECT_EQ(files(), (std::vector<std::string>{"new", "new.lock"}));
  const auto status = std::filesystem::status(path_).permissions();
  EXPECT_EQ(status & std::filesystem::perms::all,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const server::StoredFile stored(path_);
  EXPECT_EQ(stored.shards_count(), 1U);
  EXPECT_EQ(stored.seeds()->name_seed, test::file_seeds.name_seed);
  EXPECT_EQ(stored.last_time()->machine, test::machine_at(file_wall_ns));
  EXPECT_TRUE(store::StateFile::open({.path = path_}));
  const test::Content content = test::read_content(path_);
  ASSERT_EQ(content.parts.size(), 1U);
  const auto header = state::read_header(test::as_bytes(content.parts[0].bytes));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->order, static_cast<uint64_t>(header->time.state_ns)) << "as of any call then";
}

TEST_F(NewStateTest, a_file_without_usage_has_its_quotas) {
  test::import_at({.quotas = {{"a", {.max_rpm = 1}}}, .usage = {}}, path_);
  StartedServer server(path_, file_wall_ns);
  EXPECT_EQ(server->limit("a", "rpm").amount, 1U);
}

TEST_F(NewStateTest, never_overwrites) {
  test::write_file(path_, "mine");
  EXPECT_EQ(refusal(),
            path_ + ": it exists already (File exists); name a file that does not exist");
  EXPECT_EQ(test::read_file(path_), "mine");
  EXPECT_EQ(files(), (std::vector<std::string>{"new"}));
}

TEST_F(NewStateTest, never_replaces_a_link) {
  std::filesystem::create_symlink("missing", path_);
  EXPECT_NE(refusal().find("it exists already"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_THROW(check_new_state_place(path_), std::runtime_error);
}

TEST_F(NewStateTest, can_be_refused_before_any_work) {
  EXPECT_NO_THROW(check_new_state_place(path_));
  test::write_file(path_ + "-wal", "commits");
  EXPECT_THROW(check_new_state_place(path_), std::runtime_error);
  test::write_file(path_, "mine");
  EXPECT_THROW(check_new_state_place(path_), std::runtime_error);
  EXPECT_EQ(files(), (std::vector<std::string>{"new", "new-wal"})) << "and no lock";
}

TEST_F(NewStateTest, refuses_the_place_of_a_file_that_was_moved_away) {
  test::write_file(path_ + "-wal", "commits");
  EXPECT_NE(refusal().find("there is a FILE-wal without its file"), std::string::npos) << refusal();
  EXPECT_EQ(files(), std::vector<std::string>{"new-wal"});
}

TEST_F(NewStateTest, leaves_nothing_where_it_may_not_write) {
  const std::string in_missing = folder_.file("missing/new");
  EXPECT_THROW(test::import_at(file, in_missing), std::runtime_error);
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(NewStateTest, refuses_the_place_that_a_server_has_locked) {
  const auto lock = store::FileLock::take(path_).value();
  EXPECT_TRUE(refusal().starts_with(path_ + ": another process uses it"));
  EXPECT_EQ(files(), std::vector<std::string>{"new.lock"});
}

}  // namespace
}  // namespace sluice::migration
