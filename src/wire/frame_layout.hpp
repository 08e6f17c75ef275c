// The rows of the tables in request_layout.hpp and answer_layout.hpp, which define the layout of
// each struct.
// Flow:   a table of a struct's pointers, one row each and in their order -> the code that reads,
//         checks, bounds or writes them.
// Shape:  names are the schema's. A test compares names, places and types with the schema.
// Units:  fields are in bytes from the start of the struct's data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error_code.hpp"
#include "wire/column.hpp"

namespace sluice::wire {

// Calls `visit(index, row)` for each row; the index is a constant.
template <typename... Rows, typename Visit>
[[gnu::always_inline]] constexpr void each_row(const std::tuple<Rows...>& rows, Visit visit) {
  [&]<size_t... indexes>(std::index_sequence<indexes...>) {
    (visit(std::integral_constant<size_t, indexes>{}, std::get<indexes>(rows)), ...);
  }
  (std::index_sequence_for<Rows...>{});
}

// The index of the row with this name.
template <typename... Rows>
consteval size_t pointer_of(const std::tuple<Rows...>& rows, std::string_view name) {
  size_t found = sizeof...(Rows);
  each_row(rows, [&](size_t index, const auto& row) {
    if (name == row.name) found = index;
  });
  if (found == sizeof...(Rows)) throw "no row has this name";
  return found;
}

// -------------------------------------------------------------------------------- of requests

// Every value is valid.
inline constexpr auto any_value = [](auto) { return true; };

// The member for the value, the check of the value, and the error code when it fails.
template <typename Class, typename T, typename IsValid>
struct Field {
  const char* name;
  size_t byte;
  T Class::*member;
  IsValid is_valid;
  ErrorCode fault;
};
template <typename Class, typename T, typename IsValid = decltype(any_value)>
consteval Field<Class, T, IsValid> field(const char* name, size_t byte, T Class::*member,
                                         IsValid is_valid = any_value,
                                         ErrorCode fault = ErrorCode::none) {
  return {name, byte, member, is_valid, fault};
}

// Numbers with checks of their own, such as those that determine the number of entries.
template <typename Class, typename T>
struct ListRow {
  const char* name;
  Column<T> Class::*member;
};
template <typename Class, typename T>
consteval ListRow<Class, T> list(const char* name, Column<T> Class::*member) {
  return {name, member};
}

// A column of the entries: absent, or a valid number for each entry.
template <typename Class, typename T, typename AreValid>
struct ColumnRow {
  const char* name;
  Column<T> Class::*member;
  AreValid are_valid;
  ErrorCode fault;
};
template <typename Class, typename T, typename AreValid>
consteval ColumnRow<Class, T, AreValid> column(const char* name, Column<T> Class::*member,
                                               AreValid are_valid, ErrorCode fault) {
  return {name, member, are_valid, fault};
}

template <typename Class>
struct BytesRow {
  const char* name;
  std::string_view Class::*member;
};
template <typename Class>
consteval BytesRow<Class> bytes(const char* name, std::string_view Class::*member) {
  return {name, member};
}

// Bytes that end with a NUL, which read_row() removes.
template <typename Class>
struct TextRow {
  const char* name;
  std::string_view Class::*member;
};
template <typename Class>
consteval TextRow<Class> text(const char* name, std::string_view Class::*member) {
  return {name, member};
}

// A pointer that other code reads or writes.
struct OtherRow {
  const char* name;
};

// --------------------------------------------------------------------------------- of answers

// A list of numbers T, one for each item: a member of the item, or a function of it.
template <typename T, typename Value>
struct AnswerColumn {
  using Number = T;
  const char* name;
  Value value;
};
template <typename T, typename Value>
constexpr AnswerColumn<T, Value> answer_column(const char* name, Value value) {
  return {name, value};
}

}  // namespace sluice::wire
