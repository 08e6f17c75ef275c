// The entries of a message, whatever their form, as another node is to read them.
// Lives:  views of the message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "route/shard_message.hpp"
#include "wire/lane_codec.hpp"

namespace sluice::peer {

// Calls `visit(index, entry)` with an api::Entry for the entries [first, first + count).
template <typename Visit>
void for_each_entry(const route::ShardMessage& message, uint32_t first, uint32_t count,
                    Visit visit) noexcept {
  const uint32_t end = first + count;
  for (const route::MessageRun& run : message.runs()) {
    if (run.first_entry >= end || run.first_entry + run.entries_count <= first) continue;
    const bool is_detailed = run.form == route::Form::detailed;
    const char* key = message.text_from(run.text_begin).data();
    for (uint32_t index = run.first_entry; index < run.first_entry + run.entries_count; ++index) {
      api::Entry entry;
      if (is_detailed) {
        entry = message.entries(index, 1)[0];
      } else {
        entry = {.key_data = key, .key_bytes = message.key_sizes(index, 1)[0]};
        key += entry.key_bytes;
      }
      if (index >= first && index < end) visit(index, entry);
    }
  }
}

// Replaces `runs` by those of the message.
inline void forward_runs(const route::ShardMessage& message,
                         std::vector<wire::ForwardRun>& runs) noexcept {
  runs.clear();
  const auto all = message.runs();
  for (size_t i = 0; i < all.size(); ++i) {
    const route::MessageRun& run = all[i];
    if (run.form == route::Form::detailed) {
      runs.push_back({.text = {},
                      .key_sizes = {},
                      .entries = message.entries(run.first_entry, run.entries_count)});
      continue;
    }
    std::string_view text = message.text_from(run.text_begin);
    if (i + 1 < all.size()) text = text.substr(0, all[i + 1].text_begin - run.text_begin);
    runs.push_back({.text = text,
                    .key_sizes = message.key_sizes(run.first_entry, run.entries_count),
                    .entries = {}});
  }
}

}  // namespace sluice::peer
