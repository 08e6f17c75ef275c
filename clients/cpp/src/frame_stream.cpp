#include "sluicegate/frame_stream.hpp"

#include <cerrno>
#include <cstring>

#include "platform.hpp"
#include "sluicegate/error.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {
namespace {

constexpr size_t read_bytes_min = 64 * 1024;  // room before a read

}  // namespace

bool FrameWriter::write_some(Platform& platform, int socket, Traffic& traffic) {
  const size_t end_bytes = output_.size() * sizeof(uint64_t);
  const auto* bytes = reinterpret_cast<const std::byte*>(output_.data());
  while (begin_bytes_ < end_bytes) {
    const ssize_t written = platform.send(socket, {bytes + begin_bytes_, end_bytes - begin_bytes_});
    ++traffic.system_calls;
    if (written >= 0) {
      begin_bytes_ += static_cast<size_t>(written);
      traffic.bytes_sent += static_cast<uint64_t>(written);
    } else if (errno == EAGAIN) {
      drop_written();
      return false;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return false;  // the socket may still hold an Error frame: the next read returns it
    } else if (errno != EINTR) {
      throw ConnectionLost("sending to " + peer_ + " failed: " + std::strerror(errno));
    }
  }
  output_.clear();
  begin_bytes_ = 0;
  return true;
}

// Drops written bytes, so that a connection that never catches up does not keep everything it
// wrote. Only when less is left than was written, so that each byte moves once at most.
void FrameWriter::drop_written() {
  const size_t written_words = begin_bytes_ / sizeof(uint64_t);
  if (written_words <= output_.size() - written_words) return;
  output_.erase(output_.begin(), output_.begin() + static_cast<ptrdiff_t>(written_words));
  begin_bytes_ -= written_words * sizeof(uint64_t);
}

void FrameReader::make_room() {
  if (begin_bytes_ > 0) {
    auto* bytes = reinterpret_cast<std::byte*>(input_.data());
    std::memmove(bytes, bytes + begin_bytes_, end_bytes_ - begin_bytes_);
    end_bytes_ -= begin_bytes_;
    begin_bytes_ = 0;
  }
  if (input_.size() * sizeof(uint64_t) - end_bytes_ < read_bytes_min) {
    input_.resize(input_.size() * 2 + read_bytes_min / sizeof(uint64_t));
  }
}

bool FrameReader::read_some(Platform& platform, int socket, Traffic& traffic) {
  make_room();
  auto* bytes = reinterpret_cast<std::byte*>(input_.data());
  const ssize_t got =
      platform.receive(socket, {bytes + end_bytes_, input_.size() * sizeof(uint64_t) - end_bytes_});
  ++traffic.system_calls;
  if (got > 0) {
    end_bytes_ += static_cast<size_t>(got);
    traffic.bytes_received += static_cast<uint64_t>(got);
    return true;
  }
  if (got == 0) throw ConnectionLost("the server at " + peer_ + " closed the connection");
  if (errno != EAGAIN && errno != EINTR) {
    throw ConnectionLost("receiving from " + peer_ + " failed: " + std::strerror(errno));
  }
  return false;
}

// The frame at the front of the input, if it is complete.
std::optional<FrameReader::Frame> FrameReader::whole_frame() const {
  const auto words = std::span{input_}.subspan(begin_bytes_ / sizeof(uint64_t));
  const size_t whole_words = (end_bytes_ - begin_bytes_) / sizeof(uint64_t);
  const auto length_words = frame_words(words.first(whole_words));
  if (!length_words || *length_words > whole_words) return std::nullopt;
  return words.first(*length_words);
}

std::optional<FrameReader::Frame> FrameReader::next_frame() {
  const auto frame = whole_frame();
  if (frame) begin_bytes_ += frame->size_bytes();
  return frame;
}

}  // namespace sluicegate
