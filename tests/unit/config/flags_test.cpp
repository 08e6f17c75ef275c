// Every flag reaches its value, from the command line and from the environment, within its bounds
// and with gocc's words when it does not. Method: a fresh App and Config per reading.
#include "config/flags.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <variant>

#include "config/flag_table.hpp"
#include "config/pflag.hpp"
#include "tests/support/source_folder.hpp"

namespace sluice::config {
namespace {

using base::IoBackend;
using Words = std::vector<std::string>;

struct Reading {
  Config config;
  Warnings warnings;
  std::string error;  // empty: none
  int exit_code = 0;
  std::string out;
  std::string err;
};

// The machine of most tests has a single CPU, so that its defaults are those of Config.
Reading read(const Words& arguments, const UsableCpus& cpus = {.numbers = {0}}) {
  Reading reading;
  CLI::App app("", "sluicegate");
  add_server_flags(app, reading.config);
  app.add_subcommand("acquire", "asks once");
  try {
    reading.warnings = parse(app, reading.config, arguments, cpus);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    reading.error = error.what();
    reading.exit_code = report_parse_error(app, error, out, err);
    reading.out = out.str();
    reading.err = err.str();
  }
  return reading;
}

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

// A row of the table whose value is of this kind, as a parameter of tests.
template <typename Kind>
struct Row {
  const Flag* flag;
  Kind value;

  std::string name() const { return std::string(flag->name()); }
  std::string option() const { return "--" + name(); }
  std::string variable() const { return environment_name(name()); }
};

template <typename Kind>
void PrintTo(const Row<Kind>& row, std::ostream* out) {
  *out << row.name();
}

template <typename Kind>
std::vector<Row<Kind>> rows() {
  std::vector<Row<Kind>> found;
  for (const Flag& flag : flag_table) {
    if (const Kind* value = std::get_if<Kind>(&flag.value)) found.push_back({&flag, *value});
  }
  return found;
}

int64_t number_of(const Config& config, const NumberFlag& flag) {
  return std::visit([&](auto field) { return int64_t{config.*field}; }, flag.field);
}

class NumberFlags : public ::testing::TestWithParam<Row<NumberFlag>> {
 protected:
  const std::string name_ = GetParam().name();
  const std::string option_ = GetParam().option();
  const std::string variable_ = GetParam().variable();
  const int64_t min_ = GetParam().value.min;
  const int64_t max_ = GetParam().value.max;
  const int64_t default_ = number_of(Config{}, GetParam().value);

  int64_t value(const Config& config) const { return number_of(config, GetParam().value); }
  bool takes_time() const { return name_.ends_with("-millis") || name_.ends_with("-us"); }
};

// A time that is only checked for its bounds may overflow, or end early, at the greatest of them.
TEST(TimeFlags, are_lived_at_their_greatest_values) {
  std::string lives;  // all files of tests that do so
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_folder() / "tests/unit")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("longest_") || !name.ends_with("_test.cpp")) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    lives += text.str();
  }
  for (const Flag& flag : flag_table) {
    if (!flag.name().ends_with("-millis")) continue;
    const std::string life = "greatest(\"" + std::string(flag.name()) + "\")";
    EXPECT_NE(lives.find(life), lives.npos) << "no test has a line with " << life;
  }
}

TEST_P(NumberFlags, has_its_default) {
  EXPECT_EQ(value(read({}).config), default_);
  EXPECT_LE(min_, default_);
  EXPECT_GE(max_, default_);
}

TEST_P(NumberFlags, takes_its_bounds) {
  for (const int64_t bound : {min_, max_}) {
    const Reading reading = read({option_, std::to_string(bound)});
    EXPECT_EQ(reading.error, "");
    EXPECT_EQ(value(reading.config), bound);
  }
}

TEST_P(NumberFlags, refuses_values_below_its_bounds) {
  const Reading reading = read({option_ + "=" + std::to_string(min_ - 1)});
  EXPECT_EQ(reading.error, "invalid value for param '" + name_ + "': value must be at least " +
                               std::to_string(min_));
  EXPECT_EQ(reading.exit_code, 1);
}

TEST_P(NumberFlags, refuses_values_above_its_bounds) {
  for (const std::string& text : {std::to_string(max_ + 1), std::string(30, '9')}) {
    const Reading reading = read({option_, text});
    EXPECT_EQ(reading.error, "invalid value for param '" + name_ + "': value must be at most " +
                                 std::to_string(max_));
  }
}

TEST_P(NumberFlags, refuses_text_that_is_no_number) {
  for (const char* text : {"", "abc", "1.5", "1e3"}) {
    const Reading reading = read({option_, text});
    const char letter = GetParam().flag->short_name();
    const std::string title = letter == 0 ? "" : std::string("-") + letter + ", ";
    EXPECT_EQ(reading.error, "invalid argument \"" + std::string(text) + "\" for \"" + title +
                                 option_ + "\" flag: a whole number is expected" +
                                 (takes_time() ? ", or a time such as 250ms or 10s" : ""));
  }
}

TEST_P(NumberFlags, has_its_short_form) {
  if (GetParam().flag->short_name() == 0) return;
  const std::string form = std::string("-") + GetParam().flag->short_name();
  const std::string text = std::to_string(max_);
  for (const Words& words : {Words{form, text}, Words{form + text}, Words{form + "=" + text}}) {
    EXPECT_EQ(value(read(words).config), max_) << words.front();
  }
}

TEST_P(NumberFlags, reads_its_variable) {
  const Variable variable(variable_.c_str(), std::to_string(max_).c_str());
  EXPECT_EQ(value(read({}).config), max_);
}

TEST_P(NumberFlags, takes_a_time_if_its_name_ends_in_a_unit) {
  const std::string flag = option_;
  const int64_t second = name_.ends_with("-us") ? 1'000'000 : 1'000;
  const int64_t part = second / 1'000;  // a millisecond
  const std::string text = part >= min_ && part <= max_ ? "1ms" : "1s";
  const int64_t expected = text == "1ms" ? part : second;
  const Variable variable(variable_.c_str(), text.c_str());
  for (const Reading& reading : {read({flag, text}), read({})}) {
    EXPECT_EQ(reading.error == "", takes_time()) << reading.error;
    if (!takes_time()) continue;
    EXPECT_EQ(value(reading.config), expected);
  }
}

TEST_P(NumberFlags, passes_over_the_address_of_a_linked_service) {
  const Variable variable(variable_.c_str(), "tcp://172.17.0.3:8081");
  const Reading reading = read({});
  EXPECT_EQ(reading.error, "");
  EXPECT_EQ(value(reading.config), default_);
  ASSERT_EQ(reading.warnings.size(), 1u);
  EXPECT_NE(reading.warnings[0].find(variable_), std::string::npos);
  EXPECT_NE(reading.warnings[0].find("tcp://172.17.0.3:8081"), std::string::npos);
  EXPECT_EQ(read({option_, "tcp://172.17.0.3:8081"}).error.find("invalid argument"), 0u);
}

TEST_P(NumberFlags, takes_an_empty_variable_for_unset) {
  const Variable variable(variable_.c_str(), "");
  const Reading reading = read({});
  EXPECT_EQ(reading.error, "");
  EXPECT_EQ(value(reading.config), default_);
}

TEST_P(NumberFlags, wins_over_its_variable) {
  const Variable variable(variable_.c_str(), "not a number");
  const Reading reading = read({option_, std::to_string(min_)});
  EXPECT_EQ(reading.error, "");
  EXPECT_EQ(value(reading.config), min_);
}

TEST_P(NumberFlags, names_a_variable_out_of_bounds) {
  const Variable variable(variable_.c_str(), std::to_string(min_ - 1).c_str());
  const Reading reading = read({});
  EXPECT_EQ(reading.error, "invalid value for param '" + name_ + "': value must be at least " +
                               std::to_string(min_) + " (environment variable " + variable_ + ")");
  EXPECT_EQ(reading.exit_code, 1);
}

TEST_P(NumberFlags, names_a_variable_that_is_no_number) {
  const Variable variable(variable_.c_str(), "many");
  const Reading reading = read({});
  EXPECT_NE(reading.error.find("\"many\""), std::string::npos) << reading.error;
  EXPECT_NE(reading.error.find(variable_), std::string::npos) << reading.error;
}

INSTANTIATE_TEST_SUITE_P(Flags, NumberFlags, ::testing::ValuesIn(rows<NumberFlag>()),
                         [](const auto& row) { return row.param.variable(); });

class SwitchFlags : public ::testing::TestWithParam<Row<SwitchFlag>> {
 protected:
  const std::string option_ = GetParam().option();
  const std::string variable_ = GetParam().variable();

  bool value(const Config& config) const { return config.*GetParam().value.field; }
};

TEST_P(SwitchFlags, has_its_default) {
  EXPECT_EQ(value(read({}).config), value(Config{}));
}

TEST_P(SwitchFlags, reads_every_word) {
  const std::map<std::string, bool> words = {{"1", true},      {"t", true},      {"T", true},
                                             {"TRUE", true},   {"true", true},   {"True", true},
                                             {"0", false},     {"f", false},     {"F", false},
                                             {"FALSE", false}, {"false", false}, {"False", false}};
  for (const auto& [word, on] : words) {
    EXPECT_EQ(value(read({option_ + "=" + word}).config), on) << word;
    const Variable variable(variable_.c_str(), word.c_str());
    EXPECT_EQ(value(read({}).config), on) << word << " in the environment";
  }
}

TEST_P(SwitchFlags, stands_alone_for_true) {
  const Variable variable(variable_.c_str(), "false");
  EXPECT_TRUE(value(read({option_}).config));
}

TEST_P(SwitchFlags, has_its_short_form) {
  const char letter = GetParam().flag->short_name();
  if (letter == 0) return;
  EXPECT_FALSE(value(read({std::string("-") + letter + "=false"}).config));
}

TEST_P(SwitchFlags, refuses_other_words) {
  EXPECT_NE(read({option_ + "=yes"}).error, "");
  const Variable variable(variable_.c_str(), "yes");
  const Reading reading = read({});
  EXPECT_NE(reading.error.find("a switch is true or false (environment variable"),
            std::string::npos)
      << reading.error;
}

TEST_P(SwitchFlags, takes_an_empty_variable_for_unset) {
  const Variable variable(variable_.c_str(), "");
  EXPECT_EQ(read({}).error, "");
  EXPECT_EQ(value(read({}).config), value(Config{}));
}

INSTANTIATE_TEST_SUITE_P(Flags, SwitchFlags, ::testing::ValuesIn(rows<SwitchFlag>()),
                         [](const auto& row) { return row.param.variable(); });

// ------------------------------------------------------------------------------ docs/operations.md

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream text(row.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    const size_t first = cell.find_first_not_of(' ');
    const size_t last = cell.find_last_not_of(' ');
    cells.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

// A row of the page's table of flags: flag, variable, default, valid values.
std::optional<std::vector<std::string>> documented(const Flag& flag) {
  std::ifstream page(test::source_folder() / "docs" / "operations.md");
  const std::string variable = "| `" + environment_name(std::string(flag.name())) + "` |";
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `-") && line.find(variable) != line.npos) return cells_of(line);
  }
  return std::nullopt;
}

std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}

// Bounds and defaults stand in the page a second time, in words of its own: a wrong row of the
// table turns this red, which the tests that follow the table do not.
TEST(Flags, have_a_row_in_the_page) {
  for (const Flag& flag : flag_table) {
    const auto cells = documented(flag);
    ASSERT_TRUE(cells) << flag.name();
    EXPECT_NE((cells->at(0) + ",").find("`--" + std::string(flag.name()) + "`"), std::string::npos);
    if (flag.short_name() != 0) {
      EXPECT_TRUE(cells->at(0).starts_with(std::string("`-") + flag.short_name() + "`, "));
    }
    if (const auto* toggle = std::get_if<SwitchFlag>(&flag.value)) {
      EXPECT_EQ(cells->at(2), Config{}.*toggle->field ? "true" : "false") << flag.name();
    }
    const auto* number = std::get_if<NumberFlag>(&flag.value);
    if (number == nullptr) continue;
    const std::string valid = without_commas(cells->at(3));
    const std::string range = std::to_string(number->min) + " to " + std::to_string(number->max);
    EXPECT_TRUE(valid == range || cells->at(3).starts_with(range + ", not")) << flag.name();
    if (!flag.default_text.empty()) continue;  // it depends on the machine
    EXPECT_EQ(without_commas(cells->at(2)), std::to_string(number_of(Config{}, *number)))
        << flag.name();
  }
}

TEST(Flags, know_the_backends_of_io) {
  EXPECT_EQ(read({}).config.io, IoBackend::automatic);
  EXPECT_EQ(read({"--io", "auto"}).config.io, IoBackend::automatic);
  EXPECT_EQ(read({"--io=uring"}).config.io, IoBackend::uring);
  const Variable variable("IO", "epoll");
  EXPECT_EQ(read({}).config.io, IoBackend::epoll);
}

TEST(Flags, refuse_other_backends) {
  EXPECT_EQ(read({"--io", "URING"}).config.io, IoBackend::uring);
  for (const char* name : {"", "io_uring", "select"}) {
    EXPECT_EQ(read({"--io", name}).error,
              "invalid value for param 'io': value must be one of [auto uring epoll]");
  }
  const Variable variable("IO", "select");
  EXPECT_EQ(read({}).error,
            "invalid value for param 'io': value must be one of [auto uring epoll] "
            "(environment variable IO)");
}

TEST(Flags, take_an_address_of_either_family) {
  EXPECT_EQ(read({}).config.bind, "");
  for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::", "fe80::1", ""}) {
    EXPECT_EQ(read({"--bind", address}).config.bind, address);
  }
  const Variable variable("BIND", "::1");
  EXPECT_EQ(read({}).config.bind, "::1");
}

TEST(Flags, refuse_text_that_is_no_address) {
  const std::pair<const char*, const char*> cases[] = {
      {"127.0.0.1:80", "it takes neither a port nor brackets"},
      {"[::1]", "it takes neither a port nor brackets"},
      {"300.0.0.1", "this is none"},
      {"lo", "other names are not resolved"},
      {"localhost:80", "other names are not resolved"},
      {"rates.internal", "other names are not resolved"}};
  for (const auto& [text, fault] : cases) {
    EXPECT_EQ(read({"--bind", text}).error,
              "invalid value for param 'bind': value must be an IPv4 or IPv6 address, such as "
              "127.0.0.1 or ::1, or localhost: " +
                  std::string(fault));
  }
}

TEST(Flags, know_the_names_of_loopback_addresses) {
  EXPECT_EQ(read({"--bind", "localhost"}).config.bind, "127.0.0.1");
  EXPECT_EQ(read({"--bind", "LocalHost"}).config.bind, "127.0.0.1");
  EXPECT_EQ(read({"--bind", "ip6-localhost"}).config.bind, "::1");
  const Variable variable("BIND", "localhost");
  EXPECT_EQ(read({}).config.bind, "127.0.0.1");
}

const UsableCpus four_cpus{.numbers = {0, 1, 4, 5}};
const UsableCpus two_of_four_cpus{.numbers = {0, 1, 4, 5}, .quota = 2};

TEST(Flags, run_on_all_usable_cpus_by_default) {
  EXPECT_EQ(read({}, four_cpus).config.shards, 4u);
  EXPECT_EQ(read({}, two_of_four_cpus).config.shards, 2u);
  EXPECT_EQ(read({"--shards=3"}, two_of_four_cpus).config.shards, 3u);
  EXPECT_EQ(read({"--shards=1"}, four_cpus).config.shards, 1u);
  const Variable variable("SHARDS", "7");
  EXPECT_EQ(read({}, four_cpus).config.shards, 7u);
}

TEST(Flags, run_on_no_more_shards_than_there_may_be) {
  EXPECT_EQ(read({}, {.numbers = std::vector<int>(1'000)}).config.shards, 256u);
}

TEST(Flags, pin_shards_only_where_each_has_a_cpu_to_itself) {
  EXPECT_TRUE(read({}, four_cpus).config.pin);
  EXPECT_TRUE(read({"--shards=2"}, four_cpus).config.pin);
  EXPECT_FALSE(read({"--shards=5", "--pin"}, four_cpus).config.pin);
  EXPECT_FALSE(read({}, two_of_four_cpus).config.pin) << "the CPUs are others' too";
  EXPECT_TRUE(read({}, {.numbers = {0, 1}, .quota = 2}).config.pin);
  EXPECT_FALSE(read({"--pin=false"}, four_cpus).config.pin);
}

TEST(Flags, know_whether_each_shard_may_have_a_cpu) {
  EXPECT_TRUE(read({}, four_cpus).config.cores_suffice);
  EXPECT_TRUE(read({"--shards=4", "--pin=false"}, four_cpus).config.cores_suffice);
  EXPECT_FALSE(read({"--shards=5"}, four_cpus).config.cores_suffice);
  EXPECT_TRUE(read({"--shards=2"}, two_of_four_cpus).config.cores_suffice);
  EXPECT_FALSE(read({"--shards=3"}, two_of_four_cpus).config.cores_suffice);
}

TEST(Flags, refuse_one_port_for_both_protocols) {
  EXPECT_EQ(
      read({"--port=9000", "--native-port=9000"}).error,
      "--port and --native-port are both 9000: choose another one for either (--native-port 0: "
      "any free one)");
  EXPECT_EQ(read({"--port=8081"}).error.find("--port and --native-port are both 8081"), 0U);
  EXPECT_EQ(read({"--port=0", "--native-port=0"}).error, "");
}

TEST(Flags, name_the_configuration_file) {
  EXPECT_EQ(read({}).config.config_file, "");
  EXPECT_EQ(read({"-c", "a b.json"}).config.config_file, "a b.json");
  EXPECT_EQ(read({"--config-file=x"}).config.config_file, "x");
  const Variable variable("CONFIG_FILE", "/etc/limits.json");
  EXPECT_EQ(read({}).config.config_file, "/etc/limits.json");
}

TEST(Flags, name_the_folder_of_profiles) {
  EXPECT_TRUE(read({}).config.profiles.ends_with("/share/sluicegate/profiles"));
  EXPECT_EQ(read({"--profiles", "a b"}).config.profiles, "a b");
  const Variable variable("PROFILES", "/etc/profiles");
  EXPECT_EQ(read({}).config.profiles, "/etc/profiles");
  EXPECT_EQ(read({"--profiles=x"}).config.profiles, "x");
}

TEST(Flags, accept_flags_of_gocc_that_we_do_not_support) {
  EXPECT_EQ(read({"-s", "fast"}).config.server_type, "fast");
  EXPECT_EQ(read({"--server-type=tcp"}).error,
            "invalid value for param 'server-type': value must be one of [echo echo-http2 fast]");
  for (const char* empty : {"", "[]", " [ ] "}) {
    EXPECT_EQ(read({"-i", empty}).config.instance_urls, "") << empty;
  }
  EXPECT_EQ(read({"-i", "[http://a, http://b]"}).config.instance_urls, "http://a, http://b");
  EXPECT_EQ(read({"-i", "http://a", "-i=http://b"}).config.instance_urls, "http://a,http://b");
  EXPECT_NE(read({"-i", "http://a", "--instance-urls="}).config.instance_urls, "");
  EXPECT_EQ(read({"-i", "http://a,http://[::1]"}).config.instance_urls, "http://a,http://[::1]");
  EXPECT_EQ(read({"-i", " [ http://[::1] ] "}).config.instance_urls, "http://[::1]");
  EXPECT_NE(read({"-i", ","}).config.instance_urls, "");
}

TEST(Flags, of_the_log) {
  const Config by_default = read({}).config;
  EXPECT_EQ(by_default.log_format, log::Format::json);
  EXPECT_EQ(by_default.log_level, log::Level::info);
  EXPECT_TRUE(by_default.log_includes_source && by_default.log_5xx);
  EXPECT_FALSE(by_default.log_2xx || by_default.log_4xx);
  EXPECT_EQ(read({"-l", "text"}).config.log_format, log::Format::text);
  EXPECT_EQ(read({"--log-format=system-default"}).config.log_format, log::Format::system_default);
  EXPECT_EQ(read({"--log-level", "WARN"}).config.log_level, log::Level::warning);
  EXPECT_EQ(read({"--log-level=info"}).config.log_level, log::Level::info);
  EXPECT_EQ(read({"--log-level=Error"}).config.log_level, log::Level::error);
  EXPECT_EQ(read({"-l", "JSON"}).config.log_format, log::Format::json);
  EXPECT_EQ(read({"--log-level=trace"}).error,
            "invalid value for param 'log-level': value must be one of [DEBUG INFO WARN ERROR]");
  EXPECT_EQ(
      read({"-l", "xml"}).error,
      "invalid value for param 'log-format': value must be one of [json text system-default]");
  const Config switched =
      read({"--log2xx", "--log4xx=true", "--log5xx=false", "--log-includes-source=0"}).config;
  EXPECT_TRUE(switched.log_2xx && switched.log_4xx);
  EXPECT_FALSE(switched.log_5xx || switched.log_includes_source);
  const Variable variable("LOG_2XX", "1");
  EXPECT_TRUE(read({}).config.log_2xx);
}

TEST(Flags, numbers_in_variables_are_plain_decimal) {
  const auto in_variable = [](const char* text) {
    const Variable variable("MAX_REQUESTS", text);
    const Reading reading = read({});
    return reading.error.empty() ? std::to_string(reading.config.max_requests) : reading.error;
  };
  EXPECT_EQ(in_variable("010"), "10");
  EXPECT_EQ(in_variable("+7"), "7");
  EXPECT_EQ(in_variable("000"),
            "invalid value for param 'max-requests': value must be at least 1 "
            "(environment variable MAX_REQUESTS)");
  for (const char* text : {"0x11", "1_000", "-", "1e3"}) {
    EXPECT_NE(in_variable(text).find("a whole number is expected"), std::string::npos) << text;
  }
}

TEST(Flags, take_the_last_of_a_repeated_flag) {
  EXPECT_EQ(read({"-m", "5", "--max-requests=6"}).config.max_requests, 6u);
  EXPECT_TRUE(read({"-r=false", "-r"}).config.requests_can_set_rate);
}

TEST(Flags, leave_the_environment_to_the_server) {
  const Variable variable("MAX_REQUESTS", "many");
  EXPECT_EQ(read({"acquire"}).error, "");
}

TEST(ParseErrors, print_usage_and_one_line_on_stderr) {
  const Reading reading = read({"--max-request=5"});
  EXPECT_EQ(reading.exit_code, 1);
  EXPECT_EQ(reading.out, "");
  EXPECT_TRUE(reading.err.starts_with("Usage: sluicegate [OPTIONS]")) << reading.err;
  EXPECT_TRUE(
      reading.err.ends_with("\nAll flags: sluicegate --help\nError: unknown flag: "
                            "--max-request; did you mean --max-requests?\n"))
      << reading.err;
  EXPECT_LE(std::count(reading.err.begin(), reading.err.end(), '\n'), 4);
}

TEST(ParseErrors, count_a_stray_word_among_them) {
  const Reading reading = read({"--requests-can-set-rate", "false"});
  EXPECT_EQ(reading.exit_code, 1);
  EXPECT_TRUE(reading.err.ends_with("--requests-can-set-rate=false)\n")) << reading.err;
}

TEST(Help, goes_to_stdout) {
  for (const char* form : {"--help", "-h"}) {
    const Reading reading = read({form});
    EXPECT_EQ(reading.exit_code, 0);
    EXPECT_EQ(reading.err, "");
    EXPECT_TRUE(reading.out.starts_with("Sluicegate answers")) << reading.out;
  }
}

TEST(Help, is_given_whatever_the_values_are) {
  const Variable variable("MAX_REQUESTS", "many");
  EXPECT_EQ(read({"-m", "0", "--help"}).exit_code, 0);
}

TEST(Environment, names_are_the_flags_in_capitals) {
  EXPECT_EQ(environment_name("max-requests-in-queue"), "MAX_REQUESTS_IN_QUEUE");
  EXPECT_EQ(environment_name("log2xx"), "LOG_2XX");
}

TEST(Arguments, leave_the_program_out) {
  const char* argv[] = {"sluicegate", "-r", nullptr};
  EXPECT_EQ(arguments_of(2, argv), Words{"-r"});
  EXPECT_EQ(arguments_of(0, argv), Words{});
}

}  // namespace
}  // namespace sluice::config
