// Files that Go's yaml.v3 and modernc.org/sqlite write are read as they are meant, one with the log
// of a crash too; and what is written here is read by them, as go-ratelimit does it.
// Method: go_ratelimit/main.go, built by tools/setup, makes files up and prints what a file has.
// SEED=n repeats a run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "property/seeds.hpp"
#include "support/go_ratelimit_sample.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_folder.hpp"
#include "text/json.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::transfer {
namespace {

// Exit status 0 and its output into the file, or a failure.
void run_go(std::vector<std::string> arguments, const std::string& output) {
  const std::string program = (test::source_folder() / ".venv/bin/go_ratelimit_files").string();
  ASSERT_EQ(::access(program.c_str(), X_OK), 0) << program << " is missing: run tools/setup";
  arguments.insert(arguments.begin(), program);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ASSERT_EQ(posix_spawn_file_actions_init(&actions), 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  ASSERT_EQ(posix_spawn(&process, program.c_str(), &actions, nullptr, pointers.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

ModelUsage usage_of(const text::Json& json) {
  ModelUsage usage{.day_count = json.at("day_count").get<int64_t>()};
  for (const text::Json& request : json.at("requests")) {
    usage.requests_wall_ns.push_back(request.get<int64_t>());
  }
  for (const text::Json& event : json.at("tokens")) {
    usage.tokens.push_back(
        {.wall_ns = event.at(0).get<int64_t>(), .count = event.at(1).get<int64_t>()});
  }
  const text::Json& day_start = json.at("day_start");
  if (!day_start.is_null()) usage.day_start_wall_ns = day_start.get<int64_t>();
  // main.go has them in the order of the file.
  std::ranges::sort(usage.requests_wall_ns);
  std::ranges::stable_sort(usage.tokens, {}, &TokenEvent::wall_ns);
  return usage;
}

// What main.go says that a file has.
GoRatelimitFile said_in(const std::string& path) {
  const text::ParsedJson parsed = text::parse_json(test::file_text(path));
  EXPECT_EQ(parsed.complaint, "");
  GoRatelimitFile file;
  for (const auto& [name, quota] : parsed.value.at("quotas").items()) {
    file.quotas[name] = {.max_rpm = quota.at("max_rpm").get<int64_t>(),
                         .max_tpm = quota.at("max_tpm").get<int64_t>(),
                         .max_rpd = quota.at("max_rpd").get<int64_t>()};
  }
  for (const auto& [name, usage] : parsed.value.at("state").items()) {
    file.usage[name] = usage_of(usage);
  }
  return file;
}

class GoRatelimitFiles : public ::testing::Test {
 protected:
  void make_up(uint64_t seed) {
    run_go({"write", std::to_string(seed % INT64_MAX), folder.path().string()}, folder.file("out"));
  }
  void expect_read(const std::string& name, const GoRatelimitFile& file) {
    const Complained<GoRatelimitFile> read = read_go_ratelimit(folder.file(name));
    ASSERT_TRUE(read) << name << ": " << test::lines_of(read);
    EXPECT_TRUE(*read == file) << name;
  }
  void expect_said(const std::string& name, const GoRatelimitFile& file) {
    run_go({"read", folder.file(name)}, folder.file(name + ".json"));
    EXPECT_TRUE(said_in(folder.file(name + ".json")) == file) << name;
  }

  const test::TemporaryFolder folder{test::TemporaryFolder::memory()};
};

TEST_F(GoRatelimitFiles, are_read_from_go_and_by_go) {
  size_t models_count = 0;
  size_t index = 0;
  for (const uint64_t seed : property_seeds(8)) {
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(make_up(seed));
    const GoRatelimitFile file = said_in(folder.file("expected.json"));
    models_count += file.quotas.size() + file.usage.size();
    expect_read("state.yaml", file);
    expect_read("state.db", file);
    expect_read("crashed.db", file);
    const std::string ours = "ours" + std::to_string(index++);
    ASSERT_TRUE(write_go_ratelimit_yaml(folder.file(ours + ".yaml"), file));
    ASSERT_TRUE(write_go_ratelimit_sqlite(folder.file(ours + ".db"), file));
    ASSERT_NO_FATAL_FAILURE(expect_said(ours + ".yaml", file));
    ASSERT_NO_FATAL_FAILURE(expect_said(ours + ".db", file));
    // Go has opened it as its own.
    expect_read(ours + ".db", file);
  }
  EXPECT_GT(models_count, 0u);
}

TEST_F(GoRatelimitFiles, have_names_that_go_can_read) {
  GoRatelimitFile file;
  std::string name;
  for (uint32_t value = 0; value < 0x20000; ++value) {
    const bool is_surrogate = value >= 0xD800 && value < 0xE000;
    const bool is_refused =
        value == 0x7F || (value >= 0xFDD0 && value <= 0xFDEF) || value % 0x10000 >= 0xFFFE;
    if (!is_surrogate && !is_refused) name += test::utf8_of(value);
    if (value % 1'000 == 999) file.quotas[std::exchange(name, {})] = {.max_rpm = value};
  }
  ASSERT_TRUE(write_go_ratelimit_yaml(folder.file("f"), file));
  expect_said("f", file);
}

}  // namespace
}  // namespace sluice::transfer
