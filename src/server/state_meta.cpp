#include "server/state_meta.hpp"

#include <array>
#include <random>
#include <string>

namespace sluice::server {
namespace {

uint64_t random_word(std::random_device& device) {
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

StateSeeds draw_seeds() {
  std::random_device device;
  return {.name_seed = random_word(device), .routing_seed = random_word(device)};
}

void set_meta(store::StateFile& file, const StateSeeds& seeds, uint32_t shards) {
  const std::string name_seed = std::to_string(seeds.name_seed);
  const std::string routing_seed = std::to_string(seeds.routing_seed);
  const std::string shards_text = std::to_string(shards);
  const std::array<store::MetaValue, 4> values{{{name_seed_key, name_seed},
                                                {routing_seed_key, routing_seed},
                                                {shards_key, shards_text},
                                                {version_key, SLUICE_VERSION}}};
  file.set_meta(values);
}

}  // namespace sluice::server
