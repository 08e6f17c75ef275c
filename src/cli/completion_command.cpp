#include "cli/completion_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

constexpr const char* completion_description =
    R"(Prints a script that completes commands, flags, the words that a flag knows, and files.

  bash   source <(sluicegate completion bash)
  zsh    sluicegate completion zsh > "${fpath[1]}/_sluicegate"
  fish   sluicegate completion fish > ~/.config/fish/completions/sluicegate.fish
)";

// One word that may come next, and its help.
struct Word {
  std::string text;
  std::string help;
};

// The first line, without characters that a shell interprets.
std::string first_line(std::string text) {
  text.resize(std::min(text.size(), text.find('\n')));
  std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == '[' || c == ']'; });
  std::ranges::replace(text, ':', ' ');
  return text;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<Word> flags_of(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      words.push_back({"--" + name, first_line(option->get_description())});
    }
  }
  return words;
}

// What stands behind a flag, as its type in the help text names it: known words, or a file.
struct Value {
  std::vector<std::string> flags;  // "--io"
  std::vector<std::string> words;  // none: a file
  auto operator<=>(const Value&) const = default;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream rest{text};
  for (std::string word; std::getline(rest, word, separator);) words.push_back(word);
  return words;
}

std::optional<Value> value_of(const CLI::Option& option) {
  const std::string& type = option.get_type_name();
  const bool has_words = type.find('|') != type.npos;
  if (!has_words && type != "FILE" && type != "DIR") return std::nullopt;
  Value value;
  for (const std::string& name : option.get_lnames()) value.flags.push_back("--" + name);
  for (const std::string& name : option.get_snames()) value.flags.push_back("-" + name);
  if (has_words) value.words = split(type, '|');
  return value;
}

// The words that an argument of the command knows, as completion's bash, zsh and fish.
std::vector<Word> words_of_arguments(const CLI::App& command) {
  std::vector<Word> words;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const auto value = value_of(*option);
    if (!value) continue;
    for (const std::string& word : value->words) words.push_back({word, ""});
  }
  return words;
}

// The words that may follow a command's name: its flags, or its own commands and all of theirs.
std::vector<Word> words_behind(const CLI::App& command) {
  std::vector<Word> words = flags_of(command);
  for (Word& word : words_of_arguments(command)) words.push_back(std::move(word));
  for (const CLI::App* inner : commands_of(command)) {
    words.push_back({inner->get_name(), first_line(inner->get_description())});
    for (const Word& word : flags_of(*inner)) {
      const auto is_same = [&](const Word& other) { return other.text == word.text; };
      if (std::ranges::none_of(words, is_same)) words.push_back(word);
    }
  }
  return words;
}

// The words that may follow the program's name alone.
std::vector<Word> first_words(const CLI::App& app) {
  std::vector<Word> words = flags_of(app);
  for (const CLI::App* command : commands_of(app)) {
    words.push_back({command->get_name(), first_line(command->get_description())});
  }
  return words;
}

// Of all commands: a flag that several of them have knows the same words in each.
std::vector<Value> values_of(const CLI::App& app) {
  std::set<Value> values;
  for (const CLI::Option* option : app.get_options()) {
    const auto value = value_of(*option);
    if (value && !value->flags.empty()) values.insert(*value);
  }
  for (const CLI::App* command : commands_of(app)) {
    for (Value& value : values_of(*command)) values.insert(std::move(value));
  }
  return {values.begin(), values.end()};
}

std::string with_separator(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string joined(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

// Files are what `complete -o default` completes where the function gives nothing.
std::string bash_values(const CLI::App& app) {
  std::string cases;
  for (const Value& value : values_of(app)) {
    const std::string words = with_separator(value.words, " ");
    cases += "    " + with_separator(value.flags, "|") + ") COMPREPLY=(" +
             (words.empty() ? "" : "$(compgen -W '" + words + "' -- \"$word\")") + "); return ;;\n";
  }
  return cases;
}

std::string bash_script(const CLI::App& app) {
  std::string script =
      "_sluicegate() {\n"
      "  local words word=\"${COMP_WORDS[COMP_CWORD]}\" flag=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      // Bash takes --io=auto for three words.
      "  if [ \"$word\" = = ]; then word=; "
      "elif [ \"$flag\" = = ]; then flag=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n"
      "  case \"$flag\" in\n" +
      bash_values(app) +
      "  esac\n"
      "  case \"${COMP_WORDS[1]}\" in\n";
  for (const CLI::App* command : commands_of(app)) {
    script +=
        "    " + command->get_name() + ") words='" + joined(words_behind(*command)) + "' ;;\n";
  }
  script += "    *) words='" + joined(first_words(app)) +
            "' ;;\n"
            "  esac\n"
            "  if [ \"$COMP_CWORD\" = 1 ]; then words='" +
            joined(first_words(app)) +
            "'; fi\n"
            "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
            "}\n"
            "complete -o default -F _sluicegate sluicegate\n";
  return script;
}

std::string zsh_flag_values(const CLI::App& app) {
  std::string cases;
  for (const Value& value : values_of(app)) {
    const std::string words = with_separator(value.words, " ");
    cases += "    " + with_separator(value.flags, "|") + ") " +
             (words.empty() ? "_files" : "compadd -- " + words) + "; return ;;\n";
  }
  return cases;
}

std::string zsh_values(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += " '" + word.text + ":" + word.help + "'";
  return text;
}

std::string zsh_script(const CLI::App& app) {
  std::string script =
      "#compdef sluicegate\n"
      "_sluicegate() {\n"
      "  local -a words_next\n"
      "  case \"${words[CURRENT-1]}\" in\n" +
      zsh_flag_values(app) +
      "  esac\n"
      "  if (( CURRENT == 2 )); then\n"
      "    words_next=(" +
      zsh_values(first_words(app)) +
      ")\n"
      "  else\n"
      "    case \"${words[2]}\" in\n";
  for (const CLI::App* command : commands_of(app)) {
    script += "      " + command->get_name() + ") words_next=(" +
              zsh_values(words_behind(*command)) + ") ;;\n";
  }
  script += "      *) words_next=(" + zsh_values(first_words(app)) +
            ") ;;\n"
            "    esac\n"
            "  fi\n"
            "  _describe sluicegate words_next\n"
            "  _files\n"
            "}\n"
            // From a folder of fpath this file is the function itself, when it is first called.
            "if [[ $funcstack[1] = _sluicegate ]]; then\n"
            "  _sluicegate \"$@\"\n"
            "else\n"
            "  compdef _sluicegate sluicegate\n"
            "fi\n";
  return script;
}

std::string fish_lines(const std::vector<Word>& words, const std::string& condition) {
  std::string script;
  for (const Word& word : words) {
    const bool is_flag = word.text.starts_with("--");
    script += "complete -c sluicegate -n '" + condition + "' " +
              (is_flag ? "-l " + word.text.substr(2) : "-f -a " + word.text) + " -d '" + word.help +
              "'\n";
  }
  return script;
}

std::string fish_flag_values(const CLI::App& app) {
  std::string script;
  for (const Value& value : values_of(app)) {
    script += "complete -c sluicegate";
    for (const std::string& flag : value.flags) {
      script += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
    }
    const std::string words = with_separator(value.words, " ");
    script += words.empty() ? " -r -F\n" : " -x -a '" + words + "'\n";
  }
  return script;
}

std::string fish_script(const CLI::App& app) {
  std::string script =
      fish_flag_values(app) + fish_lines(first_words(app), "__fish_use_subcommand");
  for (const CLI::App* command : commands_of(app)) {
    script +=
        fish_lines(words_behind(*command), "__fish_seen_subcommand_from " + command->get_name());
  }
  return script;
}

std::string script_for(const std::string& shell, const CLI::App& app) {
  if (shell == "bash") return bash_script(app);
  return shell == "zsh" ? zsh_script(app) : fish_script(app);
}

}  // namespace

void add_completion_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("completion", completion_description);
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "the shell that reads it")
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->required();
  command->callback([shell, &app, &run] {
    run = [shell, &app] {
      std::fputs(script_for(*shell, app).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace sluice::cli
