#include "cli/remove_on_signal.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/assert.hpp"

namespace sluice::cli {
namespace {

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP};
constexpr std::array suffixes{"-journal", "-wal", "-shm", ""};

std::array<std::string, suffixes.size()> paths;  // only changed while no handler is there

void remove_all(int signal) {
  for (const std::string& path : paths) ::unlink(path.c_str());
  std::raise(signal);  // whose handler is the default one again
}

}  // namespace

RemoveOnSignal::RemoveOnSignal(const std::string& path) {
  ASSERT(paths.front().empty());
  for (size_t i = 0; i < suffixes.size(); ++i) paths[i] = path + suffixes[i];
  struct sigaction action {};
  action.sa_handler = remove_all;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : ending_signals) sigaction(signal, &action, nullptr);
}

RemoveOnSignal::~RemoveOnSignal() {
  for (const int signal : ending_signals) std::signal(signal, SIG_DFL);
  paths.fill({});
}

}  // namespace sluice::cli
