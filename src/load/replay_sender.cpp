#include "load/replay_sender.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "load/clocks.hpp"
#include "load/system_error.hpp"

namespace sluice::load {
namespace {

constexpr size_t input_bytes_min = 256 * 1024;

}  // namespace

ReplaySender::ReplaySender(const sluicegate::Connection& connection, Replay& replay,
                           uint32_t window)
    : replay_{replay},
      socket_{connection.native_handle()},
      window_{window},
      input_(input_bytes_min / sizeof(uint64_t)) {}

// Edge-triggered: after each event the sender reads and writes until nothing is left.
uint32_t ReplaySender::epoll_events() const noexcept {
  return EPOLLIN | EPOLLOUT | EPOLLET;
}

uint32_t ReplaySender::ask(uint64_t from_ns) {
  held_back_ = false;
  Stream& stream = replay_.stream;
  if (in_flight_ == window_ || replay_.frames.count() == 0) return 0;
  const size_t frame = stream.next_frame();
  uint64_t& sent_from_ns = replay_.sent_from_ns[frame];
  if (sent_from_ns != 0) {
    held_back_ = true;
    return 0;
  }
  const auto bytes = replay_.frames.bytes_of(frame, frame + 1);
  if (!unsent_.empty()) {
    const bool is_next = unsent_.data() + unsent_.size() == bytes.data();
    if (!is_next) return 0;  // after a flush
    unsent_ = {unsent_.data(), unsent_.size() + bytes.size()};
  } else {
    unsent_ = bytes;
  }
  sent_from_ns = from_ns;
  ++in_flight_;
  stream.note_asked();
  return static_cast<uint32_t>(stream.frame(frame).size());
}

bool ReplaySender::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    ++traffic_.system_calls;
    if (sent > 0) {
      unsent_ = unsent_.subspan(static_cast<size_t>(sent));
      traffic_.bytes_sent += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      throw_errno("sending failed");
    }
  }
  return true;
}

void ReplaySender::take_answers(Counters& counters) {
  for (;;) {
    const size_t room = input_.size() * sizeof(uint64_t) - input_bytes_;
    auto* bytes = reinterpret_cast<std::byte*>(input_.data());
    const ssize_t got = recv(socket_, bytes + input_bytes_, room, 0);
    ++traffic_.system_calls;
    if (got == 0) throw sluicegate::ConnectionLost("the server closed a connection");
    if (got < 0) {
      if (errno == EAGAIN) return;
      if (errno == EINTR) continue;
      throw_errno("receiving failed");
    }
    input_bytes_ += static_cast<size_t>(got);
    traffic_.bytes_received += static_cast<uint64_t>(got);
    count_answers(counters);
    // Fewer bytes than there was room for: the socket is empty, or it will raise another event.
    if (static_cast<size_t>(got) < room) return;
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
  --in_flight_;
}

}  // namespace sluice::load
