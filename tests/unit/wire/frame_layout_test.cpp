// Goal: the tables of frames agree with the schema: every pointer and field has the schema's name,
// place and type, and none is missing.
// Method: comparison with the library's description of the schema, which the capnp tool generated.
#include "wire/frame_layout.hpp"

#include <capnp/schema.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <map>
#include <set>
#include <string>

#include "wire/answer_layout.hpp"
#include "wire/request_layout.hpp"

namespace sluice::wire {
namespace {

using capnp::schema::Type;

struct Slot {
  Type::Which type;
  size_t offset;             // of a pointer its index; of a number in units of its size
  Type::Which element_type;  // of a list
};

template <typename Struct>
std::map<std::string, Slot> slots_of() {
  std::map<std::string, Slot> slots;
  for (const auto field : capnp::Schema::from<Struct>().getFields()) {
    const auto type = field.getType();
    slots[field.getProto().getName().cStr()] = {
        type.which(), field.getProto().getSlot().getOffset(),
        type.isList() ? type.asList().getElementType().which() : Type::VOID};
  }
  return slots;
}

bool is_pointer(Type::Which type) {
  return type == Type::TEXT || type == Type::DATA || type == Type::LIST || type == Type::STRUCT;
}

size_t bits_of(Type::Which type) {
  switch (type) {
    case Type::BOOL:
      return 1;
    case Type::UINT8:
      return 8;
    case Type::UINT16:
      return 16;
    case Type::UINT32:
      return 32;
    case Type::UINT64:
      return 64;
    default:
      return 0;
  }
}

template <typename T>
Type::Which type_of() {
  if constexpr (std::is_same_v<T, bool>) return Type::BOOL;
  if constexpr (std::is_same_v<T, uint8_t>) return Type::UINT8;
  if constexpr (std::is_same_v<T, uint16_t>) return Type::UINT16;
  if constexpr (std::is_same_v<T, uint32_t>) return Type::UINT32;
  if constexpr (std::is_same_v<T, uint64_t>) return Type::UINT64;
  if constexpr (std::is_same_v<T, int64_t>) return Type::INT64;
}

template <typename Class, typename T>
void expect_type(const ListRow<Class, T>&, const Slot& slot) {
  EXPECT_EQ(slot.element_type, type_of<T>());
}
template <typename Class, typename T, typename AreValid>
void expect_type(const ColumnRow<Class, T, AreValid>&, const Slot& slot) {
  EXPECT_EQ(slot.element_type, type_of<T>());
}
template <typename T, typename Value>
void expect_type(const AnswerColumn<T, Value>&, const Slot& slot) {
  EXPECT_EQ(slot.element_type, type_of<T>());
}
template <typename Class>
void expect_type(const BytesRow<Class>&, const Slot& slot) {
  EXPECT_EQ(slot.type, Type::DATA);
}
template <typename Class>
void expect_type(const TextRow<Class>&, const Slot& slot) {
  EXPECT_EQ(slot.type, Type::TEXT);
}
void expect_type(const OtherRow&, const Slot&) {}

template <typename Struct, typename Rows>
void expect_pointers(const Rows& rows) {
  const auto slots = slots_of<Struct>();
  size_t expected = 0;
  for (const auto& [name, slot] : slots) expected += is_pointer(slot.type);
  EXPECT_EQ(std::tuple_size_v<Rows>, expected);
  each_row(rows, [&](size_t pointer, const auto& row) {
    const auto slot = slots.find(row.name);
    ASSERT_NE(slot, slots.end()) << row.name;
    EXPECT_TRUE(is_pointer(slot->second.type)) << row.name;
    EXPECT_EQ(slot->second.offset, pointer) << row.name;
    SCOPED_TRACE(row.name);
    expect_type(row, slot->second);
  });
}

template <typename Class, typename T, typename IsValid>
void expect_field(const Field<Class, T, IsValid>& field, const std::map<std::string, Slot>& slots) {
  const auto slot = slots.find(field.name);
  ASSERT_NE(slot, slots.end()) << field.name;
  EXPECT_EQ(slot->second.type, type_of<T>()) << field.name;
  EXPECT_EQ(slot->second.offset * bits_of(slot->second.type), field.byte * 8) << field.name;
}

template <typename Request>
void expect_layout() {
  if constexpr (requires { typename Layout<Request>::Struct; }) {
    using Struct = typename Layout<Request>::Struct;
    SCOPED_TRACE(capnp::Schema::from<Struct>().getProto().getDisplayName().cStr());
    expect_pointers<Struct>(Layout<Request>::columns);
    const auto slots = slots_of<Struct>();
    std::set<std::string> fields;
    for (const auto& [name, slot] : slots) {
      if (!is_pointer(slot.type)) fields.insert(name);
    }
    each_row(Layout<Request>::fields, [&](auto, const auto& field) {
      expect_field(field, slots);
      fields.erase(field.name);
    });
    EXPECT_TRUE(fields.empty()) << *fields.begin();
  }
}

template <size_t... kinds>
void expect_layouts(std::index_sequence<kinds...>) {
  (expect_layout<RequestOfKind<kinds>>(), ...);
}

TEST(FrameLayout, matches_the_schema_for_every_request) {
  expect_layouts(RequestKinds{});
}

// A request of each kind that the schema has.
TEST(FrameLayout, has_every_kind_of_request) {
  EXPECT_EQ(capnp::Schema::from<schema::ClientFrame>().getUnionFields().size(),
            request_kinds_count);
}

TEST(FrameLayout, matches_the_schema_for_every_answer) {
  expect_pointers<schema::Welcome>(welcome_rows);
  expect_pointers<schema::Error>(error_rows);
  expect_pointers<schema::GoAway>(go_away_rows);
  expect_pointers<schema::Verdicts>(verdicts_rows);
  expect_pointers<schema::Granted>(granted_rows);
  expect_pointers<schema::Interned>(interned_rows);
  expect_pointers<schema::Details>(details_rows);
  expect_pointers<schema::Inspected>(inspected_rows);
  expect_pointers<schema::QuotaAnswers>(quota_answers_rows);
  expect_pointers<schema::LimitStates>(limit_states_rows);
  expect_pointers<schema::UsageReply>(usage_rows);
  expect_pointers<schema::TopologyReply>(topology_rows);
}

}  // namespace
}  // namespace sluice::wire
