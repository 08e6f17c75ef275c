#include "load/frame_set.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "load/key_text.hpp"
#include "sluicegate/frames.hpp"

namespace sluice::load {
namespace {

constexpr uint64_t words_max = uint64_t{1} << 30;  // 8 GiB

// The columns of one frame, filled and encoded again for each frame.
class FrameColumns {
 public:
  FrameColumns(const Options& options, const HandleTable* handles)
      : handles_{handles},
        text_{handles == nullptr ? options.batch : 0, options.key_bytes},
        with_costs_{denied_by_cost(options)} {}

  void encode(uint64_t id, const Stream& stream, size_t frame, std::vector<uint64_t>& out) {
    const auto planned = stream.frame(frame);
    costs_.clear();
    if (with_costs_) {
      for (const PlannedEntry& entry : planned) costs_.push_back(cost_of(entry));
    }
    if (handles_ != nullptr) return encode_handles(id, stream.begin_of(frame), planned, out);
    for (size_t i = 0; i < planned.size(); ++i) text_.write(i, planned[i].key);
    const auto keys = text_.keys(planned.size());
    sluicegate::encode(id, sluicegate::Acquire{.keys = keys, .costs = costs_}, out);
  }

 private:
  void encode_handles(uint64_t id, size_t begin, std::span<const PlannedEntry> planned,
                      std::vector<uint64_t>& out) {
    column_.clear();
    for (size_t i = 0; i < planned.size(); ++i) {
      column_.push_back(handles_->of_question(begin + i));
    }
    sluicegate::encode(id, sluicegate::AcquireByHandle{.handles = column_, .costs = costs_}, out);
  }

  const HandleTable* handles_;
  KeyText text_;
  bool with_costs_;
  std::vector<uint32_t> column_;
  std::vector<uint32_t> costs_;
};

}  // namespace

FrameSet::FrameSet(const Options& options, const Stream& stream, const HandleTable* handles) {
  const size_t frames_count = stream.frames_count();
  const size_t words_count = frames_count * frame_bytes_max(options) / sizeof(uint64_t);
  if (words_count > words_max) {
    throw std::invalid_argument("the prepared frames would take " +
                                std::to_string(words_count >> 27) +
                                " GiB: use fewer or shorter keys, or larger batches");
  }
  words_.reserve(words_count);
  begin_words_.reserve(frames_count + 1);
  FrameColumns columns{options, handles};
  for (size_t frame = 0; frame < frames_count; ++frame) {
    begin_words_.push_back(words_.size());
    columns.encode(frame + 1, stream, frame, words_);
  }
  begin_words_.push_back(words_.size());
}

size_t frame_bytes_max(const Options& options) {
  const std::vector<uint32_t> column(options.batch, 1);
  std::span<const uint32_t> costs;
  if (denied_by_cost(options)) costs = column;
  std::vector<uint64_t> words;
  if (options.handles) {
    sluicegate::encode(1, sluicegate::AcquireByHandle{.handles = column, .costs = costs}, words);
  } else {
    const KeyText text{options.batch, options.key_bytes};
    sluicegate::encode(1, sluicegate::Acquire{.keys = text.keys(options.batch), .costs = costs},
                       words);
  }
  return words.size() * sizeof(uint64_t);
}

}  // namespace sluice::load
