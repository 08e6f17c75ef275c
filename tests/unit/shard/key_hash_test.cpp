// Keys have one hash each, which depends on their bytes, their length and the secret alone.
// Method: an example of FIPS 197 as the oracle of the rounds; every length from 1 to beyond those
//         that the short hash takes.
#include "shard/key_hash.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>
#include <utility>

#include "shard/short_key_hash.hpp"
#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

constexpr size_t longest = 40;

std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (size_t place = 0; place < digits.size(); place += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(std::string(digits.substr(place, 2)), nullptr, 16)));
  }
  return bytes;
}

std::array<std::byte, ShortKeyHash::secret_bytes> secret_of(std::string_view whitening,
                                                            std::string_view round_keys) {
  std::array<std::byte, ShortKeyHash::secret_bytes> secret{};
  std::memcpy(&secret[ShortKeyHash::key_bytes_max - 1], whitening.data(), whitening.size());
  std::memcpy(&secret[32], round_keys.data(), round_keys.size());
  return secret;
}

TEST(ShortKeyHash, is_four_rounds_of_aes) {
  if (!ShortKeyHash::is_available()) GTEST_SKIP() << "this processor has no AES instructions";
  // FIPS 197, appendix B: the cipher's key, four round keys, and the state before the fifth round.
  const auto secret = secret_of(bytes_of_hex("2b7e151628aed2a6abf7158809cf4f3c"),
                                bytes_of_hex("a0fafe1788542cb123a339392a6c7605"
                                             "f2c295f27a96b9435935807a7359f67f"
                                             "3d80477d4716fe3e1e237e446d7a883b"
                                             "ef44a541a8525b7fb671253bdb0bad00"));
  const KeyHash hash = ShortKeyHash::hash(bytes_of_hex("3243f6a8885a308d313198a2e0370734"), secret);
  EXPECT_EQ(hash.tag, 0xc063'63c8'e87f'92e0);  // e0927fe8c86363c0 d9b13550 85b8be01
  EXPECT_EQ(hash.position, 0x5035'b1d9U);
}

TEST(ShortKeyHash, fits_keys_of_1_to_16_bytes) {
  EXPECT_FALSE(ShortKeyHash::fits(0));
  EXPECT_TRUE(ShortKeyHash::fits(1));
  EXPECT_TRUE(ShortKeyHash::fits(16));
  EXPECT_FALSE(ShortKeyHash::fits(17));
}

// Equal blocks of different lengths, as keys of zeros are, are different keys.
TEST(KeyHash, has_the_length_in_it) {
  std::set<std::pair<uint64_t, uint32_t>> hashes;
  for (size_t bytes = 0; bytes <= longest; ++bytes) {
    const KeyHash hash = hash_key(std::string(bytes, '\0'), test_secret());
    hashes.emplace(hash.tag, hash.position);
  }
  EXPECT_EQ(hashes.size(), longest + 1);
}

TEST(KeyHash, reads_the_key_alone) {
  for (size_t bytes = 1; bytes <= longest; ++bytes) {
    std::string text(longest + 32, 'a');
    std::string other(longest + 32, 'b');
    for (size_t place = 0; place < bytes; ++place) text[16 + place] = other[16 + place] = 'k';
    const auto hash_of = [bytes](const std::string& from) {
      return hash_key(std::string_view(from).substr(16, bytes), test_secret());
    };
    EXPECT_EQ(hash_of(text), hash_of(other)) << bytes;
  }
}

// Each bit of a key changes each half of its hash, by about half of its bits on the average.
TEST(KeyHash, depends_on_every_bit) {
  for (size_t bytes = 1; bytes <= longest; ++bytes) {
    std::string key(bytes, 'k');
    const KeyHash before = hash_key(key, test_secret());
    int tag_changes = 0;
    int position_changes = 0;
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      key[bit / 8] = static_cast<char>(key[bit / 8] ^ 1 << bit % 8);
      const KeyHash after = hash_key(key, test_secret());
      EXPECT_NE(after.tag, before.tag) << bytes << " " << bit;
      tag_changes += std::popcount(after.tag ^ before.tag);
      position_changes += std::popcount(after.position ^ before.position);
      key[bit / 8] = static_cast<char>(key[bit / 8] ^ 1 << bit % 8);
    }
    const auto flips = static_cast<double>(8 * bytes);
    EXPECT_NEAR(tag_changes / flips, 32, 8) << bytes;
    EXPECT_NEAR(position_changes / flips, 16, 5) << bytes;
  }
}

// A client that knows one server's hashes knows nothing of another's: what a length selects of the
// secret takes part, and every round key.
TEST(KeyHash, depends_on_the_secret) {
  if (!ShortKeyHash::is_available()) GTEST_SKIP() << "this processor has no AES instructions";
  for (size_t bytes = 1; bytes <= ShortKeyHash::key_bytes_max; ++bytes) {
    const std::string key(bytes, 'k');
    const KeyHash before = hash_key(key, test_secret());
    for (const size_t place :
         {bytes - 1, bytes + 14, size_t{32}, size_t{48}, size_t{64}, size_t{80}}) {
      HashSecret secret = test_secret();
      secret[long_key_secret_bytes + place] ^= std::byte{1};
      EXPECT_FALSE(hash_key(key, secret) == before) << bytes << " " << place;
    }
  }
}

TEST(KeyHash, is_the_long_one_beyond_16_bytes) {
  for (size_t bytes = 17; bytes <= longest; ++bytes) {
    const std::string key(bytes, 'k');
    EXPECT_EQ(hash_key(key, test_secret()), hash_long_key(key, test_secret()));
  }
}

}  // namespace
}  // namespace sluice::shard
