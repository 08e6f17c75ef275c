#include "bench/load/frame_set.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluicegate/frames.hpp"

namespace sluice::load {
namespace {

constexpr size_t frame_words_over = 16;            // beside the columns
constexpr uint64_t words_max = uint64_t{1} << 30;  // 8 GiB

// One frame's keys and costs, to be filled again and again.
struct FrameText {
  FrameText(uint32_t batch, uint32_t key_bytes) : text(size_t{batch} * key_bytes) {
    for (uint32_t i = 0; i < batch; ++i) keys.emplace_back(&text[size_t{i} * key_bytes], key_bytes);
    costs.resize(batch);
  }

  void fill(std::span<const Question> questions) {
    const size_t key_bytes = keys.front().size();
    for (size_t i = 0; i < questions.size(); ++i) {
      write_key(questions[i].key, std::span{text}.subspan(i * key_bytes, key_bytes));
      costs[i] = questions[i].denied ? denied_cost : 1;
    }
  }

  std::vector<char> text;
  std::vector<std::string_view> keys;
  std::vector<uint32_t> costs;
};

}  // namespace

FrameSet::FrameSet(const Options& options, size_t frames_min)
    : FrameSet{options, key_sequence(options, frames_min * options.batch)} {}

FrameSet::FrameSet(const Options& options, std::vector<Question> questions)
    : batch_{options.batch}, keys_count_{options.keys}, questions_{std::move(questions)} {
  require_key_bytes(options.keys, options.key_bytes);
  const size_t frames_count = (questions_.size() + batch_ - 1) / batch_;
  const bool with_costs = options.denied_share > 0;
  const size_t entry_bytes = options.key_bytes + sizeof(uint16_t) + (with_costs ? 4 : 0);
  const size_t words_count =
      frames_count * frame_words_over + questions_.size() * entry_bytes / sizeof(uint64_t);
  if (words_count > words_max) {
    throw std::invalid_argument("the prepared frames would take " +
                                std::to_string(words_count >> 27) +
                                " GiB: fewer or shorter keys, or larger batches, please");
  }
  // The encoder makes room for all columns before it gives back what it did not use.
  words_.reserve(words_count + frame_words_over + size_t{batch_} * (options.key_bytes + 16));
  begin_words_.reserve(frames_count + 1);

  FrameText text{batch_, options.key_bytes};
  for (size_t begin = 0; begin < questions_.size(); begin += batch_) {
    const auto part =
        std::span{questions_}.subspan(begin, std::min<size_t>(batch_, questions_.size() - begin));
    text.fill(part);
    begin_words_.push_back(words_.size());
    sluicegate::Acquire acquire{.keys = std::span{text.keys}.first(part.size())};
    if (with_costs) acquire.costs = std::span{text.costs}.first(part.size());
    sluicegate::encode(begin_words_.size(), acquire, words_);
    last_entries_ = static_cast<uint32_t>(part.size());
    frame_bytes_max_ =
        std::max(frame_bytes_max_, (words_.size() - begin_words_.back()) * sizeof(uint64_t));
  }
  begin_words_.push_back(words_.size());
}

uint64_t FrameSet::distinct_keys(size_t first, uint64_t frames_count) const {
  if (frames_count == 0) return 0;
  if (frames_count >= count()) return count_distinct(questions_, keys_count_);
  const size_t begin = first * batch_;
  const size_t end = begin + frames_count * batch_;
  const auto all = std::span{questions_};
  if (first + frames_count <= count()) {
    return count_distinct(all.subspan(begin, std::min(end, all.size()) - begin), keys_count_);
  }
  std::vector<Question> asked(all.begin() + static_cast<ptrdiff_t>(begin), all.end());
  const size_t wrapped = (first + frames_count - count()) * batch_;
  asked.insert(asked.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(wrapped));
  return count_distinct(asked, keys_count_);
}

}  // namespace sluice::load
