#include "cli/top_command.hpp"

#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/limits.hpp"
#include "cli/between.hpp"
#include "cli/http_get.hpp"
#include "cli/rest_server.hpp"
#include "cli/top_screen.hpp"
#include "cli/top_view.hpp"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* top_description =
    R"(Shows a running server live: the decisions per second of each shard, and the busiest keys.
It asks the REST port (GET /top); docs/rest.md describes how exact the figures are.

  sluicegate top
  sluicegate top rates.internal:8080 --keys 50
  sluicegate top --address rates.internal:8081
  sluicegate top --once | head

Keys: q quits; d, a, n and w sort by decisions, approved, denied and waiting. While the server does
not answer, a warning stands above the last figures.

Exit code: 0 after q or a signal, 1 for a usage error, 2 when the server does not answer at the
start.
)";

struct TopFlags {
  RestServer server;
  std::string address;  // that they lead to
  uint32_t keys = limits::top_keys_default;
  uint32_t interval_ms = 1'000;
  bool once = false;
};

// The present traffic; nothing when `go_on()` was false before the server answered.
std::optional<Traffic> ask(const TopFlags& flags, const std::function<bool()>& go_on) {
  const std::string body = http_get({.address = flags.address,
                                     .target = "/top?keys=" + std::to_string(flags.keys),
                                     .timeout = milliseconds{flags.server.timeout_ms}},
                                    go_on);
  if (body.empty()) return std::nullopt;
  return read_top(body);
}

int show_once(const TopFlags& flags) {
  const auto traffic = ask(flags, [] { return true; });
  if (!traffic) throw std::runtime_error(flags.address + ": an empty answer");
  for (const Line& line : TopView{.address = flags.address, .traffic = *traffic}.lines()) {
    std::puts(line.text.c_str());
  }
  return 0;
}

// The loop of the live view.
class Live {
 public:
  Live(const TopFlags& flags, Traffic traffic)
      : flags_(flags), view_{.address = flags.address, .traffic = std::move(traffic)} {}

  void run() {
    while (!ended_) {
      draw();
      wait_until(Clock::now() + milliseconds{flags_.interval_ms});
      if (!ended_) update();
    }
  }

 private:
  static constexpr milliseconds slice{50};

  void update() {
    try {
      // Keys work, also while a server is silent.
      auto traffic = ask(flags_, [this] {
        handle_key(screen_.key(milliseconds{0}));
        return !ended_;
      });
      if (traffic) view_.traffic = std::move(*traffic);
      view_.fault.clear();
      answered_ = Clock::now();
    } catch (const std::runtime_error& error) {
      view_.fault = error.what();
    }
  }

  void wait_until(Clock::time_point end) {
    while (!ended_ && Clock::now() < end) handle_key(screen_.key(slice));
  }

  void handle_key(int key) {
    ended_ = ended_ || key == 'q' || SignalWatch::came();
    if (key == TopScreen::no_key || ended_) return;
    if (key == 'd') view_.sort_by = SortBy::decisions;
    if (key == 'a') view_.sort_by = SortBy::approved;
    if (key == 'n') view_.sort_by = SortBy::denied;
    if (key == 'w') view_.sort_by = SortBy::waiting;
    draw();
  }

  void draw() {
    view_.fault_age = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - answered_);
    screen_.draw(view_.lines(screen_.columns(), screen_.rows()));
  }

  const TopFlags& flags_;
  TopView view_;
  SignalWatch signals_;
  TopScreen screen_;
  Clock::time_point answered_ = Clock::now();
  bool ended_ = false;
};

int top(const TopFlags& flags) {
  std::setlocale(LC_CTYPE, "");
  const bool on_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (!flags.once && !on_terminal) {
    std::fputs("sluicegate top: no terminal here, so this is shown once, as with --once\n", stderr);
  }
  if (flags.once || !on_terminal) return show_once(flags);
  auto traffic = ask(flags, [] { return true; });
  if (!traffic) throw std::runtime_error(flags.address + ": an empty answer");
  Live(flags, std::move(*traffic)).run();
  return 0;
}

}  // namespace

void add_top_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("top", top_description);
  const auto flags = std::make_shared<TopFlags>();
  add_rest_server(*command, flags->server, "ADDRESS,--rest-address");
  command->add_option("--keys", flags->keys, "how many keys to show; 1 to 100")
      ->type_name("N")
      ->check(between(number_option("top", "--keys")))
      ->capture_default_str();
  command
      ->add_option("--interval-millis", flags->interval_ms,
                   "time between two updates; 100 to 3600000")
      ->type_name("N")
      ->check(between(number_option("top", "--interval-millis")))
      ->capture_default_str();
  command->add_flag("--once", flags->once, "one update, as plain text");
  command->callback([flags, &run] {
    run = [flags] {
      flags->address = rest_address(flags->server);
      return top(*flags);
    };
  });
}

}  // namespace sluice::cli
