#include <utility>
#include <vector>

#include "text/json.hpp"
#include "text/quote.hpp"

namespace sluice::text {
namespace {

constexpr size_t typical_names = 16;  // of the outermost object
constexpr size_t words_max = 200;     // bytes of the library's words
constexpr const char* nul_complaint = "not JSON: there is a NUL byte";

bool has_nul(std::string_view text) {
  return text.find('\0') != text.npos;  // the library takes it for the end
}

// The library quotes what it has read, however long that is, behind a name of its own in brackets.
std::string syntax_complaint(const Json::exception& error) {
  const std::string_view text = error.what();
  const size_t at = text.find(" at line ");
  if (at != text.npos) return shortened("not JSON, " + std::string{text.substr(at + 4)}, words_max);
  const size_t name = text.find("] ");
  const std::string_view words = name == text.npos ? text : text.substr(name + 2);
  return shortened("not JSON: " + std::string{words}, words_max);
}

// Builds the tree from the library's events, and complains of JSON that the library accepts: a
// repeated name, and too deep nesting. After a complaint it only checks whether the rest is JSON:
// that complaint comes first.
class BoundedBuilder {
 public:
  explicit BoundedBuilder(const JsonBounds& bounds) : bounds_(bounds) {}

  ParsedJson take() { return {std::move(root_), std::move(complaint_)}; }

  // The callbacks of nlohmann::json_sax; true: continue.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // never called for JSON text
  bool start_object(size_t) { return open(Json::value_t::object); }
  bool start_array(size_t) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (!check_depth()) return true;
    auto& object = open_.back()->get_ref<Json::object_t&>();
    // A map that grows copies all its members.
    if (open_.size() == 1 && object.empty()) object.reserve(typical_names);
    const auto [place, is_new] = object.emplace(name, nullptr);
    if (!is_new) complaint_ = quoted_excerpt(name) + " is given twice; give it once";
    if (object.size() > bounds_.names_max) complaint_ = "too many fields";
    value_ = &place->second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& error) {
    complaint_ = syntax_complaint(error);
    return false;
  }

 private:
  bool check_depth() {
    if (complaint_.empty() && open_.size() > bounds_.depth_max) complaint_ = "nested too deeply";
    return complaint_.empty();
  }

  // The place of the next value.
  Json& place() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *value_;
    return open_.back()->emplace_back(nullptr);
  }

  template <typename Value>
  bool add(Value&& value) {
    if (check_depth()) place() = std::forward<Value>(value);
    return true;
  }

  bool open(Json::value_t type) {
    if (!check_depth()) return true;
    Json& opened = place();
    opened = type;
    open_.push_back(&opened);
    return true;
  }

  bool close() {
    if (complaint_.empty()) open_.pop_back();
    return true;
  }

  const JsonBounds& bounds_;
  Json root_;
  std::vector<Json*> open_;  // arrays and objects, from the outermost
  Json* value_ = nullptr;    // the value of the last name
  std::string complaint_;
};

}  // namespace

ParsedJson parse_json(std::string_view text) {
  if (has_nul(text)) return {{}, nul_complaint};
  try {
    return {Json::parse(text), {}};
  } catch (const Json::exception& error) {
    return {{}, syntax_complaint(error)};
  }
}

ParsedJson parse_json(std::string_view text, const JsonBounds& bounds) {
  if (has_nul(text)) return {{}, nul_complaint};
  BoundedBuilder builder{bounds};
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace sluice::text
