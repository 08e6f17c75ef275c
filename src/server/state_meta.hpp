// What a state file has in its table `meta`: what the hashes in its records depend on, and who
// wrote it last.
// Flow:   draw_seeds(), for a new file -> set_meta() at each start -> StoredContent at the next.
#pragma once

#include <cstdint>
#include <vector>

#include "store/state_file.hpp"

namespace sluice::server {

// Names of subjects and their shards depend on them: they are drawn once for a file.
struct StateSeeds {
  uint64_t name_seed = 0;
  uint64_t routing_seed = 0;
};

StateSeeds draw_seeds();

// Of a file with these seeds, for its parts: a FILE-wal may be another file's. Never 0.
uint32_t tag_of(const StateSeeds& seeds) noexcept;

// The keys.
inline constexpr const char* name_seed_key = "name_seed";
inline constexpr const char* routing_seed_key = "routing_seed";
inline constexpr const char* shards_key = "shards";
inline constexpr const char* version_key = "version";

// Of this program, with so many shards.
std::vector<store::StoredMeta> meta_of(const StateSeeds& seeds, uint32_t shards);
// Likewise; the file's next commit writes it.
void set_meta(store::StateFile& file, const StateSeeds& seeds, uint32_t shards);

}  // namespace sluice::server
