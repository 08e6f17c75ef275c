#include "config/flags.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/limits.hpp"
#include "config/flag_table.hpp"
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

constexpr const char* number_type = "N";

// "-m, --max-requests", as errors call it.
std::string title_of(const Flag& flag) {
  const std::string names{flag.names};
  return flag.short_name() == 0 ? names : names.substr(0, 2) + ", " + names.substr(3);
}

bool equal_in_any_case(std::string_view text, std::string_view other) {
  return std::ranges::equal(
      text, other, {}, [](unsigned char c) { return std::tolower(c); },
      [](unsigned char c) { return std::tolower(c); });
}

UsageError invalid_value(const Flag& flag, std::string_view reason) {
  return UsageError("invalid value for param '" + std::string(flag.name()) +
                    "': " + std::string(reason));
}

int64_t bounded_value(const Flag& flag, const NumberFlag& number, const std::string& text) {
  const std::optional<int64_t> value = parse_integer(text);
  if (!value) throw invalid_argument(title_of(flag), text, "a whole number is expected");
  if (*value < number.min) {
    throw invalid_value(flag, "value must be at least " + std::to_string(number.min));
  }
  if (*value > number.max) {
    throw invalid_value(flag, "value must be at most " + std::to_string(number.max));
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

std::string read_address(const Flag& flag, const std::string& text) {
  if (text.empty() || is_address(AF_INET, text) || is_address(AF_INET6, text)) return text;
  for (const auto& [name, address] : address_names) {
    if (equal_in_any_case(text, name)) return address;
  }
  throw invalid_value(flag,
                      "value must be an IPv4 or IPv6 address, such as 127.0.0.1 or ::1, or "
                      "localhost: " +
                          address_fault(text));
}

template <typename Known>
std::string names_of(std::span<const Choice<Known>> choices, char separator) {
  std::string names;
  for (const Choice<Known>& choice : choices) {
    if (!names.empty()) names += separator;
    names += choice.name;
  }
  return names;
}

std::string_view without_blanks(std::string_view text) {
  const char* blanks = " \t";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// The list "[a, b]" without its brackets and outer blanks. Items may have brackets of their own:
// "http://[::1]". CLI11 joins several given values with line feeds; empty ones are left out.
std::string read_list(const std::string& text) {
  std::string list;
  std::istringstream values{text};
  for (std::string line; std::getline(values, line);) {
    std::string_view value = without_blanks(line);
    if (value.starts_with('[') && value.ends_with(']')) {
      value = without_blanks(value.substr(1, value.size() - 2));
    }
    if (value.empty()) continue;
    if (!list.empty()) list += ',';
    list += value;
  }
  return list;
}

// Registers one row of the table: an overload for each kind of value.
class Registration {
 public:
  Registration(CLI::App& app, Config& config, const Flag& flag)
      : app_(app), config_(config), flag_(flag) {}

  void operator()(const NumberFlag& number) {
    const std::string range = std::to_string(number.min) + " to " + std::to_string(number.max);
    std::visit(
        [&](auto field) {
          using Integer = std::remove_reference_t<decltype(config_.*field)>;
          word(field, number_type, range + ", ", std::to_string(config_.*field),
               [&flag = flag_, &number](const std::string& given) {
                 return static_cast<Integer>(bounded_value(flag, number, given));
               });
        },
        number.field);
  }

  void operator()(const SwitchFlag& toggle) {
    CLI::Option* option = app_.add_flag(std::string(flag_.names), config_.*toggle.field);
    describe(*option, "", config_.*toggle.field ? "true" : "false");
  }

  void operator()(const TextFlag& text) {
    word(text.field, text.type, "", config_.*text.field,
         [](const std::string& given) { return given; });
  }

  void operator()(const AddressFlag& address) {
    word(address.field, "ADDRESS", "", config_.*address.field,
         [&flag = flag_](const std::string& given) { return read_address(flag, given); });
  }

  void operator()(const ListFlag& list) {
    word(list.field, list.type, "", "", read_list)
        .multi_option_policy(CLI::MultiOptionPolicy::Join);
  }

  template <typename Value, typename Known>
  void operator()(const ChoiceFlag<Value, Known>& choice) {
    word(choice.field, names_of(choice.choices, '|'), "", "",
         [&flag = flag_, choices = choice.choices](const std::string& given) -> Value {
           for (const Choice<Known>& known : choices) {
             if (equal_in_any_case(given, known.name)) return known.value;
           }
           throw invalid_value(flag, "value must be one of [" + names_of(choices, ' ') + "]");
         });
  }

 private:
  // `read` turns the flag's text into its value, or throws a UsageError.
  template <typename Value, typename Read>
  CLI::Option& word(Value Config::*field, std::string_view type, const std::string& range,
                    const std::string& default_value, Read read) {
    CLI::Option* option = app_.add_option_function<std::string>(
        std::string(flag_.names),
        [&value = config_.*field, read](const std::string& given) { value = read(given); });
    describe(*option->type_name(std::string(type)), range, default_value);
    return *option;
  }

  // Ends with its bounds, its default and its variable.
  void describe(CLI::Option& option, const std::string& range, const std::string& default_value) {
    const std::string default_text =
        flag_.default_text.empty() ? "default " + default_value : std::string(flag_.default_text);
    option.group(group_titles[static_cast<size_t>(flag_.group)])->take_last();
    option.description(std::string(flag_.help) + "\n[" + range + default_text + "; env " +
                       environment_name(std::string(flag_.name())) + "]");
  }

  CLI::App& app_;
  Config& config_;
  const Flag& flag_;
};

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
  if (!is_given(app, "--shards")) config.shards = std::min(count, limits::shards_max);
  // Two shards pinned to one CPU would wait for each other. And with a quota, others share the
  // CPUs: every container of the machine would pin to the same first few.
  const bool owns_cpus = !cpus.quota || *cpus.quota >= cpus.numbers.size();
  if (config.shards > cpus.numbers.size() || !owns_cpus) config.pin = false;
  config.cores_suffice = count >= config.shards;
}

// CLI11's text, except where it speaks of its own work: "Could not convert: --client-cpu = x".
std::string complaint(const CLI::ParseError& error) {
  constexpr std::string_view failed = "Could not convert: ";
  constexpr std::string_view equals = " = ";
  std::string text = error.what();
  const size_t at = text.find(equals);
  if (!text.starts_with(failed) || at == std::string::npos) return text;
  return text.replace(at, equals.size(), " cannot be ").substr(failed.size());
}

// "help quota set" is "quota set --help", which passes over what is no command: here a mistake.
void turn_into_help_flag(const CLI::App& app, std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (size_t place = 1; place < arguments.size(); ++place) {
    const auto commands = command->get_subcommands({});
    if (commands.empty()) {
      throw UsageError("unexpected argument " + text::in_quotes(arguments[place]) + " behind " +
                       command->get_name());
    }
    const auto named = std::ranges::find_if(
        commands, [&](const CLI::App* each) { return each->check_name(arguments[place]); });
    if (named == commands.end()) break;  // normalise() refuses it, with the nearest one
    command = *named;
  }
  std::rotate(arguments.begin(), arguments.begin() + 1, arguments.end());
  arguments.back() = "--help";
}

}  // namespace

void add_server_flags(CLI::App& app, Config& config) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.description(std::string(description) + std::string(time_note));
  app.set_help_flag("-h,--help", "this text");
  app.set_version_flag("--version", "sluicegate " SLUICE_VERSION, "the version");
  for (const Flag& flag : flag_table) std::visit(Registration{app, config, flag}, flag.value);
}

Warnings parse(CLI::App& app, Config& config, std::vector<std::string> arguments,
               const UsableCpus& cpus) {
  if (!arguments.empty() && arguments.front() == "help") turn_into_help_flag(app, arguments);
  arguments = normalise(app, std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(std::move(arguments));
  if (!app.get_subcommands().empty()) return {};
  Warnings warnings;
  for (const Flag& flag : flag_table) {
    CLI::Option& option = *app.get_option("--" + std::string(flag.name()));
    if (option.count() == 0) read_variable(option, warnings);
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
  err << HelpFormatter().make_hint(used) << "Error: " << complaint(error) << '\n';
  // Of these commands exit code 1 is an answer.
  const std::array answering = {"acquire", "release", "reset",  "debug", "ping",  "check-config",
                                "reserve", "consume", "settle", "usage", "quota", "state"};
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
