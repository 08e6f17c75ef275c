#include "bench/limits/echo_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/time.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr uint32_t submissions = 1'024;
constexpr uint32_t completions = 8'192;
constexpr uint32_t receive_buffers = 64;
constexpr uint32_t receive_buffer_bytes = 64 * 1024;
constexpr int64_t wait_ns = base::ns_per_s / 10;  // bounds the wait for the end
constexpr uint64_t send_bit = uint64_t{1} << 32;  // in user_data, beside the connection's index

}  // namespace

void ItemNumbers::append(std::span<const std::byte> received, std::vector<std::byte>& replies) {
  if (item_bytes_ == reply_bytes) {  // an item is only its number, so cuts do not matter
    replies.insert(replies.end(), received.begin(), received.end());
    return;
  }
  if (item_offset_ > 0) received = append_part(received, replies);
  const size_t items_count = received.size() / item_bytes_;
  const size_t before = replies.size();
  replies.resize(before + items_count * reply_bytes);
  for (size_t item = 0; item < items_count; ++item) {
    std::memcpy(&replies[before + item * reply_bytes], &received[item * item_bytes_], reply_bytes);
  }
  append_part(received.subspan(items_count * item_bytes_), replies);
}

// Consumes the received part of the current item; returns the bytes behind it.
std::span<const std::byte> ItemNumbers::append_part(std::span<const std::byte> received,
                                                    std::vector<std::byte>& replies) {
  const size_t bytes = std::min(received.size(), item_bytes_ - item_offset_);
  if (item_offset_ < reply_bytes) {
    const auto number = received.first(std::min(bytes, reply_bytes - item_offset_));
    replies.insert(replies.end(), number.begin(), number.end());
  }
  item_offset_ = (item_offset_ + bytes) % item_bytes_;
  return received.subspan(bytes);
}

EchoServer::EchoServer(std::span<const int> sockets, size_t item_bytes, size_t unsent_bytes_max)
    : open_count_(sockets.size()),
      ring_(submissions, completions),
      buffers_(ring_.raw(), receive_buffers, receive_buffer_bytes) {
  for (const int fd : sockets) {
    connections_.push_back({.fd = fd, .numbers = ItemNumbers(item_bytes)});
    connections_.back().filling.reserve(unsent_bytes_max);
    connections_.back().sending.reserve(unsent_bytes_max);
    to_receive_.push_back(static_cast<uint32_t>(connections_.size() - 1));
  }
}

void EchoServer::run(uint64_t end_ns) {
  while (open_count_ > 0) {
    for (const uint32_t index : std::exchange(to_receive_, {})) start_receiving(index);
    ring_.enter(wait_ns);
    ring_.completions([this](const io_uring_cqe& cqe) {
      on_completion(cqe);
      return true;
    });
    buffers_.return_buffers();
    if (error_ != 0) throw std::system_error(error_, std::generic_category(), "the echo server");
    for (const uint32_t index : std::exchange(to_send_, {})) start_sending(index);
    if (load::now_ns() > end_ns) {
      throw std::system_error(ETIMEDOUT, std::generic_category(), "the echo server");
    }
  }
}

io_uring_sqe& EchoServer::next_submission() {
  io_uring_sqe* sqe = ring_.next_submission();
  if (sqe == nullptr) throw std::system_error(EBUSY, std::generic_category(), "io_uring_submit");
  return *sqe;
}

void EchoServer::start_receiving(uint32_t index) {
  io_uring_sqe& sqe = next_submission();
  io_uring_prep_recv_multishot(&sqe, connections_[index].fd, nullptr, 0, 0);
  sqe.flags |= IOSQE_BUFFER_SELECT;
  sqe.buf_group = io::BufferRing::group;
  sqe.user_data = index;
}

void EchoServer::start_sending(uint32_t index) {
  Connection& connection = connections_[index];
  connection.waits_for_send = false;
  if (connection.send_under_way) return;  // on_sent() sends the rest
  if (connection.sent_bytes == connection.sending.size()) {
    connection.sending.clear();
    connection.sent_bytes = 0;
    std::swap(connection.sending, connection.filling);
  }
  if (connection.sending.empty()) return;
  const auto rest = std::span{connection.sending}.subspan(connection.sent_bytes);
  io_uring_sqe& sqe = next_submission();
  io_uring_prep_send(&sqe, connection.fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_WAITALL);
  sqe.user_data = index | send_bit;
  connection.send_under_way = true;
}

void EchoServer::on_completion(const io_uring_cqe& cqe) {
  const auto index = static_cast<uint32_t>(cqe.user_data);
  if ((cqe.user_data & send_bit) != 0) {
    on_sent(index, cqe.res);
  } else {
    on_received(index, cqe);
  }
}

void EchoServer::on_received(uint32_t index, const io_uring_cqe& cqe) {
  Connection& connection = connections_[index];
  if (cqe.res > 0) {
    connection.numbers.append(buffers_.take(cqe), connection.filling);
    want_send(index);
  } else if (cqe.res == 0) {
    connection.open = false;
    --open_count_;
  } else if (cqe.res != -ENOBUFS && error_ == 0) {  // -ENOBUFS: buffers return now
    error_ = -cqe.res;
  }
  if (connection.open && (cqe.flags & IORING_CQE_F_MORE) == 0) to_receive_.push_back(index);
}

void EchoServer::on_sent(uint32_t index, int result) {
  Connection& connection = connections_[index];
  connection.send_under_way = false;
  if (result < 0) {
    if (error_ == 0) error_ = -result;
    return;
  }
  connection.sent_bytes += static_cast<size_t>(result);
  want_send(index);
}

void EchoServer::want_send(uint32_t index) {
  if (std::exchange(connections_[index].waits_for_send, true)) return;
  to_send_.push_back(index);
}

}  // namespace sluice::limits_bench
