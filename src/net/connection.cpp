#include "net/connection.hpp"

#include <utility>

#include "base/assert.hpp"

namespace sluice::net {
namespace {

constexpr size_t idle_memory_bytes = 64 * 1024;  // kept by an idle connection

}  // namespace

ConnectionMemory::ConnectionMemory(uint32_t connections_max, size_t output_bytes)
    : output_bytes_(output_bytes),
      region_(bytes_each_ * connections_max, "connections' buffers (--max-connections)") {}

InputBuffer ConnectionMemory::input(uint32_t index) const noexcept {
  return InputBuffer({region_.data() + index * bytes_each_, limits::input_bytes});
}

OutputBuffer ConnectionMemory::output(uint32_t index) const noexcept {
  std::byte* first = region_.data() + index * bytes_each_ + limits::input_bytes;
  return OutputBuffer({first, output_bytes_}, {first + output_bytes_, output_bytes_});
}

std::array<std::span<uint64_t>, 2> ConnectionMemory::undelivered(uint32_t index) const noexcept {
  std::byte* first = region_.data() + index * bytes_each_ + buffers_bytes_;
  const std::span<uint64_t> words(reinterpret_cast<uint64_t*>(first),
                                  2 * size_t{limits::undelivered_words});
  return {words.first(limits::undelivered_words), words.last(limits::undelivered_words)};
}

void ConnectionMemory::discard(uint32_t index) noexcept {
  region_.discard(index * bytes_each_, bytes_each_);
}

void ConnectionMemory::discard_input(uint32_t index, size_t begin, size_t end) noexcept {
  region_.discard(index * bytes_each_ + begin, end - begin);
}

Connection::Connection(io::Io& io, io::SocketId socket, ConnectionMemory& memory,
                       uint32_t place) noexcept
    : io_(io),
      memory_(memory),
      place_(place),
      socket_(socket),
      input_(memory.input(place)),
      output_(memory.output(place)) {}

Connection::Connection(Connection&& from) noexcept
    : io_(from.io_),
      memory_(from.memory_),
      place_(from.place_),
      socket_(from.socket_),
      input_(std::exchange(from.input_, {})),
      output_(std::exchange(from.output_, {})),
      reserved_output_bytes_(from.reserved_output_bytes_),
      send_started_ms_(from.send_started_ms_),
      finished_ms_(from.finished_ms_),
      reading_(from.reading_),
      finishing_(from.finishing_),
      peer_finished_(from.peer_finished_),
      broken_(from.broken_),
      closing_(from.closing_) {}

// The next connection of this slot begins with little memory.
Connection::~Connection() {
  if (holds_much()) memory_.discard(place_);
}

bool Connection::holds_much() const noexcept {
  return input_.peak_bytes() > idle_memory_bytes || output_.peak_bytes() > idle_memory_bytes;
}

void Connection::start_reading() noexcept {
  if (reading_ || closing_ || peer_finished_ || broken_) return;
  reading_ = true;
  io_.receive_start(socket_);
}

void Connection::stop_reading() noexcept {
  if (!reading_ || closing_) return;
  reading_ = false;
  io_.receive_stop(socket_);
}

std::optional<std::span<std::byte>> Connection::receive_now(size_t bytes_max) noexcept {
  if (reading_ || closing_ || peer_finished_ || broken_) return {};
  return io_.receive_now(socket_, bytes_max);
}

void Connection::release_output(size_t bytes) noexcept {
  ASSERT(reserved_output_bytes_ >= bytes);
  reserved_output_bytes_ -= bytes;
}

bool Connection::output_over_high() const noexcept {
  return output_.unsent_bytes() + reserved_output_bytes_ > limits::output_high_bytes;
}

bool Connection::output_under_low() const noexcept {
  return output_.unsent_bytes() + reserved_output_bytes_ <= limits::output_low_bytes;
}

void Connection::flush(int64_t now_ms) noexcept {
  if (closing_ || broken_ || output_.in_flight()) return;
  if (output_.unsent_bytes() > 0) {
    send_started_ms_ = now_ms;
    io_.send(socket_, output_.take_for_sending());
  } else if (finishing_ && !is_finished()) {
    finished_ms_ = now_ms;
    io_.send_finish(socket_);
  }
}

void Connection::on_sent(int32_t result) noexcept {
  output_.sent();
  if (result < 0) broken_ = true;
}

void Connection::finish() noexcept {
  if (finishing_) return;
  finishing_ = true;
  input_.clear();
  start_reading();  // only to see the peer's end, and lest its unparsed bytes reset the connection
}

bool Connection::ready_to_close() const noexcept {
  return !closing_ && (broken_ || (is_finished() && peer_finished_));
}

void Connection::close() noexcept {
  if (closing_) return;
  closing_ = true;
  io_.close(socket_);
}

void Connection::trim_input() noexcept {
  const size_t unparsed = input_.unparsed().size();
  const size_t touched = input_.peak_bytes();
  const size_t free = touched - unparsed;
  // It moves at most as much as it frees.
  if (free <= idle_memory_bytes || unparsed > free) return;
  input_.compact();
  memory_.discard_input(place_, unparsed, touched);
  input_.reset_peak();
}

void Connection::trim() noexcept {
  if (!input_.empty() || !output_.empty() || reserved_output_bytes_ > 0) return;
  if (!holds_much()) return;
  memory_.discard(place_);
  input_.clear();
  input_.reset_peak();
  output_.reset_peak();
}

}  // namespace sluice::net
