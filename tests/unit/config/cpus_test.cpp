// The server uses as many CPUs as the process may. Method: folders that look like the cgroup file
// systems of a bare machine and of containers, and the affinity of a thread of its own.
#include "config/cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/failing_calls.hpp"

namespace sluice::config {
namespace {

namespace fs = std::filesystem;

class CgroupQuota : public ::testing::Test {
 protected:
  CgroupQuota() : root_(fs::path(testing::TempDir()) / ("cgroup_" + std::to_string(getpid()))) {
    fs::create_directories(root_);
  }
  ~CgroupQuota() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  void write_v1(const std::string& folder, const std::string& quota_us) const {
    write(folder + "/cpu.cfs_quota_us", quota_us + "\n");
    write(folder + "/cpu.cfs_period_us", "100000\n");
  }

  std::optional<uint32_t> quota(const std::string& membership) const {
    return cgroup_quota(membership, root_.string());
  }

  fs::path root_;
};

TEST_F(CgroupQuota, is_none_where_nothing_is_mounted) {
  EXPECT_EQ(quota("0::/user.slice/session\n4:cpu,cpuacct:/user.slice\n"), std::nullopt);
  EXPECT_EQ(quota(""), std::nullopt);
}

TEST_F(CgroupQuota, of_version_2_is_rounded_down) {
  write("app/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota("0::/app\n"), 3u);
}

TEST_F(CgroupQuota, of_less_than_one_cpu_still_runs_one_worker) {
  write("app/cpu.max", "5000 100000\n");
  EXPECT_EQ(quota("0::/app\n"), 1u);
}

TEST_F(CgroupQuota, max_does_not_limit) {
  write("app/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/app\n"), std::nullopt);
}

TEST_F(CgroupQuota, of_a_parent_holds_for_its_children) {
  write("slice/cpu.max", "200000 100000\n");
  write("slice/app/cpu.max", "800000 100000\n");
  write("slice/app/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/slice/app/worker\n"), 2u);
  EXPECT_EQ(quota("0::/slice/app\n"), 2u);
}

TEST_F(CgroupQuota, of_the_mount_holds_in_a_container) {
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 3u);
  EXPECT_EQ(quota("0::/docker/0123456789\n"), 3u) << "the path of the machine outside";
  EXPECT_EQ(quota("0::/../outside\n"), 3u);
}

TEST_F(CgroupQuota, of_another_group_does_not_matter) {
  write("other/cpu.max", "100000 100000\n");
  write("application/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota("0::/app\n"), std::nullopt);
}

TEST_F(CgroupQuota, is_never_looked_for_outside_the_mount) {
  write("outside/cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_quota("0::/../outside\n", (root_ / "mount").string()), std::nullopt);
}

TEST_F(CgroupQuota, of_version_1_is_found_under_either_name_of_its_mount) {
  write_v1("cpu,cpuacct/app", "250000");
  EXPECT_EQ(quota("9:name=systemd:/\n4:cpu,cpuacct:/app\n"), 2u);
  EXPECT_EQ(quota("4:cpuacct:/app\n"), std::nullopt);
  write_v1("cpu", "400000");
  EXPECT_EQ(quota("4:cpu:/app\n"), 4u);
  EXPECT_EQ(quota("4:cpu,cpuacct:/app\n"), 2u);
}

TEST_F(CgroupQuota, of_minus_one_does_not_limit_in_version_1) {
  write_v1("cpu/app", "-1");
  EXPECT_EQ(quota("1:cpu:/app\n"), std::nullopt);
}

TEST_F(CgroupQuota, the_tighter_of_both_versions_holds) {
  write("app/cpu.max", "600000 100000\n");
  write_v1("cpu/app", "200000");
  EXPECT_EQ(quota("1:cpu:/app\n0::/app\n"), 2u);
}

TEST(CpuMax, takes_the_kernels_text_and_nothing_else) {
  EXPECT_EQ(parse_cpu_max("200000 100000"), 2u);
  EXPECT_EQ(parse_cpu_max("200000 100000\n"), 2u);
  EXPECT_EQ(parse_cpu_max("99999999999999 1"), UINT32_MAX);
  for (const char* text : {"", "\n", "max", "max 100000", "200000", "200000 0", "0 100000", "a b",
                           "200000 x", "-1 100000", "200000 -5", "99999999999999999999 1"}) {
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << text;
  }
}

TEST(UsableCpus, are_as_many_as_affinity_and_quota_allow) {
  EXPECT_EQ((UsableCpus{.numbers = {0, 1, 5}}).count(), 3u);
  EXPECT_EQ((UsableCpus{.numbers = {0, 1, 5}, .quota = 2}).count(), 2u);
  EXPECT_EQ((UsableCpus{.numbers = {7}, .quota = 8}).count(), 1u);
}

TEST(UsableCpus, of_this_process_are_those_it_runs_on) {
  const UsableCpus cpus = usable_cpus();
  EXPECT_EQ(cpus.numbers, affinity_cpus());
  EXPECT_GE(cpus.count(), 1u);
  EXPECT_LE(cpus.count(), cpus.numbers.size());
  EXPECT_TRUE(std::is_sorted(cpus.numbers.begin(), cpus.numbers.end()));
}

// A kernel of more than 1,024 CPUs refuses a smaller set.
TEST(UsableCpus, are_asked_for_with_a_larger_set_until_it_fits) {
  const std::vector<int> cpus = affinity_cpus();
  const test::FailingCall failing(test::Call::sched_getaffinity, EINVAL, {.failing = 3});
  EXPECT_EQ(affinity_cpus(), cpus);
  EXPECT_EQ(failing.failed_count(), 3u);
}

TEST(UsableCpus, are_the_first_alone_where_the_kernel_does_not_report_them) {
  for (const int error : {EPERM, ENOSYS, EINVAL}) {
    const test::FailingCall failing(test::Call::sched_getaffinity, error);
    EXPECT_EQ(affinity_cpus(), std::vector<int>{0});
    EXPECT_LE(failing.failed_count(), 11u);  // sets of up to a million CPUs
  }
}

TEST(UsableCpus, follow_the_affinity) {
  const int last = affinity_cpus().back();
  std::thread([last] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(last), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(affinity_cpus(), std::vector<int>{last});
  }).join();
}

}  // namespace
}  // namespace sluice::config
