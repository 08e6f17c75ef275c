#include "config/flags.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string_view>

#include "base/limits.hpp"
#include "config/help.hpp"
#include "config/pflag.hpp"
#include "config/time_flag.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"

namespace sluice::config {
namespace {

constexpr std::string_view description =
    R"(Sluicegate answers "may I?" for other services: yes, no, or wait.

A key gets --max-requests permits per window of --window-millis; the window starts with the key's
first request. A request that may wait joins the key's queue, first in, first out.

Without a subcommand it runs the server:
  sluicegate --max-requests 100 --window-millis 1000
  curl -X POST localhost:8080/rate/my-key

  POST   /rate/KEY              asks for a permit: 200 with the request's id, or 429
                                ?canWait=true         wait in the queue instead of a 429
                                ?cost=N               ask for N permits at once
                                ?maxWaitMillis=N      wait no longer than that
                                ?maxRequests=N        this key's own limit
                                ?maxRequestsInQueue=N this key's own queue length
  DELETE /rate/KEY/ID           releases a permit
  GET    /debug, /debug/KEY     what every key, or one, has used
  GET    /metrics, /healthz     for Prometheus, and for readiness probes

The native protocol on --native-port carries thousands of requests in one frame.
A flag wins over its environment variable, which wins over the default.
)";

constexpr const char* keys_group = "Limits of a key without its own";
constexpr const char* listen_group = "Listening";
constexpr const char* run_group = "Running";
constexpr const char* log_group = "Log (to stdout; system-default: to stderr)";
constexpr const char* bounds_group = "Bounds of the whole process (beyond them: a clear refusal)";
constexpr const char* times_group = "Time-outs";

constexpr const char* number_type = "N";

struct Bounds {
  int64_t min;
  int64_t max;
};

constexpr Bounds shards_bounds = {1, limits::shards_max};
constexpr uint32_t spin_us_to_spare = 50;  // about as long as going to sleep and waking up takes

// The names of a flag, for its callback.
struct FlagName {
  std::string title;  // "-m, --max-requests"
  std::string name;   // "max-requests"
};

// From CLI11's notation: "-m,--max-requests".
FlagName name_of(const std::string& names) {
  const size_t name = names.find("--") + 2;
  const bool has_short = name > 2;
  return {has_short ? names.substr(0, 2) + ", " + names.substr(3) : names, names.substr(name)};
}

bool equal_in_any_case(std::string_view text, std::string_view other) {
  return std::ranges::equal(
      text, other, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

UsageError invalid_value(const FlagName& flag, std::string_view reason) {
  return UsageError("invalid value for param '" + flag.name + "': " + std::string(reason));
}

int64_t bounded_value(const FlagName& flag, const std::string& text, Bounds bounds) {
  const std::optional<int64_t> value = parse_integer(text);
  if (!value) throw invalid_argument(flag.title, text, "a whole number is expected");
  if (*value < bounds.min) {
    throw invalid_value(flag, "value must be at least " + std::to_string(bounds.min));
  }
  if (*value > bounds.max) {
    throw invalid_value(flag, "value must be at most " + std::to_string(bounds.max));
  }
  return *value;
}

// Only these names are known: what others resolve to would depend on the machine.
constexpr std::array<std::pair<std::string_view, const char*>, 2> address_names{
    {{"localhost", "127.0.0.1"}, {"ip6-localhost", "::1"}}};

bool is_address(int family, const std::string& text) {
  std::array<std::byte, sizeof(in6_addr)> binary;
  return inet_pton(family, text.c_str(), binary.data()) == 1;
}

// What is wrong with a text that is no address.
std::string address_fault(const std::string& text) {
  if (text.front() == '[' || is_address(AF_INET, text.substr(0, text.find(':')))) {
    return "it takes neither a port nor brackets";
  }
  const bool is_name = text.find_first_not_of("0123456789.:") != text.npos;
  return is_name ? "other names are not resolved" : "this is none";
}

std::string read_address(const FlagName& flag, const std::string& text) {
  if (text.empty() || is_address(AF_INET, text) || is_address(AF_INET6, text)) return text;
  for (const auto& [name, address] : address_names) {
    if (equal_in_any_case(text, name)) return address;
  }
  throw invalid_value(flag,
                      "value must be an IPv4 or IPv6 address, such as 127.0.0.1 or ::1, or "
                      "localhost: " +
                          address_fault(text));
}

std::string as_given(const FlagName&, const std::string& text) {
  return text;
}

// A value of a flag that knows a few words; in any case.
template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

constexpr std::array<Choice<base::IoBackend>, 3> backends{{{"auto", base::IoBackend::automatic},
                                                           {"uring", base::IoBackend::uring},
                                                           {"epoll", base::IoBackend::epoll}}};

constexpr std::array<Choice<log::Format>, 3> log_formats{
    {{"json", log::Format::json},
     {"text", log::Format::text},
     {"system-default", log::Format::system_default}}};

constexpr Choice<log::Level> choice_of(log::Level level) {
  return {log::level_name(level), level};
}

constexpr std::array<Choice<log::Level>, 4> log_levels{
    choice_of(log::Level::debug), choice_of(log::Level::info), choice_of(log::Level::warning),
    choice_of(log::Level::error)};

constexpr std::array<Choice<const char*>, 3> server_types{
    {{"echo", "echo"}, {"echo-http2", "echo-http2"}, {"fast", "fast"}}};

template <typename Value, size_t Count>
std::string names_of(const std::array<Choice<Value>, Count>& choices, char separator) {
  std::string names;
  for (const Choice<Value>& choice : choices) {
    if (!names.empty()) names += separator;
    names += choice.name;
  }
  return names;
}

// The list "[a, b]" without its brackets and outer blanks. CLI11 joins several given values with
// line feeds; empty ones are left out.
std::string read_list(const FlagName&, const std::string& text) {
  const char* around = "[] \t";
  std::string list;
  std::istringstream values{text};
  for (std::string value; std::getline(values, value);) {
    const size_t begin = value.find_first_not_of(around);
    if (begin == value.npos) continue;
    if (!list.empty()) list += ',';
    list += value.substr(begin, value.find_last_not_of(around) - begin + 1);
  }
  return list;
}

// Registers flags of one group. Each ends with its bounds, its default and its variable.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  template <typename Integer>
  void number(const std::string& names, Integer& value, Bounds bounds, const std::string& text) {
    number(names, value, bounds, text, "default " + std::to_string(value));
  }

  // With a default that depends on the machine.
  template <typename Integer>
  void number(const std::string& names, Integer& value, Bounds bounds, const std::string& text,
              const std::string& default_text) {
    const std::string range = std::to_string(bounds.min) + " to " + std::to_string(bounds.max);
    word(names, number_type, value, text, range + ", " + default_text,
         [bounds](const FlagName& flag, const std::string& given) {
           return static_cast<Integer>(bounded_value(flag, given, bounds));
         });
  }

  template <typename Value, typename Known, size_t Count>
  void choice(const std::string& names, Value& value,
              const std::array<Choice<Known>, Count>& choices, const std::string& text,
              const std::string& default_text) {
    word(names, names_of(choices, '|'), value, text, default_text,
         [&choices](const FlagName& flag, const std::string& given) -> Value {
           for (const Choice<Known>& choice : choices) {
             if (equal_in_any_case(given, choice.name)) return choice.value;
           }
           throw invalid_value(flag, "value must be one of [" + names_of(choices, ' ') + "]");
         });
  }

  void toggle(const std::string& names, bool& value, const std::string& text) {
    const std::string default_text = value ? "default true" : "default false";
    describe(*app_.add_flag(names, value), text, default_text);
  }

  // `read` turns the flag's text into its value, or throws a UsageError.
  template <typename Value, typename Read>
  void word(const std::string& names, const std::string& type, Value& value,
            const std::string& text, const std::string& default_text, Read read) {
    const FlagName flag = name_of(names);
    CLI::Option* option = app_.add_option_function<std::string>(
        names, [flag, &value, read](const std::string& given) { value = read(flag, given); });
    describe(*option->type_name(type), text, default_text);
  }

 private:
  void describe(CLI::Option& option, const std::string& text, const std::string& default_text) {
    option.group(name_)->take_last();
    option.description(text + "\n[" + default_text + "; env " +
                       environment_name(option.get_lnames().front()) + "]");
  }

  CLI::App& app_;
  std::string name_;
};

void add_key_flags(CLI::App& app, Config& config) {
  Group group(app, keys_group);
  group.number("-m,--max-requests", config.max_requests, {1, limits::permits_max},
               "permits per key and window");
  group.number("--max-requests-in-queue", config.max_requests_in_queue, {0, limits::queue_max},
               "requests that may wait in a key's queue; 0: none");
  group.number("-w,--window-millis", config.window_ms,
               {limits::window_ms_min, limits::default_window_ms_max},
               "length of a window, in milliseconds");
  group.number("--max-wait-millis", config.max_wait_ms, {0, limits::wait_ms_max},
               "longest wait; a longer one is denied; 0: no limit");
  group.toggle("-r,--requests-can-set-rate", config.requests_can_set_rate,
               "requests may bring their own maxRequests");
  group.toggle("--requests-can-mod-queue", config.requests_can_mod_queue,
               "requests may bring their own maxRequestsInQueue");
  group.word("-c,--config-file", "FILE", config.config_file,
             "JSON: keys and subjects of quotas have limits of\ntheir own, by pattern; "
             "check-config checks it.\nChanges are followed; SIGHUP has it read at once",
             "default none", as_given);
  group.word("--profiles", "DIR", config.profiles,
             "folder of the profiles that the configuration file names",
             "default " + config.profiles, as_given);
}

void add_listen_flags(CLI::App& app, Config& config) {
  Group group(app, listen_group);
  group.word("--bind", "ADDRESS", config.bind, "IPv4 or IPv6 address to listen on, or localhost",
             "default all interfaces", read_address);
  group.number("-p,--port", config.port, {0, 65'535}, "REST (HTTP/1.1); 0: any free one");
  group.number("--native-port", config.native_port, {0, 65'535},
               "native protocol; 0: any free one");
}

void add_run_flags(CLI::App& app, Config& config) {
  Group group(app, run_group);
  group.number("--shards", config.shards, shards_bounds, "shards, each with a worker thread",
               "default: usable CPUs");
  group.toggle("--pin", config.pin,
               "shard i stays on the i-th usable CPU; off by itself\n"
               "where CPUs are fewer than shards, or under a CPU quota");
  group.number("--spin-us", config.spin_us, {0, 1'000},
               "microseconds that an idle shard polls before it sleeps;\n"
               "CPUs to spare: more than shards",
               "default: 0, or 50 with CPUs to spare");
  group.choice("--io", config.io, backends, "auto takes io_uring where the kernel allows it",
               "default auto");
  group.choice("-s,--server-type", config.server_type, server_types,
               "as gocc has it; without effect here", "default none");
  group.word("-i,--instance-urls", "URLS", config.instance_urls,
             "must be empty: there is no distributed mode yet", "default empty", read_list);
  // All given values make the list.
  app.get_option("--instance-urls")->multi_option_policy(CLI::MultiOptionPolicy::Join);
}

void add_log_flags(CLI::App& app, Config& config) {
  Group group(app, log_group);
  group.choice("-l,--log-format", config.log_format, log_formats, "the form of a line",
               "default json");
  group.choice("--log-level", config.log_level, log_levels, "lines of lower levels are left out",
               "default INFO");
  group.toggle("--log-includes-source", config.log_includes_source,
               "name the source file and line (not system-default)");
  group.toggle("--log2xx", config.log_2xx, "a line for every REST request answered 2xx");
  group.toggle("--log4xx", config.log_4xx, "likewise 4xx, and waiters of clients that left");
  group.toggle("--log5xx", config.log_5xx, "likewise 5xx");
}

void add_bound_flags(CLI::App& app, Config& config) {
  Group group(app, bounds_group);
  group.number("--max-keys", config.max_keys, {1, 1'000'000'000}, "most keys in memory");
  group.number("--max-key-bytes", config.max_key_bytes, {1, limits::key_bytes_max},
               "length of a key");
  group.number("--max-handles", config.max_handles, {1, 1'000'000'000},
               "keys that native clients name by number");
  group.number("--max-subjects", config.max_subjects, {1, 100'000'000},
               "subjects of quotas that are remembered");
  group.number("--max-reservations", config.max_reservations, {1, limits::reservations_max},
               "reservations that are open");
  group.number("--max-waiters", config.max_waiters, {1, 100'000'000}, "requests that wait");
  group.number("--max-connections", config.max_connections, {1, 1'000'000},
               "open connections, both ports together");
}

void add_time_flags(CLI::App& app, Config& config) {
  Group group(app, times_group);
  group.number("--header-timeout-millis", config.header_timeout_ms, {1, 3'600'000},
               "to send a whole HTTP header, native frame or Hello");
  group.number("--idle-timeout-millis", config.idle_timeout_ms, {0, 86'400'000},
               "an HTTP connection without requests is closed;\n0: stays open");
  group.number("--drain-millis", config.drain_ms, {0, 3'600'000},
               "to finish after a signal to stop");
}

// gocc reads a number in a variable as a plain one: 010 is ten, and 0x10 is none.
std::string plain_number(const std::string& title, const std::string& text) {
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view digits = std::string_view(text).substr(sign);
  const bool plain = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  if (!plain) throw invalid_argument(title, text, "a whole number is expected");
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  return text.substr(0, sign) + std::string(digits.substr(zeros));
}

// Linked containers and Kubernetes set PORT variables of services: NATIVE_PORT=tcp://10.0.0.7:81.
bool is_service_link(std::string_view text) {
  const auto schemes = {"tcp://", "udp://", "sctp://"};
  return std::ranges::any_of(schemes, [&](const char* scheme) { return text.starts_with(scheme); });
}

void read_variable(CLI::Option& option, Warnings& warnings) {
  const std::string name = environment_name(option.get_lnames().front());
  const char* text = std::getenv(name.c_str());
  if (text == nullptr || *text == '\0') return;
  std::string value = text;
  if (option.get_type_name() == number_type && is_service_link(value)) {
    warnings.push_back("environment variable " + name +
                       " is passed over: " + text::in_quotes(value) +
                       " is the address of a service, not the value of " + flag_title(option));
    return;
  }
  try {
    if (is_switch(option)) {
      const std::optional<bool> on = text::parse_bool(value);
      if (!on) throw invalid_argument(flag_title(option), value, "a switch is true or false");
      value = *on ? "true" : "false";
    } else if (option.get_type_name() == number_type) {
      value = plain_number(flag_title(option), in_unit_of(option, value));
    }
    option.add_result(std::move(value));
    option.run_callback();
  } catch (const UsageError& error) {
    throw UsageError(std::string(error.what()) + " (environment variable " + name + ")");
  }
}

bool is_given(const CLI::App& app, const std::string& name) {
  return app.get_option(name)->count() > 0;
}

// Sets what depends on the machine, unless it was given.
void set_machine_defaults(const CLI::App& app, Config& config, const UsableCpus& cpus) {
  const uint32_t count = cpus.count();
  if (!is_given(app, "--shards")) {
    config.shards = std::min(count, static_cast<uint32_t>(shards_bounds.max));
  }
  // Two shards pinned to one CPU would wait for each other. And with a quota, others share the
  // CPUs: every container of the machine would pin to the same first few.
  const bool owns_cpus = !cpus.quota || *cpus.quota >= cpus.numbers.size();
  if (config.shards > cpus.numbers.size() || !owns_cpus) config.pin = false;
  if (!is_given(app, "--spin-us")) config.spin_us = count > config.shards ? spin_us_to_spare : 0;
}

bool is_server_flag(const CLI::Option& option) {
  const std::array groups = {keys_group, listen_group, run_group,
                             log_group,  bounds_group, times_group};
  return std::find(groups.begin(), groups.end(), option.get_group()) != groups.end();
}

}  // namespace

void add_server_flags(CLI::App& app, Config& config) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.description(std::string(description) + std::string(time_note));
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", "sluicegate " SLUICE_VERSION, "the version");
  add_key_flags(app, config);
  add_listen_flags(app, config);
  add_run_flags(app, config);
  add_log_flags(app, config);
  add_bound_flags(app, config);
  add_time_flags(app, config);
}

Warnings parse(CLI::App& app, Config& config, std::vector<std::string> arguments,
               const UsableCpus& cpus) {
  if (!arguments.empty() && arguments.front() == "help") {
    std::rotate(arguments.begin(), arguments.begin() + 1, arguments.end());
    arguments.back() = "--help";
  }
  arguments = normalise(app, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(std::move(arguments));
  if (!app.get_subcommands().empty()) return {};
  Warnings warnings;
  for (CLI::Option* option : app.get_options()) {
    if (option->count() == 0 && is_server_flag(*option)) read_variable(*option, warnings);
  }
  if (config.native_port != 0 && config.native_port == config.port) {
    throw UsageError("--port and --native-port are both " + std::to_string(config.port) +
                     ": choose another one for either (--native-port 0: any free one)");
  }
  set_machine_defaults(app, config, cpus);
  return warnings;
}

std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  return {argv + std::min(argc, 1), argv + argc};
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                       std::ostream& err) {
  const CLI::App* named = &app;
  for (auto commands = app.get_subcommands(); !commands.empty();
       commands = named->get_subcommands()) {
    named = commands.back();
  }
  const auto* usage = dynamic_cast<const UsageError*>(&error);
  const bool is_known = usage != nullptr && usage->command != nullptr;
  const CLI::App& used = is_known ? *usage->command : *named;
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) {
    out << error.what() << '\n';
    return 0;
  }
  if (error.get_exit_code() == 0) {
    out << app.help();  // CLI11 descends to the subcommand itself
    return 0;
  }
  err << HelpFormatter().make_hint(used) << "Error: " << error.what() << '\n';
  // Of these commands exit code 1 is an answer.
  const std::array answering = {"acquire", "release", "debug", "ping", "check-config",
                                "reserve", "settle",  "usage", "quota"};
  const bool is_inner = used.get_parent() != nullptr && used.get_parent() != &app;
  const CLI::App& command = is_inner ? *used.get_parent() : used;  // quota, of `quota show`
  const bool answers =
      std::ranges::any_of(answering, [&](const char* name) { return command.check_name(name); });
  return answers ? 2 : 1;
}

std::string environment_name(const std::string& flag_name) {
  std::string name;
  for (const char c : flag_name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !name.empty() && std::isalpha(static_cast<unsigned char>(name.back())) != 0) {
      name += '_';  // log2xx: LOG_2XX
    }
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace sluice::config
