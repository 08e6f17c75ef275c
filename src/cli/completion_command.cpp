#include "cli/completion_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {
namespace {

constexpr const char* completion_description =
    R"(Prints a script that completes commands and flags.

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

// The words that may follow a command's name: its flags, or its own commands and all of theirs.
std::vector<Word> words_behind(const CLI::App& command) {
  std::vector<Word> words = flags_of(command);
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

std::string joined(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

std::string bash_script(const CLI::App& app) {
  std::string script =
      "_sluicegate() {\n"
      "  local words\n"
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
            "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
            "}\n"
            "complete -o default -F _sluicegate sluicegate\n";
  return script;
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

std::string fish_script(const CLI::App& app) {
  std::string script = fish_lines(first_words(app), "__fish_use_subcommand");
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
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("")
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
