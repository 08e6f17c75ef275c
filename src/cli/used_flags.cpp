#include "cli/used_flags.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/quota_words.hpp"

namespace sluice::cli {

std::vector<CLI::Option*> add_used_flags(CLI::App& command, sluicegate::Used& used) {
  std::vector<CLI::Option*> options;
  const auto add = [&](const char* name, auto& value, const char* text,
                       const CLI::Validator& bounds) {
    options.push_back(command.add_option(name, value, text)->type_name("N")->check(bounds));
    return options.back();
  };
  add("--requests", used.requests, "how many were made", requests_bounds());
  auto* input = add("--input-tokens", used.input_tokens, "how many were used", amount_bounds());
  add("--cached-input-tokens", used.cached_input_tokens, "the part of the input that was cached",
      amount_bounds())
      ->needs(input);
  add("--output-tokens", used.output_tokens, "how many were used", amount_bounds());
  add("--cost", used.cost, "cost in millionths of the currency unit", amount_bounds());
  return options;
}

}  // namespace sluice::cli
