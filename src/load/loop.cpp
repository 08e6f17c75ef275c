#include "load/loop.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "load/clocks.hpp"
#include "load/system_error.hpp"

namespace sluice::load {
namespace {

constexpr int wait_ms_max = 100;  // so that a silent server does not stop the clock
constexpr size_t events_max = 64;
constexpr uint64_t ns_per_ms = 1'000'000;

}  // namespace

Loop::Loop(std::vector<std::unique_ptr<Sender>> senders, double rate, uint32_t frame_entries)
    : rate_{rate}, frame_entries_{frame_entries} {
  for (auto& sender : senders) places_.push_back({.sender = std::move(sender), .schedule = {}});
  watch_senders();
  restart_counters();
}

Loop::~Loop() {
  if (epoll_ >= 0) close(epoll_);
}

void Loop::watch_senders() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw_errno("epoll_create1 failed");
  for (Place& place : places_) {
    epoll_event event{.events = place.sender->epoll_events(), .data = {.ptr = &place}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, place.sender->native_handle(), &event) != 0) {
      throw_errno("epoll_ctl failed");
    }
  }
}

void Loop::restart_counters() {
  counters_ = std::make_unique<Counters>();
  traffic_before_ = traffic();
  if (rate_ > 0) start_schedules();
}

const Counters& Loop::counters() {
  const sluicegate::Traffic now = traffic();
  counters_->traffic = {.bytes_sent = now.bytes_sent - traffic_before_.bytes_sent,
                        .bytes_received = now.bytes_received - traffic_before_.bytes_received,
                        .system_calls = now.system_calls - traffic_before_.system_calls};
  return *counters_;
}

// Staggers the senders by a frame: otherwise the frames of all would be due at once.
void Loop::start_schedules() {
  const double ns_per_entry = 1e9 / rate_;
  const auto senders_count = static_cast<double>(places_.size());
  const uint64_t begin_ns = now_ns();
  for (size_t i = 0; i < places_.size(); ++i) {
    const double entries_before = static_cast<double>(i) * frame_entries_;
    const auto offset_ns = static_cast<uint64_t>(entries_before * ns_per_entry);
    places_[i].schedule.start(begin_ns + offset_ns, ns_per_entry * senders_count);
  }
}

double Loop::behind_s() const noexcept {
  const uint64_t at_ns = now_ns();
  double sum_s = 0;
  for (const Place& place : places_) {
    const uint64_t next_ns = place.schedule.next_ns();
    if (next_ns < at_ns) sum_s += static_cast<double>(at_ns - next_ns) * 1e-9;
  }
  return sum_s / static_cast<double>(places_.size());
}

sluicegate::Traffic Loop::traffic() const noexcept {
  sluicegate::Traffic sum{.system_calls = calls_};
  for (const Place& place : places_) {
    const sluicegate::Traffic one = place.sender->traffic();
    sum.bytes_sent += one.bytes_sent;
    sum.bytes_received += one.bytes_received;
    sum.system_calls += one.system_calls;
  }
  return sum;
}

size_t Loop::frames_in_flight() const noexcept {
  size_t frames = 0;
  for (const Place& place : places_) frames += place.sender->frames_in_flight();
  return frames;
}

void Loop::run(const GoesOn& goes_on) {
  fill_all();
  while (goes_on(now_ns())) turn(true);
}

size_t Loop::drain(double seconds_max) {
  const uint64_t end_ns = now_ns() + static_cast<uint64_t>(seconds_max * 1e9);
  while (frames_in_flight() > 0 && now_ns() < end_ns) turn(false);
  return frames_in_flight();
}

// Time until the next frame is due, in whole milliseconds: the loop spins for the rest, since a
// sleep ends too late.
int Loop::wait_ms(uint64_t now_ns) const noexcept {
  if (rate_ <= 0) return wait_ms_max;
  uint64_t next_ns = now_ns + wait_ms_max * ns_per_ms;
  for (const Place& place : places_) {
    next_ns = std::min(next_ns, std::max(place.schedule.next_ns(), now_ns));
  }
  return static_cast<int>((next_ns - now_ns) / ns_per_ms);
}

// Waits once, then counts the answers of every ready connection and fills its window again.
void Loop::turn(bool asking) {
  std::array<epoll_event, events_max> events;
  const int timeout_ms = asking ? wait_ms(now_ns()) : wait_ms_max;
  const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  ++calls_;
  if (ready < 0 && errno != EINTR) throw_errno("epoll_wait failed");
  for (int i = 0; i < ready; ++i) {
    serve(*static_cast<Place*>(events[static_cast<size_t>(i)].data.ptr), asking);
  }
  // No event reports that a frame is due, or that another sender's frame was answered.
  if (asking && (rate_ > 0 || std::exchange(held_back_, false))) fill_all();
}

void Loop::serve(Place& place, bool asking) {
  do {
    place.sender->take_answers(*counters_);
    if (asking) {
      fill(place);
    } else {
      place.sender->flush();
    }
  } while (place.sender->has_answers());
}

void Loop::fill_all() {
  for (Place& place : places_) {
    fill(place);
    if (place.sender->has_answers()) serve(place, true);
  }
}

// Sends frames until the window is full, no frame is due, or the socket takes no more.
void Loop::fill(Place& place) {
  const uint64_t at_ns = now_ns();
  for (bool asked = true; asked;) {
    asked = false;
    while (rate_ <= 0 || place.schedule.next_ns() <= at_ns) {
      const uint64_t from_ns = rate_ > 0 ? place.schedule.next_ns() : at_ns;
      const uint32_t entries = place.sender->ask(from_ns);
      if (entries == 0) break;
      if (rate_ > 0) counters_->send_delay.add(at_ns - from_ns);
      place.schedule.advance(entries);
      asked = true;
    }
    if (!place.sender->flush()) return;
  }
  held_back_ = held_back_ || place.sender->held_back();
}

}  // namespace sluice::load
