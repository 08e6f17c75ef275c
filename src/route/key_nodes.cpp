#include "route/key_nodes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cstddef>

#include "base/assert.hpp"
#include "base/modulus.hpp"
#include "proto/node_hash.hpp"

namespace sluice::route {

void find_nodes(const KeyColumn& keys, uint16_t nodes_count, std::span<uint16_t> nodes) noexcept {
  static const bool by_eights = can_find_nodes_by_eights();
  if (by_eights) return find_nodes_by_eights(keys, nodes_count, nodes);
  find_nodes_by_fours(keys, nodes_count, nodes);
}

void find_nodes_by_fours(const KeyColumn& keys, uint16_t nodes_count,
                         std::span<uint16_t> nodes) noexcept {
  constexpr size_t at_once = proto::texts_at_once;
  const base::Modulus by_count(nodes_count);
  const char* key = keys.text.data();
  size_t first = 0;
  for (; first + at_once <= keys.sizes.size(); first += at_once) {
    const auto sizes = keys.sizes.subspan(first).first<at_once>();
    const auto hashes = proto::fnv1a_32(key, sizes);
    for (size_t i = 0; i < at_once; ++i) {
      nodes[first + i] = static_cast<uint16_t>(by_count.of(hashes[i]));
      key += sizes[i];
    }
  }
  for (; first < keys.sizes.size(); ++first) {
    const uint32_t hash = proto::fnv1a_32({key, keys.sizes[first]});
    nodes[first] = static_cast<uint16_t>(by_count.of(hash));
    key += keys.sizes[first];
  }
}

#if defined(__x86_64__)

// Lane n of a vector belongs to the n-th of eight keys.
#define SLUICE_AVX2 [[gnu::target("avx2")]]
namespace {

constexpr size_t lanes = 8;
constexpr size_t block_bytes = 16;
constexpr size_t word_bytes = 4;
constexpr size_t block_words = block_bytes / word_bytes;

struct Eight {
  std::array<const char*, lanes> begins;
  const char* end;
  __m256i sizes;
  size_t least_bytes;
  size_t most_bytes;

  // Where the last block ends that is read, counted from the first key: none begins behind the
  // last key's.
  size_t bytes_read() const noexcept {
    const size_t blocks = (most_bytes + block_bytes - 1) / block_bytes;
    return static_cast<size_t>(begins.back() - begins.front()) + blocks * block_bytes;
  }
};

SLUICE_AVX2 Eight eight_of(const char* text, const uint16_t* key_sizes) noexcept {
  Eight eight;
  for (size_t i = 0; i < lanes; ++i) {
    eight.begins[i] = text;
    text += key_sizes[i];
  }
  eight.end = text;
  const __m128i sizes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key_sizes));
  const __m128i flipped = _mm_xor_si128(sizes, _mm_set1_epi16(-1));
  eight.sizes = _mm256_cvtepu16_epi32(sizes);
  eight.least_bytes = static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_minpos_epu16(sizes)));
  eight.most_bytes = static_cast<uint16_t>(~_mm_cvtsi128_si32(_mm_minpos_epu16(flipped)));
  return eight;
}

SLUICE_AVX2 __m256i load_two(const char* low, const char* high) noexcept {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

// A block of each key, turned: vector n has the n-th word of all.
SLUICE_AVX2 void load_words(const Eight& eight, size_t offset,
                            __m256i (&words)[block_words]) noexcept {
  __m256i rows[block_words];
  for (size_t i = 0; i < block_words; ++i) {
    rows[i] = load_two(eight.begins[i] + offset, eight.begins[i + lanes / 2] + offset);
  }
  const __m256i low_01 = _mm256_unpacklo_epi32(rows[0], rows[1]);
  const __m256i low_23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
  const __m256i high_01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
  const __m256i high_23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
  words[0] = _mm256_unpacklo_epi64(low_01, low_23);
  words[1] = _mm256_unpackhi_epi64(low_01, low_23);
  words[2] = _mm256_unpacklo_epi64(high_01, high_23);
  words[3] = _mm256_unpackhi_epi64(high_01, high_23);
}

// A step of FNV-1a, by the lowest byte of each lane of `word`.
SLUICE_AVX2 __m256i step(__m256i hashes, __m256i word) noexcept {
  const __m256i byte = _mm256_and_si256(word, _mm256_set1_epi32(0xff));
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(proto::fnv1a_32_prime));
  return _mm256_mullo_epi32(_mm256_xor_si256(hashes, byte), prime);
}

SLUICE_AVX2 __m256i step_word(__m256i hashes, __m256i word) noexcept {
  hashes = step(hashes, word);
  hashes = step(hashes, _mm256_srli_epi32(word, 8));
  hashes = step(hashes, _mm256_srli_epi32(word, 16));
  return step(hashes, _mm256_srli_epi32(word, 24));
}

// Likewise, where keys may end within the word. `bytes_left`: of each, from the word on.
SLUICE_AVX2 __m256i step_last_word(__m256i hashes, __m256i word, __m256i bytes_left) noexcept {
  for (int byte = 0; byte < static_cast<int>(word_bytes); ++byte) {
    const __m256i has_byte = _mm256_cmpgt_epi32(bytes_left, _mm256_set1_epi32(byte));
    hashes = _mm256_blendv_epi8(hashes, step(hashes, word), has_byte);
    word = _mm256_srli_epi32(word, 8);
  }
  return hashes;
}

SLUICE_AVX2 __m256i hash(const Eight& eight) noexcept {
  __m256i hashes = _mm256_set1_epi32(static_cast<int>(proto::fnv1a_32_of_nothing));
  for (size_t offset = 0; offset < eight.most_bytes; offset += block_bytes) {
    __m256i words[block_words];
    load_words(eight, offset, words);
    for (size_t i = 0; i < block_words; ++i) {
      const size_t begin = offset + i * word_bytes;
      if (begin + word_bytes <= eight.least_bytes) {
        hashes = step_word(hashes, words[i]);
      } else if (begin < eight.most_bytes) {
        const __m256i taken = _mm256_set1_epi32(static_cast<int>(begin));
        hashes = step_last_word(hashes, words[i], _mm256_sub_epi32(eight.sizes, taken));
      }
    }
  }
  return hashes;
}

// The rest of a division by the same number, in each lane. Multiplied by the rounded inverse, the
// quotient is at most one too small: then the rest is too large by the divisor.
struct Rest {
  __m256i divisor;
  __m256i inverse;  // 2^32 / divisor

  SLUICE_AVX2 explicit Rest(uint16_t by) noexcept
      : divisor(_mm256_set1_epi32(by)),
        inverse(_mm256_set1_epi32(static_cast<int>((uint64_t{1} << 32) / by))) {}

  SLUICE_AVX2 __m256i of(__m256i numbers) const noexcept {
    const __m256i even = _mm256_mul_epu32(numbers, inverse);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(numbers, 32), inverse);
    constexpr int odd_lanes = 0b1010'1010;
    const __m256i quotients = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, odd_lanes);
    const __m256i rests = _mm256_sub_epi32(numbers, _mm256_mullo_epi32(quotients, divisor));
    return _mm256_min_epu32(rests, _mm256_sub_epi32(rests, divisor));
  }
};

SLUICE_AVX2 void store_as_16_bits(__m256i values, uint16_t* to) noexcept {
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
}

}  // namespace

bool can_find_nodes_by_eights() noexcept {
  return __builtin_cpu_supports("avx2") != 0;
}

SLUICE_AVX2 void find_nodes_by_eights(const KeyColumn& keys, uint16_t nodes_count,
                                      std::span<uint16_t> nodes) noexcept {
  ASSERT(nodes_count > 1);
  const Rest rest(nodes_count);
  size_t text_begin = 0;
  size_t first = 0;
  for (; first + lanes <= keys.sizes.size(); first += lanes) {
    const Eight eight = eight_of(keys.text.data() + text_begin, &keys.sizes[first]);
    if (text_begin + eight.bytes_read() > keys.text.size()) break;
    store_as_16_bits(rest.of(hash(eight)), &nodes[first]);
    text_begin += static_cast<size_t>(eight.end - eight.begins.front());
  }
  const KeyColumn last{.text = keys.text.substr(text_begin), .sizes = keys.sizes.subspan(first)};
  find_nodes_by_fours(last, nodes_count, nodes.subspan(first));
}
#undef SLUICE_AVX2

#else

bool can_find_nodes_by_eights() noexcept {
  return false;
}

void find_nodes_by_eights(const KeyColumn&, uint16_t, std::span<uint16_t>) noexcept {
  ASSERT(false);
}

#endif

}  // namespace sluice::route
