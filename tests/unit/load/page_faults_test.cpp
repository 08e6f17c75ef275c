// Goal: the page faults of a process or thread are those that the kernel counts for it.
// Method: pages of this process touched for the first time; lines of proc(5) by example.
#include "load/page_faults.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::load {
namespace {

TEST(PageFaults, count_the_first_touch_of_each_page) {
  constexpr size_t pages_count = 200;
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, pages_count * page_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  madvise(pages, pages_count * page_bytes, MADV_NOHUGEPAGE);
  const auto before = page_faults_of(getpid());
  for (size_t i = 0; i < pages_count; ++i) static_cast<volatile char*>(pages)[i * page_bytes] = 1;
  const auto after = page_faults_of(getpid());
  munmap(pages, pages_count * page_bytes);
  ASSERT_TRUE(before && after);
  EXPECT_GE((*after - *before).minor, pages_count);
}

TEST(PageFaults, are_found_behind_any_name_of_a_program) {
  const std::string file = testing::TempDir() + "page_faults_test";
  std::ofstream{file} << "7 (a (b) c) S 1 2 3 4 5 6 70 80 90 100 0 0\n";
  const auto faults = read_page_faults(file);
  std::filesystem::remove(file);
  ASSERT_TRUE(faults);
  EXPECT_EQ(faults->minor, 70U);
  EXPECT_EQ(faults->major, 90U);
}

TEST(PageFaults, of_nobody_are_unknown) {
  EXPECT_FALSE(page_faults_of(-1));
  EXPECT_FALSE(read_page_faults("/dev/null"));
}

}  // namespace
}  // namespace sluice::load
