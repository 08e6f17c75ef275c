// Address space is there, reads as zero, and is freed. Method: bytes at the ends of regions of
// sizes around a page and a large page.
#include "base/mapped_region.hpp"

#include <gtest/gtest.h>

#include <string>
#include <system_error>
#include <utility>

namespace sluice::base {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t large_page_bytes = 2 * 1024 * 1024;

TEST(MappedRegion, holds_at_least_the_requested_bytes) {
  for (const size_t bytes : {size_t{1}, page_bytes, page_bytes + 1, large_page_bytes - 1,
                             large_page_bytes, large_page_bytes + 1, 5 * large_page_bytes}) {
    const MappedRegion region(bytes, "test");
    ASSERT_GE(region.size(), bytes);
    region.data()[0] = std::byte{1};
    region.data()[region.size() - 1] = std::byte{2};
    EXPECT_EQ(region.data()[region.size() / 2], std::byte{0});
  }
}

TEST(MappedRegion, is_aligned_to_a_large_page_when_it_holds_one) {
  const MappedRegion region(3 * large_page_bytes, "test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region.data()) % large_page_bytes, 0u);
}

TEST(MappedRegion, of_nothing_is_empty) {
  const MappedRegion region(0, "test");
  EXPECT_EQ(region.data(), nullptr);
  EXPECT_EQ(region.size(), 0u);
}

TEST(MappedRegion, takes_address_space_without_memory) {
  // Far more than any machine has; nothing of it is touched but the ends.
  const MappedRegion region(size_t{1} << 40, "test");
  region.data()[region.size() - 1] = std::byte{1};
}

TEST(MappedRegion, names_its_purpose_when_there_is_no_space) {
  try {
    const MappedRegion region(size_t{1} << 56, "key table (--max-keys)");
    FAIL() << "2^56 bytes were there";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("key table (--max-keys)"), std::string::npos);
  }
}

TEST(MappedRegion, frees_whole_pages_only) {
  MappedRegion region(4 * page_bytes, "test");
  for (size_t index = 0; index < region.size(); ++index) region.data()[index] = std::byte{7};
  region.discard(1, 2 * page_bytes);  // the first page only in part, so it stays
  EXPECT_EQ(region.data()[page_bytes - 1], std::byte{7});
  EXPECT_EQ(region.data()[page_bytes], std::byte{0});
  EXPECT_EQ(region.data()[2 * page_bytes - 1], std::byte{0});
  EXPECT_EQ(region.data()[2 * page_bytes], std::byte{7});
}

TEST(MappedRegion, moves_with_its_bytes) {
  MappedRegion first(page_bytes, "test");
  first.data()[0] = std::byte{9};
  MappedRegion second(std::move(first));
  MappedRegion third(page_bytes, "test");
  third = std::move(second);
  EXPECT_EQ(third.data()[0], std::byte{9});
}

}  // namespace
}  // namespace sluice::base
