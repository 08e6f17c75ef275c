#include "bench/limits/pipeline_sender.hpp"

#include <optional>
#include <stdexcept>
#include <utility>

#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr size_t input_bytes = 256 * 1024;

}  // namespace

PipelineSender::PipelineSender(int socket, const Frames& frames, size_t first_frame,
                               uint32_t window, std::unique_ptr<Replies> replies)
    : SocketSender{socket, window},
      frames_{frames},
      next_frame_{first_frame},
      replies_{std::move(replies)},
      from_ns_(window),
      input_(input_bytes) {}

uint32_t PipelineSender::ask(uint64_t from_ns) {
  if (is_window_full() || !queue(frames_.frame(next_frame_))) return 0;
  next_frame_ = (next_frame_ + 1) % frames_.count();
  from_ns_[frames_asked_++ % window()] = from_ns;
  return frames_.items_per_frame();
}

void PipelineSender::take_answers(load::Counters& counters) {
  for (;;) {
    const std::optional<size_t> got = receive(input_);
    if (!got) return;
    items_answered_ += replies_->take(std::span{input_}.first(*got));
    finish_frames(load::now_ns(), counters);
    if (*got < input_.size()) return;
  }
}

void PipelineSender::finish_frames(uint64_t at_ns, load::Counters& counters) {
  for (; items_answered_ >= frames_.items_per_frame();
       items_answered_ -= frames_.items_per_frame()) {
    if (frames_in_flight() == 0)
      throw std::runtime_error("the server sent replies that nobody asked for");
    counters.latency.add(at_ns - from_ns_[(frames_asked_ - frames_in_flight()) % window()]);
    end_frame();
  }
}

}  // namespace sluice::limits_bench
