#include "load/replay_sender.hpp"

#include <cstring>

#include "load/clocks.hpp"

namespace sluice::load {
namespace {

constexpr size_t input_bytes_min = 256 * 1024;

}  // namespace

ReplaySender::ReplaySender(const sluicegate::Connection& connection, Replay& replay,
                           uint32_t window)
    : SocketSender{connection.native_handle(), window},
      replay_{replay},
      input_(input_bytes_min / sizeof(uint64_t)) {}

uint32_t ReplaySender::ask(uint64_t from_ns) {
  held_back_ = false;
  Stream& stream = replay_.stream;
  if (is_window_full() || replay_.frames.count() == 0) return 0;
  const size_t frame = stream.next_frame();
  uint64_t& sent_from_ns = replay_.sent_from_ns[frame];
  if (sent_from_ns != 0) {
    held_back_ = true;
    return 0;
  }
  if (!queue(replay_.frames.bytes_of(frame, frame + 1))) return 0;
  sent_from_ns = from_ns;
  stream.note_asked();
  return static_cast<uint32_t>(stream.frame(frame).size());
}

void ReplaySender::take_answers(Counters& counters) {
  for (;;) {
    const auto room = std::as_writable_bytes(std::span{input_}).subspan(input_bytes_);
    const std::optional<size_t> got = receive(room);
    if (!got) return;
    input_bytes_ += *got;
    count_answers(counters);
    if (*got < room.size()) return;
    if (input_bytes_ == input_.size() * sizeof(uint64_t)) input_.resize(input_.size() * 2);
  }
}

void ReplaySender::count_answers(Counters& counters) {
  const uint64_t at_ns = now_ns();
  const auto words = std::span{input_}.first(input_bytes_ / sizeof(uint64_t));
  size_t taken_words = 0;
  while (const auto counted = counters.verdicts.next(words.subspan(taken_words))) {
    taken_words += counted->words;
    finish_frame(*counted, at_ns, counters);
  }
  const size_t taken_bytes = taken_words * sizeof(uint64_t);
  input_bytes_ -= taken_bytes;
  auto* bytes = reinterpret_cast<std::byte*>(input_.data());
  std::memmove(bytes, bytes + taken_bytes, input_bytes_);
}

void ReplaySender::finish_frame(const VerdictTally::Counted& answer, uint64_t at_ns,
                                Counters& counters) {
  const size_t frame = answer.id - 1;
  if (frame >= replay_.sent_from_ns.size() || replay_.sent_from_ns[frame] == 0) {
    throw sluicegate::ProtocolError("the server answered a frame that is not in flight");
  }
  if (!answer.refused && answer.entries != replay_.stream.frame(frame).size()) {
    throw sluicegate::ProtocolError("the server answered another number of entries");
  }
  counters.latency.add(at_ns - replay_.sent_from_ns[frame]);
  replay_.stream.note_answered();
  replay_.sent_from_ns[frame] = 0;
  end_frame();
}

}  // namespace sluice::load
