#include "cli/bench_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>
#include <string>

#include "cli/between.hpp"
#include "load/run.hpp"

namespace sluice::cli {
namespace {

constexpr const char* bench_description =
    R"(Measures a server under load: decisions per second, latency, CPU on both sides.

A closed loop over --connections connections keeps --window frames of --batch keys in flight on
each. The frames are prepared before the clock starts (what the server can do), or with --client
each key is asked for through the client library while the clock runs, and its verdict delivered to
a place of its own (what a caller gets). Every verdict is decoded and counted. With --rate it asks
at fixed times instead, and latency counts from those.

Without --address it starts a server of its own for the run, with limits so high that nothing is
denied but what --denied-share asks for. With --address, --denied-share needs a server whose windows
outlast the run (--window-millis) and that lets requests set limits.

  sluicegate bench --server-cpu 0 --client-cpu 1
  sluicegate bench --address localhost:8081 --keys 1000 --seconds 3 --json
  sluicegate bench --shards 2 --server-cpu 0,1 --route
  sluicegate bench --client --handles --rate 1000000
)";

// Flags of one group of the help text.
struct Flags {
  CLI::App& command;
  const char* group;

  template <typename Value>
  CLI::Option* add(const std::string& name, Value& value, const std::string& text,
                   const char* type) const {
    return command.add_option(name, value, text)->type_name(type)->group(group);
  }

  // The bounds stand in the text instead of in CLI11's notation for them.
  template <typename Number, typename Value>
  CLI::Option* add_number(const OptionBounds<Number>& option, Value& value,
                          const std::string& text) const {
    return add(std::string{option.name}, value, text + "; " + bounds_text(option), "N")
        ->check(between(option))
        ->capture_default_str();
  }
};

void add_target_flags(CLI::App& command, load::Options& options) {
  const Flags flags{command, "Server"};
  auto* address = flags.add("--address", options.address,
                            "a running server's native port; SLUICEGATE_ADDRESS\nis not read: no "
                            "load on a server by mistake",
                            "HOST:PORT");
  address->check(
      [](const std::string& text) {
        return text.find(',') == text.npos ? "" : "has several addresses: bench loads one server";
      },
      "");
  flags.add("--server-pid", options.server_pid, "where to read that server's CPU time", "PID")
      ->needs(address);
  flags
      .add("--server-cpu", options.server_cpus,
           "core for the server started for the run; or several,\nas 0,1", "N")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(address);
  flags.add_number(number_option("bench", "--shards"), options.shards, "that server's shards")
      ->excludes(address);
  flags.add("--io", options.io, "that server's --io", "auto|uring|epoll")
      ->check(CLI::IsMember({"auto", "uring", "epoll"}, CLI::ignore_case).description(""))
      ->excludes(address);
  flags.add("--client-cpu", options.client_cpu, "core for the load", "N");
}

void add_load_flags(CLI::App& command, load::Options& options) {
  const Flags flags{command, "Load"};
  flags.add_number(number_option("bench", "--connections"), options.connections,
                   "to the one server");
  flags.add_number(number_option("bench", "--batch"), options.batch, "keys in a frame");
  flags.add_number(number_option("bench", "--window"), options.window,
                   "frames in flight on a connection");
  flags.add_number(number_option("bench", "--keys"), options.keys, "different keys");
  CLI::Option* new_keys =
      flags.add_number(number_option("bench", "--new-keys"), options.new_keys,
                       "more keys, each asked for first during a run with\n--rate, evenly over it");
  flags.add_number(number_option("bench", "--key-bytes"), options.key_bytes, "length of each key");
  const std::map<std::string, load::Distribution> distributions{
      {"uniform", load::Distribution::uniform},
      {"zipf", load::Distribution::zipf},
      {"one", load::Distribution::one}};
  flags
      .add("--distribution", options.distribution,
           "uniform: all keys in a random order, again and again\n"
           "zipf: exponent 0.99; one: a single key",
           "uniform|zipf|one")
      ->transform(CLI::CheckedTransformer(distributions, CLI::ignore_case).description(""))
      ->default_str("uniform");
  flags
      .add_number(real_option("bench", "--denied-share"), options.denied_share, "of the decisions")
      ->excludes(new_keys);
  CLI::Option* handles = command
                             .add_flag("--handles", options.handles,
                                       "every connection interns keys of its own first, and asks "
                                       "by\nhandle")
                             ->excludes(new_keys)
                             ->group(flags.group);
  command
      .add_flag("--client", options.client,
                "ask through the client library instead of replaying frames")
      ->group(flags.group);
  flags.add_number(number_option("bench", "--rate"), options.rate,
                   "decisions per second at fixed times; 0: a closed\nloop");
  CLI::Option* route = command
                           .add_flag_callback(
                               "--route", [&options] { options.route = load::Route::owners; },
                               "every key over a connection of the shard that owns\n"
                               "it; needs a connection to each")
                           ->excludes(new_keys)
                           ->group(flags.group);
  command
      .add_flag_callback(
          "--misroute", [&options] { options.route = load::Route::other_shards; },
          "every key over a connection to a shard that does not\n"
          "own it: measures messages between shards")
      ->excludes(route)
      ->excludes(new_keys)
      ->group(flags.group);
  command
      .add_flag("--other-handle", options.other_handle,
                "every connection also holds the handle of a key that\n"
                "another shard owns, and does not ask for it")
      ->needs(handles)
      ->needs(route)
      ->group(flags.group);
}

void add_run_flags(CLI::App& command, load::Options& options) {
  const Flags flags{command, "Run"};
  flags.add_number(real_option("bench", "--seconds"), options.seconds, "to measure");
  flags.add_number(real_option("bench", "--warm-up-seconds"), options.warm_up_seconds,
                   "before that, when every key was asked for once");
  command.add_flag("--json", options.json, "one line of JSON on stdout, the summary on stderr")
      ->group(flags.group);
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("bench", bench_description)->alias("benchmark");
  const auto options = std::make_shared<load::Options>();
  add_target_flags(*command, *options);
  add_load_flags(*command, *options);
  add_run_flags(*command, *options);
  // `gocc benchmark actors` measured what this does.
  command
      ->add_option_function<std::string>(
          "actors",
          [](const std::string& word) {
            if (word == "actors") return;
            throw CLI::ParseError("bench takes no argument '" + word +
                                      "'; the server to measure is --address HOST:PORT",
                                  CLI::ExitCodes::ExtrasError);
          })
      ->group("");
  command->callback([options, &run] { run = [options] { return load::run(*options); }; });
}

}  // namespace sluice::cli
