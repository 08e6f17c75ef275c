#include "server/shortage_log.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include "log/log.hpp"

namespace sluice::server {
namespace {

std::string_view cause_and_cure(int error) noexcept {
  switch (error) {
    case EMFILE:
      return "the process has no free file descriptor; raise the limit (ulimit -n, LimitNOFILE=) "
             "or lower --max-connections";
    case ENFILE:
      return "the machine has no free file descriptor; raise the sysctl fs.file-max";
    case ENOMEM:
    case ENOBUFS:
      return "the kernel has no memory for sockets; raise the memory limit of the container or the "
             "sysctl net.ipv4.tcp_mem, or lower --max-connections";
    case ENOSPC:
      return "epoll has reached its limit; raise the sysctl fs.epoll.max_user_watches";
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "accepting is forbidden; allow accept4 in the seccomp profile, and accept in the "
             "security module";
    default:
      return "the kernel does not accept them";
  }
}

// Of io_uring_enter, epoll_pwait2 and epoll_wait, or of the read of a wake-up.
std::string_view cure_of_refusal(int error) noexcept {
  switch (error) {
    case EAGAIN:
    case EBUSY:
    case ENOMEM:
    case ENOBUFS:
      return "the kernel has no memory for the server's operations; raise the memory limit of the "
             "container, or choose --io epoll";
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "a system call that the server needs is forbidden; allow io_uring_enter (epoll_pwait2 "
             "or epoll_wait with --io epoll) in the seccomp profile";
    default:
      return "the kernel refuses the server's operations; choose the other back end with --io";
  }
}

}  // namespace

bool ShortageLog::is_shortage(int32_t failure) noexcept {
  return failure == -ENOMEM || failure == -ENOBUFS || failure == -ENOSPC;
}

void ShortageLog::note(int32_t failure, base::Now now) noexcept {
  count(turned_away_, "connections are turned away: ", cause_and_cure(-failure), failure, now);
}

void ShortageLog::note_refusal(int32_t failure, base::Now now) noexcept {
  count(late_, "requests are answered late or not at all: ", cure_of_refusal(-failure), failure,
        now);
}

void ShortageLog::count(Line& line, std::string_view effect, std::string_view cause_and_cure,
                        int32_t failure, base::Now now) noexcept {
  line.unreported.fetch_add(1, std::memory_order_relaxed);
  if (!line.pause.may_log(now)) return;
  log::warning(std::string(effect) + std::string(cause_and_cure),
               {{"cause", std::generic_category().message(-failure)},
                {"times", line.unreported.exchange(0, std::memory_order_relaxed)}});
}

}  // namespace sluice::server
