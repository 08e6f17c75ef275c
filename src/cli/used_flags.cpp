#include "cli/used_flags.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/between.hpp"

namespace sluice::cli {

std::vector<CLI::Option*> add_used_flags(CLI::App& command, sluicegate::Used& used) {
  std::vector<CLI::Option*> options;
  const auto add = [&](const NumberOption& option, auto& value, const char* text) {
    options.push_back(command.add_option(std::string{option.name}, value, text)
                          ->type_name("N")
                          ->check(between(option)));
    return options.back();
  };
  add(number_option("", "--requests"), used.requests, "how many were made");
  auto* input = add(number_option("", "--input-tokens"), used.input_tokens, "how many were used");
  add(number_option("", "--cached-input-tokens"), used.cached_input_tokens,
      "the part of the input that was cached")
      ->needs(input);
  add(number_option("", "--output-tokens"), used.output_tokens, "how many were used");
  add(number_option("", "--cost"), used.cost, "cost in millionths of the currency unit");
  return options;
}

}  // namespace sluice::cli
