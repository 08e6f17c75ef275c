// Watches the configuration file and the profiles that it names, and hands new rules to its
// listener.
// Flow:   inotify, the slow poll, or read_now() -> read_text_file() -> parse_rules() -> `adopt`. A
//         file that is bad, or gone, changes nothing: one ERROR line gives the reason, and
//         `refused` is called.
// Shape:  one thread that sleeps. It watches folders and not the file: those that the paths name,
//         and those where the files really are. So it notices writing in place, renaming another
//         file over it, and the symbolic links that Kubernetes swaps. The poll is for what inotify
//         does not report: network file systems, a folder that is itself replaced.
// Errors: without inotify (its limits are per user) only the poll is left; a WARN reports that. The
//         constructor throws std::system_error without its other descriptors.
// Lives:  stop() ends it, but a large file that is being read is read to its end; the destructor
//         waits for that, wait_ended() at most its timeout.
// Source: inotify(7); gocc, "Hot reload".
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "io/file_descriptor.hpp"
#include "policy/rule_file.hpp"

struct inotify_event;

namespace sluice::server {

class RuleWatch {
 public:
  // Both are called on the watching thread.
  struct Listener {
    std::function<void(const policy::ParsedRules&)> adopt;
    std::function<void()> refused;
    std::function<void()> idle;  // called at every poll: time to tidy up
  };

  // `text` and `profiles` are what was read at the start: only what differs from them is new.
  RuleWatch(std::string path, policy::ReadProfile read_profile, size_t name_bytes_max,
            std::string text, const std::vector<policy::ProfileFile>& profiles, Listener listener);
  ~RuleWatch();

  // Reads the files now, and calls the listener whether they have changed or not. From any thread,
  // like the next two.
  void read_now() noexcept;
  // Once it has returned, nothing is logged or refused any more.
  void stop() noexcept;
  // After stop(): whether the thread has ended within `timeout`.
  bool wait_ended(std::chrono::milliseconds timeout);

 private:
  enum class Cause { stopped, event, poll, asked };

  // A file as it was read: its text, or why there is none.
  struct Seen {
    std::string text;
    bool is_there = true;
    bool operator==(const Seen&) const = default;
  };

  void run();
  Cause wait();
  bool stops_within(int timeout_ms) const;
  bool drain_events();
  bool is_ours(std::string_view name) const;
  bool is_being_made(const inotify_event& event, std::string_view name) const;
  void watch_folders();
  void check_files(Cause cause);
  std::vector<Seen> read_all() const;
  bool may_be_being_made(const std::vector<Seen>& now) const;
  void follow(Seen file, const std::vector<policy::ProfileFile>& profiles);
  void refuse(const std::vector<std::string>& complaints);
  template <typename Report>
  void unless_stopped(Report report);

  const std::string path_;
  const policy::ReadProfile read_profile_;
  const size_t name_bytes_max_;
  const Listener listener_;
  std::vector<std::string> paths_;  // of the configuration file, then of its profiles
  std::vector<Seen> seen_;          // the texts of these paths that were handled last
  std::vector<Seen> candidate_;     // the texts at the last poll: they may not be whole yet
  std::vector<std::string> names_;  // of the files in the folders for which events matter
  bool warned_ = false;
  io::FileDescriptor inotify_;
  io::FileDescriptor poll_timer_;
  io::FileDescriptor asked_;
  io::FileDescriptor stop_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool stopped_ = false;
  bool ended_ = false;  // the thread touches nothing any more
  std::thread thread_;
};

}  // namespace sluice::server
