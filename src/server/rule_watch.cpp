#include "server/rule_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "log/log.hpp"

namespace sluice::server {
namespace {

constexpr time_t poll_s = 2;
constexpr int settle_ms = 10;  // a file that is made and then written is read once
constexpr uint32_t events_mask = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ONLYDIR;

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string name_of(const std::string& path) {
  return std::filesystem::path(path).filename();
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real{::realpath(path.c_str(), nullptr),
                                                         &std::free};
  return real ? real.get() : path;
}

// The first step of a symbolic link that leads below its own folder: `..data` in Kubernetes.
std::string first_step(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  return error || target.empty() || target.is_absolute() ? std::string{} : target.begin()->string();
}

void warn_of_polls(const std::string& path, int error) {
  const std::string cure = error == EMFILE   ? "raise the sysctl fs.inotify.max_user_instances"
                           : error == ENOSPC ? "raise the sysctl fs.inotify.max_user_watches"
                                             : "allow inotify, or send SIGHUP after a change";
  log::warning(
      "no inotify: changes of the configuration file are seen within seconds only; " + cure,
      {{"configFile", path}, {"cause", std::strerror(error)}});
}

// The descriptor; throws if there is none: without a timer no change would be seen, without the
// events the thread would never end.
int needed(int descriptor) {
  if (descriptor >= 0) return descriptor;
  throw std::system_error(errno, std::generic_category(),
                          "cannot watch the configuration file: raise the limit of file "
                          "descriptors (ulimit -n, LimitNOFILE=), and allow timerfd_create and "
                          "eventfd2 in the seccomp profile");
}

void ring(const io::FileDescriptor& event) noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof one);
}

bool take_ring(const io::FileDescriptor& event) noexcept {
  uint64_t rings = 0;
  return ::read(event.get(), &rings, sizeof rings) > 0;
}

}  // namespace

RuleWatch::RuleWatch(std::string path, policy::ReadProfile read_profile, size_t name_bytes_max,
                     std::string text, const std::vector<policy::ProfileFile>& profiles,
                     Listener listener)
    : path_(std::move(path)),
      read_profile_(std::move(read_profile)),
      name_bytes_max_(name_bytes_max),
      listener_(std::move(listener)),
      poll_timer_(needed(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC))),
      asked_(needed(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))),
      stop_(needed(::eventfd(0, EFD_CLOEXEC))) {
  follow({.text = std::move(text)}, profiles);
  candidate_ = seen_;
  const itimerspec every{.it_interval = {.tv_sec = poll_s, .tv_nsec = 0},
                         .it_value = {.tv_sec = poll_s, .tv_nsec = 0}};
  ::timerfd_settime(poll_timer_.get(), 0, &every, nullptr);
  inotify_.reset(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify_.is_open()) {
    warned_ = true;
    warn_of_polls(path_, errno);
  }
  thread_ = std::thread([this] { run(); });
}

RuleWatch::~RuleWatch() {
  stop();
  thread_.join();
}

void RuleWatch::read_now() noexcept {
  ring(asked_);
}

void RuleWatch::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  ring(stop_);
}

bool RuleWatch::wait_ended(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return ended_; });
}

void RuleWatch::run() {
  watch_folders();
  check_files(Cause::poll);  // what changed before the folders were watched
  while (true) {
    const Cause cause = wait();
    if (cause == Cause::stopped) break;
    if (cause == Cause::event && stops_within(settle_ms)) break;
    check_files(cause);
    watch_folders();  // links may lead to other folders now
    listener_.idle();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

// Reports nothing after stop(): the log's last line must be that the server has stopped.
template <typename Report>
void RuleWatch::unless_stopped(Report report) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) report();
}

// Events about other files neither return from this nor put the poll off.
RuleWatch::Cause RuleWatch::wait() {
  pollfd waits[] = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                    {.fd = poll_timer_.get(), .events = POLLIN, .revents = 0},
                    {.fd = asked_.get(), .events = POLLIN, .revents = 0},
                    {.fd = inotify_.get(), .events = POLLIN, .revents = 0}};
  while (true) {
    ::poll(waits, inotify_.is_open() ? 4 : 3, -1);
    if (waits[0].revents != 0) return Cause::stopped;
    if (waits[2].revents != 0 && take_ring(asked_)) return Cause::asked;
    if (waits[3].revents != 0 && drain_events()) return Cause::event;
    if (waits[1].revents != 0 && take_ring(poll_timer_)) return Cause::poll;
  }
}

bool RuleWatch::stops_within(int timeout_ms) const {
  pollfd waits{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  ::poll(&waits, 1, timeout_ms);
  return waits.revents != 0;
}

// Returns whether one of the events may be about the file.
bool RuleWatch::drain_events() {
  alignas(inotify_event) char buffer[16 * 1024];
  bool ours = false;
  while (true) {
    const ssize_t bytes = ::read(inotify_.get(), buffer, sizeof buffer);
    if (bytes <= 0) return ours;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      const std::string_view name = event->len > 0 ? event->name : "";
      const bool lost = (event->mask & IN_Q_OVERFLOW) != 0;
      ours = ours || lost || (is_ours(name) && !is_being_made(*event, name));
      at += static_cast<ssize_t>(sizeof *event + event->len);
    }
  }
}

bool RuleWatch::is_ours(std::string_view name) const {
  return std::ranges::find(names_, name) != names_.end();
}

// A file that was just made, or removed to be made again, is written next, and there is an event
// when it is closed. A link is complete from the start.
bool RuleWatch::is_being_made(const inotify_event& event, std::string_view name) const {
  const auto is_file_of = [&](const std::string& path) {
    std::error_code error;
    return name == name_of(path) && !std::filesystem::is_symlink(path, error);
  };
  return (event.mask & (IN_CREATE | IN_DELETE)) != 0 && std::ranges::any_of(paths_, is_file_of);
}

// A folder that is watched already stays watched; one that is gone has lost its watch.
void RuleWatch::watch_folders() {
  if (!inotify_.is_open()) return;
  names_.clear();
  for (const std::string& path : paths_) {
    const std::string real = real_path(path);
    names_.insert(names_.end(), {name_of(path), first_step(path), name_of(real)});
    for (const std::string& folder : {folder_of(path), folder_of(real)}) {
      const int watch = ::inotify_add_watch(inotify_.get(), folder.c_str(), events_mask);
      // A missing folder may appear again; other errors are the limits of the user.
      const int error = errno;
      if (watch < 0 && error != ENOENT && !std::exchange(warned_, true)) {
        unless_stopped([&] { warn_of_polls(path_, error); });
      }
    }
  }
}

std::vector<RuleWatch::Seen> RuleWatch::read_all() const {
  std::vector<Seen> now;
  for (const std::string& path : paths_) {
    policy::TextFile read = policy::read_text_file(path);
    const bool is_there = read.error.empty();
    now.push_back({.text = std::move(is_there ? read.text : read.error), .is_there = is_there});
  }
  return now;
}

// Whether a file that has changed is empty, or gone.
bool RuleWatch::may_be_being_made(const std::vector<Seen>& now) const {
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != seen_[i] && (!now[i].is_there || now[i].text.empty())) return true;
  }
  return false;
}

// Stores what was handled, and which profiles matter from now on.
void RuleWatch::follow(Seen file, const std::vector<policy::ProfileFile>& profiles) {
  paths_ = {path_};
  seen_ = {std::move(file)};
  for (const policy::ProfileFile& profile : profiles) {
    const bool is_there = profile.error.empty();
    paths_.push_back(profile.path);
    seen_.push_back({.text = is_there ? profile.text : profile.error, .is_there = is_there});
  }
}

void RuleWatch::check_files(Cause cause) {
  std::vector<Seen> now = read_all();
  if (now == seen_ && cause != Cause::asked) return;
  // A program that writes in place closes the file at the end, which is an event; a poll may come
  // in the middle, so its text counts only if the next poll finds the same. A file that is empty,
  // or gone, may just be being made, whatever the event: it is left to the polls.
  if (cause == Cause::event && may_be_being_made(now)) return;
  if (cause == Cause::poll && std::exchange(candidate_, now) != now) return;
  if (!now[0].is_there) {
    const std::string error = now[0].text;
    seen_ = std::move(now);
    return refuse({error});
  }
  const policy::ParsedRules parsed =
      policy::parse_rules(now[0].text, read_profile_, name_bytes_max_);
  follow(std::move(now[0]), parsed.profiles);
  if (!parsed.complaints.empty()) return refuse(parsed.complaints);
  if (stops_within(0)) return;  // making the books of a large file takes a while
  listener_.adopt(parsed);
  unless_stopped([&] {
    log::info("configuration file reloaded", {{"configFile", path_},
                                              {"entries", parsed.rules.size()},
                                              {"subjects", parsed.quotas.rules.size()}});
  });
}

void RuleWatch::refuse(const std::vector<std::string>& complaints) {
  unless_stopped([&] {
    listener_.refused();
    log::error("configuration file refused: the rules stay as they were",
               {{"configFile", path_}, {"complaints", complaints}});
  });
}

}  // namespace sluice::server
