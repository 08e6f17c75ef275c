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

}  // namespace

bool ShortageLog::is_shortage(int32_t failure) noexcept {
  return failure == -ENOMEM || failure == -ENOBUFS || failure == -ENOSPC;
}

void ShortageLog::note(int32_t failure, base::Now now) noexcept {
  unreported_.fetch_add(1, std::memory_order_relaxed);
  int64_t quiet_until_ns = quiet_until_ns_.load(std::memory_order_relaxed);
  if (now.monotonic_ns < quiet_until_ns) return;
  const bool ours = quiet_until_ns_.compare_exchange_strong(
      quiet_until_ns, now.monotonic_ns + shortage_pause_ns, std::memory_order_relaxed);
  if (!ours) return;  // another worker logs it
  log::warning("connections are turned away: " + std::string(cause_and_cure(-failure)),
               {{"cause", std::generic_category().message(-failure)},
                {"times", unreported_.exchange(0, std::memory_order_relaxed)}});
}

}  // namespace sluice::server
