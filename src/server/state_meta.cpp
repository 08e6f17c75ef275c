#include "server/state_meta.hpp"

#include <random>
#include <string>

#include "base/random_word.hpp"
#include "base/splitmix.hpp"

namespace sluice::server {
StateSeeds draw_seeds() {
  std::random_device device;
  return {.name_seed = base::random_word(device), .routing_seed = base::random_word(device)};
}

uint32_t tag_of(const StateSeeds& seeds) noexcept {
  const auto tag = static_cast<uint32_t>(seeds.name_seed * base::splitmix64_step >> 32);
  return tag == 0 ? 1 : tag;
}

std::vector<store::StoredMeta> meta_of(const StateSeeds& seeds, uint32_t shards) {
  return {{.key = name_seed_key, .value = std::to_string(seeds.name_seed)},
          {.key = routing_seed_key, .value = std::to_string(seeds.routing_seed)},
          {.key = shards_key, .value = std::to_string(shards)},
          {.key = version_key, .value = SLUICE_VERSION}};
}

void set_meta(store::StateFile& file, const StateSeeds& seeds, uint32_t shards) {
  for (const store::StoredMeta& each : meta_of(seeds, shards)) {
    const store::MetaValue value{.key = each.key, .value = each.value};
    file.set_meta({&value, 1});
  }
}

}  // namespace sluice::server
