#include "route/split_book.hpp"

#include <algorithm>
#include <numeric>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::route {
namespace {

constexpr size_t mebibyte = 1024 * 1024;
constexpr size_t detailed_bytes = sizeof(api::Entry) + sizeof(api::Detail) + sizeof(api::Verdict);
static_assert(limits::frame_entries_max * detailed_bytes <= AnswerBlocks::largest_bytes);

size_t bytes_max(uint32_t targets_count, const SplitOptions& options) noexcept {
  if (options.answer_bytes_max != 0) return options.answer_bytes_max;
  constexpr size_t unit = AnswerBlocks::largest_bytes;
  return std::clamp(64 * mebibyte / targets_count, unit, 8 * mebibyte) / unit * unit;
}

// Of the requests that wait for one target. Whole blocks of the largest size, so that those of
// every size are aligned; at least one, for the only request of an empty book.
size_t reserved_bytes_of_target(size_t answer_bytes_max) noexcept {
  constexpr size_t unit = AnswerBlocks::largest_bytes;
  return (answer_bytes_max + unit - 1) / unit * unit;
}

void keep_detailed(const SplitBook::Answers& answers, uint32_t place, const api::Entry& entry,
                   api::Verdict verdict, const api::Detail& detail) noexcept {
  answers.entries[place] = entry;
  const bool is_reported = (entry.flags & api::flag::wants_details) != 0;
  if (is_reported || verdict == api::Verdict::queued) answers.details[place] = detail;
}

}  // namespace

SplitBook::SplitBook(uint32_t targets_count, uint32_t requests_max, const SplitOptions& options)
    : answer_bytes_max_(bytes_max(targets_count, options)),
      splits_(requests_max, "requests that other shards decide"),
      // A lone shard needs none.
      blocks_(reserved_bytes_of_target(answer_bytes_max_) * (targets_count - 1)),
      waiting_bytes_(targets_count) {}

size_t SplitBook::answer_bytes(uint32_t entries_count, Form form) noexcept {
  return entries_count * (form == Form::detailed ? detailed_bytes : sizeof(api::Verdict));
}

SplitBook::Index SplitBook::open(const Request& request, Form form, bool is_whole) noexcept {
  const Index index = splits_.take(Split{.request = request, .form = form});
  ASSERT(index != splits_.none);
  splits_[index].request.split = index;
  if (!is_whole) splits_[index].block = blocks_.take(answer_bytes(request.entries_count, form));
  return index;
}

void SplitBook::add_part(Index index, TargetId target) noexcept {
  Split& split = splits_[index];
  ++split.parts_left;
  if (split.block == nullptr) return;
  waiting_bytes_[target] += block_bytes(split.request.entries_count, split.form);
}

bool SplitBook::keep(TargetId target, const Part& part, const ShardMessage& message) noexcept {
  Split& split = splits_[part.split];
  ASSERT(split.parts_left > 0);
  if (split.block == nullptr) return --split.parts_left == 0;
  const auto places = message.places(part.first_entry, part.entries_count);
  const auto verdicts = message.verdicts(part.first_entry, part.entries_count);
  const Answers answers = answers_in_block(split);
  for (size_t i = 0; i < places.size(); ++i) answers.verdicts[places[i]] = verdicts[i];
  if (split.form == Form::detailed) {
    const auto entries = message.entries(part.first_entry, part.entries_count);
    const auto details = message.details(part.first_entry, part.entries_count);
    for (size_t i = 0; i < places.size(); ++i) {
      keep_detailed(answers, places[i], entries[i], verdicts[i], details[i]);
    }
  }
  waiting_bytes_[target] -= block_bytes(split.request.entries_count, split.form);
  return --split.parts_left == 0;
}

void SplitBook::keep_own(const Request& own, Turn& turn) noexcept {
  const Split& split = splits_[own.split];
  ASSERT(split.parts_left > 0);
  const Answers answers = answers_in_block(split);
  for (uint32_t i = own.first_entry; i < own.first_entry + own.entries_count; ++i) {
    const uint16_t place = turn.places()[i];
    answers.verdicts[place] = turn.verdicts()[i];
    if (split.form != Form::detailed) continue;
    keep_detailed(answers, place, turn.entries()[i], turn.verdicts()[i], turn.details()[i]);
  }
}

SplitBook::Answers SplitBook::answers_in_block(const Split& split) noexcept {
  const uint32_t count = split.request.entries_count;
  std::byte* at = split.block;
  Answers answers{.request = split.request, .entries = {}, .verdicts = {}, .details = {}};
  if (split.form == Form::detailed) {
    answers.entries = {reinterpret_cast<api::Entry*>(at), count};
    answers.details = {reinterpret_cast<api::Detail*>(at + answers.entries.size_bytes()), count};
    at += answers.entries.size_bytes() + answers.details.size_bytes();
  }
  answers.verdicts = {reinterpret_cast<api::Verdict*>(at), count};
  return answers;
}

SplitBook::Answers SplitBook::answers(const Part& part, const ShardMessage& message) noexcept {
  const Split& split = splits_[part.split];
  if (split.block != nullptr) return answers_in_block(split);
  const uint32_t first = part.first_entry;
  const uint32_t count = part.entries_count;
  Answers answers{.request = split.request,
                  .entries = {},
                  .verdicts = message.verdicts(first, count),
                  .details = {}};
  if (split.form == Form::detailed) {
    answers.entries = message.entries(first, count);
    answers.details = message.details(first, count);
  }
  return answers;
}

void SplitBook::close(Index index) noexcept {
  const Split& split = splits_[index];
  ASSERT(split.parts_left == 0);
  if (split.block != nullptr) {
    blocks_.free(split.block, answer_bytes(split.request.entries_count, split.form));
  }
  splits_.free(index);
}

bool SplitBook::holds(uint32_t session, uint32_t generation, uint64_t id) const noexcept {
  // The ones freed last are taken first, so the open ones are among the first.
  uint32_t left = splits_.used();
  for (Index index = 0; left > 0; ++index) {
    if (!splits_.holds(index)) continue;
    --left;
    const Request& request = splits_[index].request;
    if (request.session == session && request.generation == generation && request.id == id) {
      return true;
    }
  }
  return false;
}

uint64_t SplitBook::waiting_bytes() const noexcept {
  return std::accumulate(waiting_bytes_.begin(), waiting_bytes_.end(), uint64_t{0});
}

uint64_t SplitBook::reserved_bytes() const noexcept {
  return splits_.reserved_bytes() + blocks_.reserved_bytes();
}

}  // namespace sluice::route
