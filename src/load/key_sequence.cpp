#include "load/key_sequence.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "proto/key_hash.hpp"

namespace sluice::load {
namespace {

constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr auto base = static_cast<uint32_t>(digits.size());
constexpr size_t zipf_entries_min = 4 * 1024 * 1024;  // enough draws to show the tail
constexpr double zipf_exponent = 0.99;

// All numbers of two digits: writing a name takes half as many divisions.
constexpr auto digit_pairs = [] {
  std::array<std::array<char, 2>, size_t{base} * base> pairs{};
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {digits[i / base], digits[i % base]};
  return pairs;
}();

using Random = std::mt19937_64;

Random fixed_seed_random() {
  return Random{20'240'229};
}

std::vector<uint32_t> permutation(uint32_t count, Random& random) {
  std::vector<uint32_t> keys(count);
  std::iota(keys.begin(), keys.end(), 0);
  std::shuffle(keys.begin(), keys.end(), random);
  return keys;
}

std::vector<PlannedEntry> uniform(const Options& options, Random& random) {
  std::vector<PlannedEntry> planned;
  planned.reserve(options.keys);
  for (const uint32_t key : permutation(options.keys, random)) planned.push_back({.key = key});
  return planned;
}

std::vector<PlannedEntry> zipf(const Options& options, size_t entries_min, Random& random) {
  const auto keys = permutation(options.keys, random);
  std::vector<double> cumulated(keys.size());
  double sum = 0;
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    sum += std::pow(static_cast<double>(rank + 1), -zipf_exponent);
    cumulated[rank] = sum;
  }
  std::uniform_real_distribution<double> draw{0, sum};
  std::vector<PlannedEntry> planned(std::max({entries_min, keys.size(), zipf_entries_min}));
  for (PlannedEntry& entry : planned) {
    const auto found = std::lower_bound(cumulated.begin(), cumulated.end() - 1, draw(random));
    entry = {.key = keys[static_cast<size_t>(found - cumulated.begin())]};
  }
  return planned;
}

// Marks exactly the share, in every stretch of 100 or more as in the whole, at random places.
void mark_denied(std::span<PlannedEntry> planned, double share, Random& random) {
  constexpr size_t stretch = 100;
  double due = 0;
  for (size_t begin = 0; begin < planned.size(); begin += stretch) {
    const auto part = planned.subspan(begin, std::min(stretch, planned.size() - begin));
    due += share * static_cast<double>(part.size());
    const auto marks = static_cast<size_t>(std::floor(due + 1e-9));
    due -= static_cast<double>(marks);
    std::vector<uint8_t> chosen(part.size(), 0);
    std::fill_n(chosen.begin(), std::min(marks, part.size()), uint8_t{1});
    std::shuffle(chosen.begin(), chosen.end(), random);
    for (size_t i = 0; i < part.size(); ++i) part[i].denied = chosen[i] != 0;
  }
}

// Marks keys until their entries are the share of all entries.
void mark_denied_keys(std::span<PlannedEntry> planned, double share, uint32_t keys_count,
                      Random& random) {
  std::vector<uint32_t> entries_of(keys_count, 0);
  for (const PlannedEntry entry : planned) ++entries_of[entry.key];
  double remaining = share * static_cast<double>(planned.size());
  std::vector<bool> denied(keys_count);
  for (const uint32_t key : permutation(keys_count, random)) {
    const double count = entries_of[key];
    if (count > remaining + 1e-9) continue;  // a rarer key may fit
    denied[key] = true;
    remaining -= count;
  }
  for (PlannedEntry& entry : planned) entry.denied = denied[entry.key];
}

// The keys of one repetition: every repetition has the same denied keys.
std::vector<PlannedEntry> draw_keys(const Options& options, size_t entries_min, Random& random) {
  switch (options.distribution) {
    case Distribution::uniform:
      return uniform(options, random);
    case Distribution::zipf:
      return zipf(options, entries_min, random);
    case Distribution::one:
      break;
  }
  return std::vector<PlannedEntry>(entries_min);
}

// The entries of warm-up and run, so that no new key repeats before its end.
size_t entries_of_run(const Options& options) {
  const double seconds = options.warm_up_seconds + options.seconds;
  return static_cast<size_t>(std::ceil(options.rate * seconds));
}

// Spreads the new keys evenly over the entries.
std::vector<PlannedEntry> with_new_keys(const std::vector<PlannedEntry>& planned,
                                        const Options& options) {
  const size_t count = planned.size() + options.new_keys;
  std::vector<PlannedEntry> spread;
  spread.reserve(count);
  uint32_t new_count = 0;
  for (const PlannedEntry entry : planned) {
    spread.push_back(entry);
    // The share of new keys so far is that of the whole.
    while (uint64_t{new_count} * count < uint64_t{options.new_keys} * spread.size() &&
           new_count < options.new_keys) {
      spread.push_back({.key = options.keys + new_count++});
    }
  }
  return spread;
}

// Repeats the drawn keys and marks the entries that the server shall deny.
void complete(std::vector<PlannedEntry>& planned, const Options& options, size_t entries_min,
              Random& random) {
  if (denied_by_key(options)) {
    if (options.distribution == Distribution::uniform) {
      mark_denied(planned, options.denied_share, random);  // each key occurs once
    } else {
      mark_denied_keys(planned, options.denied_share, options.keys, random);
    }
  }
  repeat(planned, entries_min);
  if (denied_by_cost(options)) mark_denied(planned, options.denied_share, random);
}

}  // namespace

bool denied_by_key(const Options& options) noexcept {
  return options.denied_share > 0 && options.distribution != Distribution::one &&
         options.keys > few_keys;
}

bool denied_by_cost(const Options& options) noexcept {
  return options.denied_share > 0 && !denied_by_key(options);
}

std::vector<PlannedEntry> key_sequence(const Options& options, size_t entries_min) {
  Random random = fixed_seed_random();
  std::vector<PlannedEntry> planned = draw_keys(options, entries_min, random);
  if (options.new_keys == 0) {
    complete(planned, options, entries_min, random);
    return planned;
  }
  const size_t known = std::max(entries_min, entries_of_run(options)) - options.new_keys;
  repeat(planned, known);
  planned.resize(known);
  return with_new_keys(planned, options);
}

void check_new_keys(const Options& options) {
  if (options.new_keys == 0) return;
  if (options.rate == 0) throw std::invalid_argument("--new-keys needs a --rate");
  if (entries_of_run(options) < uint64_t{2} * options.new_keys) {
    throw std::invalid_argument(
        "--new-keys may be half of the run's decisions at most: raise --rate or --seconds");
  }
}

void repeat(std::vector<PlannedEntry>& planned, size_t entries_min) {
  const size_t once = planned.size();
  if (once == 0 || once >= entries_min) return;
  planned.resize((entries_min + once - 1) / once * once);
  for (size_t i = once; i < planned.size(); ++i) planned[i] = planned[i - once];
}

std::vector<uint32_t> owners_of(uint32_t keys_count, uint32_t key_bytes, const Routing& routing) {
  std::vector<uint32_t> owners(keys_count);
  std::string name(key_bytes, '\0');
  for (uint32_t key = 0; key < keys_count; ++key) {
    write_key(key, name);
    owners[key] = proto::owner_shard(proto::routing_hash(name, routing.seed), routing.shards);
  }
  return owners;
}

std::vector<std::vector<PlannedEntry>> routed_sequences(const Options& options, size_t entries_min,
                                                        const Routing& routing) {
  Random random = fixed_seed_random();
  const auto owners = owners_of(options.keys, options.key_bytes, routing);
  std::vector<std::vector<PlannedEntry>> parts(routing.shards);
  for (const PlannedEntry entry : draw_keys(options, entries_min, random)) {
    parts[owners[entry.key]].push_back(entry);
  }
  // Every part has exactly its share of denied entries.
  for (auto& part : parts) complete(part, options, entries_min, random);
  return parts;
}

void write_key(uint32_t key, std::span<char> out) noexcept {
  std::memset(out.data(), '-', out.size());
  char* at = out.data() + out.size();
  for (; key >= base * base && at - out.data() >= 2; key /= base * base) {
    at -= 2;
    std::memcpy(at, digit_pairs[key % (base * base)].data(), 2);
  }
  do {
    *--at = digits[key % base];
    key /= base;
  } while (key > 0 && at > out.data());
}

void require_key_bytes(uint32_t keys_count, uint32_t key_bytes) {
  uint64_t names = 1;
  for (uint32_t i = 0; i < key_bytes && names < keys_count; ++i) names *= base;
  if (key_bytes > 0 && names >= keys_count) return;
  throw std::invalid_argument(std::to_string(keys_count) + " different keys need more than " +
                              std::to_string(key_bytes) + " bytes each (--key-bytes)");
}

}  // namespace sluice::load
