#include "config/pflag.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "config/time_flag.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"

namespace sluice::config {
namespace {

// Removes "0x", "0o", "0b" or a leading "0" and returns the base that it stands for.
int take_base(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  constexpr std::string_view letters = "xXoObB";
  constexpr std::array bases = {16, 16, 8, 8, 2, 2};
  const size_t letter = letters.find(digits[1]);
  digits.remove_prefix(letter == letters.npos ? 1 : 2);
  return letter == letters.npos ? 8 : bases[letter];
}

// How many letters have to be inserted, removed, replaced or swapped with their neighbours to make
// one word of the other (optimal string alignment).
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  std::vector<size_t> above = row;
  for (size_t i = 0; i < from.size(); ++i) {
    const std::vector<size_t> two_above = std::exchange(above, row);
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = above[j] + (from[i] == to[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, above[j + 1] + 1, row[j] + 1});
      const bool is_swapped = i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j];
      if (is_swapped) row[j + 1] = std::min(row[j + 1], two_above[j - 1] + 1);
    }
  }
  return row.back();
}

// "; did you mean --port?", or nothing where no word of `known` is similar.
std::string nearest_word(const std::string& word, const std::string& prefix,
                         const std::vector<std::string>& known) {
  std::string nearest;
  size_t distance = std::max<size_t>(word.size() / 3, 1);  // more would make another word
  for (const std::string& each : known) {
    const size_t found = edit_distance(word, each);
    if (found > distance || (found == distance && !nearest.empty())) continue;
    distance = found;
    nearest = each;
  }
  return nearest.empty() ? "" : "; did you mean " + prefix + nearest + "?";
}

std::string nearest_flag(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return nearest_word(name, "--", known);
}

std::string nearest_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
  }
  return nearest_word(name, "", known);
}

// One walk over the arguments of one command.
class Normaliser {
 public:
  Normaliser(const CLI::App& app, std::vector<std::string> arguments)
      : app_(&app), arguments_(std::move(arguments)) {}

  std::vector<std::string> run() && {
    try {
      while (next_ < arguments_.size()) take_next();
    } catch (UsageError& error) {
      error.command = app_;
      throw;
    }
    if (!help_.empty()) output_ = std::move(help_);
    return std::move(output_);
  }

 private:
  void take_next() {
    const std::string argument = arguments_[next_++];
    if (argument == "--") {
      pass_rest();
    } else if (argument.starts_with("--")) {
      take_long(argument);
    } else if (argument.size() > 1 && argument[0] == '-') {
      take_cluster(argument);
    } else {
      take_positional(argument);
    }
  }

  // "--name", "--name=value", "--name value".
  void take_long(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
    if (name.empty() || name[0] == '-') throw UsageError("bad flag syntax: " + argument);
    const CLI::Option* option = app_->get_option_no_throw("--" + name);
    if (option == nullptr) throw UsageError("unknown flag: --" + name + nearest_flag(*app_, name));
    if (equals != argument.npos) {
      emit(*option, argument.substr(equals + 1));
    } else if (is_switch(*option)) {
      emit(*option, "true");
    } else if (next_ < arguments_.size()) {
      emit(*option, arguments_[next_++]);
    } else {
      throw UsageError("flag needs an argument: " + argument);
    }
  }

  // "-r", "-rm7", "-m=7", "-m 7": switches may share one dash, a value ends the cluster.
  void take_cluster(const std::string& argument) {
    for (std::string_view rest = std::string_view(argument).substr(1); !rest.empty();) {
      const char letter = rest[0];
      const std::string_view behind = rest.substr(1);
      const CLI::Option* option = app_->get_option_no_throw(std::string("-") + letter);
      if (option == nullptr) {
        throw UsageError(std::string("unknown shorthand flag: '") + letter + "' in " + argument);
      }
      if (behind.size() > 1 && behind[0] == '=') {
        return emit(*option, std::string(behind.substr(1)));
      }
      if (!is_switch(*option)) return take_cluster_value(*option, letter, behind, argument);
      emit(*option, "true");
      rest = behind;
    }
  }

  void take_cluster_value(const CLI::Option& option, char letter, std::string_view behind,
                          const std::string& argument) {
    if (!behind.empty()) return emit(option, std::string(behind));
    if (next_ < arguments_.size()) return emit(option, arguments_[next_++]);
    throw UsageError(std::string("flag needs an argument: '") + letter + "' in " + argument);
  }

  void take_positional(const std::string& argument) {
    const auto commands = app_->get_subcommands(
        [&](const CLI::App* command) { return command->check_name(argument); });
    if (!commands.empty()) {
      app_ = commands.front();
      commands_.push_back(argument);
      output_.push_back(argument);
      return;
    }
    if (!takes_positionals()) throw UsageError(stray_text(argument));
    output_.push_back(argument);
  }

  void pass_rest() {
    if (next_ == arguments_.size()) return;
    if (!takes_positionals()) throw UsageError(stray_text(arguments_[next_]));
    output_.emplace_back("--");
    output_.insert(output_.end(), arguments_.begin() + static_cast<ptrdiff_t>(next_),
                   arguments_.end());
    next_ = arguments_.size();
  }

  bool takes_positionals() const {
    const auto options = app_->get_options();
    return std::any_of(options.begin(), options.end(),
                       [](const CLI::Option* option) { return option->get_positional(); });
  }

  // "--flag false" is a trap of pflag's: the word is not the switch's value.
  std::string stray_text(const std::string& argument) const {
    std::string text = "unexpected argument " + text::in_quotes(argument);
    if (bare_switch_ != nullptr && text::parse_bool(argument)) {
      text += " (a switch takes its value with '=': --" + bare_switch_->get_lnames().front() + "=" +
              argument + ")";
    }
    return text + nearest_command(*app_, argument);
  }

  void emit(const CLI::Option& option, std::string value) {
    const std::string name = option.get_lnames().empty() ? "-" + option.get_snames().front()
                                                         : "--" + option.get_lnames().front();
    bare_switch_ = nullptr;
    if (!is_switch(option)) {
      output_.push_back(name);
      output_.push_back(in_unit_of(option, std::move(value)));  // apart: an empty one stays
      return;
    }
    const std::optional<bool> on = text::parse_bool(value);
    if (!on) throw invalid_argument(flag_title(option), value, "a switch is true or false");
    bare_switch_ = &option;
    if (&option != app_->get_help_ptr()) {
      output_.push_back(name + (*on ? "=true" : "=false"));
    } else if (*on) {
      help_ = commands_;
      help_.push_back(name);
    }
  }

  const CLI::App* app_;
  std::vector<std::string> arguments_;
  size_t next_ = 0;
  std::vector<std::string> commands_;  // the path to app_
  std::vector<std::string> output_;
  std::vector<std::string> help_;
  const CLI::Option* bare_switch_ = nullptr;  // the last thing taken, when it was a switch
};

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '_') return std::nullopt;  // only behind a prefix
  const int base = take_base(text);
  if (text.empty() || text.back() == '_' || text.find("__") != text.npos) return std::nullopt;
  int64_t value = 0;  // counted downwards: the range reaches further there
  bool overflow = false;
  for (const char c : text) {
    if (c == '_') continue;
    const int digit = text::hex_digit(c);
    if (digit < 0 || digit >= base) return std::nullopt;
    overflow = overflow || __builtin_mul_overflow(value, base, &value) ||
               __builtin_sub_overflow(value, digit, &value);
  }
  using Range = std::numeric_limits<int64_t>;
  if (overflow) return negative ? Range::min() : Range::max();
  if (negative) return value;
  return value == Range::min() ? Range::max() : -value;
}

std::string flag_title(const CLI::Option& option) {
  std::string title;
  for (const std::string& name : option.get_snames()) title += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) title += "--" + name + ", ";
  if (title.empty()) return option.get_name();
  title.resize(title.size() - 2);
  return title;
}

bool is_switch(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

UsageError invalid_argument(std::string_view title, std::string_view value,
                            std::string_view reason) {
  return UsageError("invalid argument " + text::in_quotes(value) + " for " +
                    text::in_quotes(title) + " flag: " + std::string(reason));
}

std::vector<std::string> normalise(const CLI::App& app, std::vector<std::string> arguments) {
  return Normaliser(app, std::move(arguments)).run();
}

}  // namespace sluice::config
