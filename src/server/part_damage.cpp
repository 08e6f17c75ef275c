#include "server/part_damage.hpp"

#include "state/part_kind.hpp"
#include "state/part_reader.hpp"

namespace sluice::server {

std::optional<std::string> find_damage(const store::StoredPart& part) {
  auto reader = state::PartReader::open(part.bytes);
  if (!reader) return std::string(state::damage_text(reader.error()));
  const state::PartHeader& header = reader->header();
  if (header.epoch != part.epoch || header.shard != part.shard) {
    const auto place = [](uint64_t epoch, uint32_t shard) {
      return "epoch " + std::to_string(epoch) + " and shard " + std::to_string(shard);
    };
    return "its row has " + place(part.epoch, part.shard) + ", the part itself " +
           place(header.epoch, header.shard);
  }
  if (!state::is_known_kind(part.kind)) return std::nullopt;
  while (reader->next()) {
  }
  if (!reader->damage()) return std::nullopt;
  return std::string(state::damage_text(*reader->damage()));
}

}  // namespace sluice::server
