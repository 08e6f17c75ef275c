#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <utility>

#include "text/quote.hpp"
#include "transfer/complaints.hpp"
#include "transfer/file_bytes.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/yaml_document.hpp"
#include "transfer/yaml_source.hpp"

namespace sluice::transfer {
namespace {

TextPosition position_of(const YAML::Mark& mark) noexcept {
  return {.line = static_cast<size_t>(mark.line) + 1,
          .column = static_cast<size_t>(mark.column) + 1};
}

// Passes the nodes of the first document on. Aliases are refused, so that a small file cannot stand
// for a large one.
class Events : public YAML::EventHandler {
 public:
  Events(YamlDocument& document, YamlSource& source) : document_(document), source_(source) {}

  TextPosition last_position() const noexcept { return last_; }

  void OnDocumentStart(const YAML::Mark& mark) override { arrive(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    arrive(mark);
    document_.scalar(NodeKind::null, {}, last_);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    arrive(mark);
    document_.refuse("is an alias; write its value instead", last_);
  }

  // "?": the type follows from the text; "!": a text.
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    arrive(mark);
    if (tag != "?" && tag != "!") return document_.refuse(words_of_tag(tag), last_);
    document_.scalar(tag == "?" ? NodeKind::plain : NodeKind::quoted, value, last_);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    arrive(mark);
    document_.begin(NodeKind::list, last_);
  }
  void OnSequenceEnd() override { document_.end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    arrive(mark);
    document_.begin(NodeKind::map, last_);
  }
  void OnMapEnd() override { document_.end(); }

 private:
  static std::string words_of_tag(const std::string& tag) {
    return "has the tag " + text::quoted_excerpt(tag) + "; write a plain value instead";
  }

  void arrive(const YAML::Mark& mark) noexcept {
    last_ = position_of(mark);
    source_.reported_up_to(static_cast<size_t>(mark.pos));
  }

  YamlDocument& document_;
  YamlSource& source_;
  TextPosition last_;
};

void parse(std::string_view text, YamlDocument& document, Complaints& complaints) {
  YamlSource source(text);
  Events events(document, source);
  std::istream stream(&source);
  std::string trouble;
  TextPosition position;
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(events))
      trouble = "has no content; at least: quotas: {}, state: {}";
    position = events.last_position();
    if (trouble.empty() && parser) trouble = "a second document follows";
  } catch (const YAML::DeepRecursion& exception) {
    position = position_of(exception.mark);
    trouble = "is nested too deeply";
  } catch (const YAML::Exception& exception) {
    position = position_of(exception.mark);
    trouble = "is no YAML: " + exception.msg;
  }
  if (source.is_too_far()) {
    position = events.last_position();
    trouble = "more than " + std::to_string(yaml_ahead_bytes_max >> 10) +
              " KiB follow without a key or value of their own; write lists and maps in lines";
  }
  if (!trouble.empty()) complaints.add(place_of(position), trouble);
}

// Of a text that is cut, the last number would be another one.
void check_text(std::string_view text, Complaints& complaints) {
  if (text.empty()) return complaints.add({}, "is empty");
  const std::optional<TextPosition> bad = find_bad_character(text);
  if (bad) return complaints.add(place_of(*bad), "is no character of YAML in UTF-8");
  if (!text.ends_with('\n'))
    complaints.add({}, "ends within a line: it was cut, or lacks a line end");
}

}  // namespace

Complained<GoRatelimitFile> read_go_ratelimit_yaml(const std::string& path) {
  const Complained<std::string> text = read_all(path);
  if (!text) return tl::unexpected(text.error());
  Complaints complaints;
  check_text(*text, complaints);
  if (!complaints.empty()) return tl::unexpected(complaints.take());
  YamlDocument document(complaints);
  parse(*text, document, complaints);
  if (!complaints.empty()) return tl::unexpected(complaints.take());
  return document.take();
}

}  // namespace sluice::transfer
