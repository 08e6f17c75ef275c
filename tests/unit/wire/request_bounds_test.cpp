// Goal: each number of a client's frame is valid at its bounds, and beyond them the frame is
//       refused with the error of its row; docs/protocol.md has the same bounds.
// Method: the rows that the decoder checks by, each put into a request that is valid otherwise; the
//         document's rows, read as text.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/golden_files.hpp"
#include "tests/support/source_folder.hpp"
#include "wire/request_checks.hpp"

namespace sluice::wire {
namespace {

// ----------------------------------------------------------------------------------- requests

constexpr std::array<uint16_t, 1> one_byte{1};
constexpr std::array<uint32_t, 1> one_handle{1};
constexpr std::array<uint64_t, 1> one_reservation{1};
constexpr std::array<uint64_t, 1> most_tokens{limits::amount_max};

// A valid request of one entry.
template <typename Request>
Request valid_request() {
  Request request{};
  if constexpr (requires { request.keys; }) {
    request.keys = "k";
    request.key_sizes = one_byte;
  }
  if constexpr (requires { request.subject_sizes; }) {
    request.subjects = "s";
    request.subject_sizes = one_byte;
  }
  if constexpr (requires { request.handles; }) request.handles = one_handle;
  if constexpr (requires { request.reservations; }) request.reservations = one_reservation;
  // Cached tokens are a part of them.
  if constexpr (requires { request.input_tokens; }) request.input_tokens = most_tokens;
  return request;
}

// The error of a request; none: it is valid.
template <typename Request>
ErrorCode fault_of(const Request& request) {
  const Checked checked = check_request(request);
  return checked ? ErrorCode::none : checked.error();
}

// ------------------------------------------------------------------------------ rows of tables

// `fault_of_number`: the error of a request with this number.
template <typename T, typename FaultOfNumber>
void expect_bounds(const NumberBounds& bounds, ErrorCode fault, FaultOfNumber fault_of_number) {
  EXPECT_EQ(fault_of_number(static_cast<T>(bounds.min)), ErrorCode::none);
  EXPECT_EQ(fault_of_number(static_cast<T>(bounds.max)), ErrorCode::none);
  if (bounds.besides) {
    EXPECT_EQ(fault_of_number(static_cast<T>(*bounds.besides)), ErrorCode::none);
  }
  // Of flags, one more than all known bits has an unknown one.
  ASSERT_LT(bounds.max, std::numeric_limits<T>::max());
  EXPECT_EQ(fault_of_number(static_cast<T>(bounds.max + 1)), fault) << bounds.max + 1;
  if (bounds.min > 0) {
    EXPECT_EQ(fault_of_number(static_cast<T>(bounds.min - 1)), fault) << bounds.min - 1;
  }
}

template <typename Check>
concept HasBounds = requires {
  Check::bounds;
};

template <typename Request, typename Row>
void expect_bounds_of(const Row&) {}

template <typename Request, typename Class, typename T, HasBounds AreValid>
void expect_bounds_of(const ColumnRow<Class, T, AreValid>& row) {
  SCOPED_TRACE(row.name);
  expect_bounds<T>(AreValid::bounds, row.fault, [&](T number) {
    Request request = valid_request<Request>();
    const std::array<T, 1> column{number};
    request.*row.member = column;
    return fault_of(request);
  });
}

template <typename Request, typename Class, typename T, HasBounds IsValid>
void expect_bounds_of(const Field<Class, T, IsValid>& field) {
  SCOPED_TRACE(field.name);
  expect_bounds<T>(IsValid::bounds, field.fault, [&](T number) {
    Request request = valid_request<Request>();
    request.*field.member = number;
    return fault_of(request);
  });
}

// Calls `visit.operator()<Request>()` for each kind with a table.
template <typename Visit>
void each_kind(Visit visit) {
  const auto visit_one = [&]<typename Request>() {
    if constexpr (requires { Layout<Request>::get; }) visit.template operator()<Request>();
  };
  [&]<size_t... kinds>(std::index_sequence<kinds...>) {
    (visit_one.template operator()<RequestOfKind<kinds>>(), ...);
  }
  (RequestKinds{});
}

TEST(RequestBounds, of_columns_and_fields) {
  each_kind([]<typename Request>() {
    SCOPED_TRACE("kind " + std::to_string(RequestBody(Request{}).index()));
    each_row(Layout<Request>::columns,
             [](auto, const auto& row) { expect_bounds_of<Request>(row); });
    each_row(Layout<Request>::fields,
             [](auto, const auto& field) { expect_bounds_of<Request>(field); });
  });
}

// --------------------------------------------------------------------------------- other checks

template <typename Request>
ErrorCode fault_of_entries(size_t count) {
  const std::vector<uint16_t> sizes(count, 1);
  const std::vector<uint32_t> numbers(count, 1);
  const std::vector<uint64_t> reservations(count, 1);
  const std::string text(count, 'x');
  Request request{};
  if constexpr (requires { request.keys; }) {
    request.keys = text;
    request.key_sizes = sizes;
  } else if constexpr (requires { request.subject_sizes; }) {
    request.subjects = text;
    request.subject_sizes = sizes;
  } else if constexpr (requires { request.handles; }) {
    request.handles = numbers;
  } else if constexpr (requires { request.entries; }) {
    request.entries = numbers;
  } else {
    request.reservations = reservations;
  }
  return fault_of(request);
}

template <typename Request>
concept HasEntries = requires(Request request) {
  request.key_sizes;
}
|| requires(Request request) {
  request.subject_sizes;
}
|| requires(Request request) {
  request.handles;
}
|| requires(Request request) {
  request.entries;
}
|| requires(Request request) {
  request.reservations;
};

TEST(RequestBounds, of_the_number_of_entries) {
  int kinds = 0;
  each_kind([&]<typename Request>() {
    if constexpr (HasEntries<Request>) {
      const size_t most = Layout<Request>::entries_max;
      EXPECT_EQ(fault_of_entries<Request>(0), ErrorCode::none);
      EXPECT_EQ(fault_of_entries<Request>(most), ErrorCode::none) << kinds;
      EXPECT_EQ(fault_of_entries<Request>(most + 1), ErrorCode::too_many_entries) << kinds;
      ++kinds;
    }
  });
  EXPECT_EQ(kinds, 16);
}

template <typename Request>
ErrorCode fault_of_subjects(uint8_t count) {
  const std::vector<uint16_t> sizes(count, 1);
  const std::string text(count, 's');
  const std::array<uint8_t, 1> counts{count};
  Request request{};
  request.subjects = text;
  request.subject_sizes = sizes;
  request.subject_counts = counts;
  return fault_of(request);
}

TEST(RequestBounds, of_the_subjects_of_an_entry) {
  expect_bounds<uint8_t>(subject_counts_bounds, ErrorCode::bad_subject,
                         fault_of_subjects<ReserveRequest>);
  expect_bounds<uint8_t>(subject_counts_bounds, ErrorCode::bad_subject,
                         fault_of_subjects<RecordRequest>);
  expect_bounds<uint8_t>(subject_counts_bounds, ErrorCode::bad_subject,
                         fault_of_subjects<ConsumeRequest>);
}

template <typename Request>
ErrorCode fault_of_id(uint16_t bytes) {
  const std::string id(bytes, 'i');
  const std::array<uint16_t, 1> sizes{bytes};
  auto request = valid_request<Request>();
  request.ids = id;
  request.id_sizes = sizes;
  return fault_of(request);
}

TEST(RequestBounds, of_ids_and_owners) {
  for (const auto fault :
       {fault_of_id<ReserveRequest>, fault_of_id<RecordRequest>, fault_of_id<ConsumeRequest>}) {
    expect_bounds<uint16_t>(label_bytes_bounds, ErrorCode::bad_subject, fault);
  }
  expect_bounds<uint16_t>(label_bytes_bounds, ErrorCode::bad_subject, [](uint16_t size) {
    const std::string owner(size, 'o');
    auto request = valid_request<ReserveRequest>();
    request.owner = owner;
    return fault_of(request);
  });
}

// -------------------------------------------------------------------------------- the document

const std::string& document() {
  static const std::string text = test::read_file(test::source_folder() / "docs" / "protocol.md");
  return text;
}

// What the table of this struct says of a row.
std::string documented(const std::string& table, const std::string& name) {
  std::istringstream lines(document().substr(document().find("\n| `" + table + "` | at |") + 1));
  for (std::string line; std::getline(lines, line) && line.starts_with("|");) {
    if (!line.starts_with("| `" + name + "` |")) continue;
    const size_t meaning = line.find('|', line.find('|', 1) + 1) + 1;
    return line.substr(meaning, line.rfind('|') - meaning);
  }
  ADD_FAILURE() << table << " has no row " << name;
  return "";
}

// 262144 is written 262,144.
std::string grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t index = 0; index < digits.size(); ++index) {
    if (index > 0 && (digits.size() - index) % 3 == 0) text += ',';
    text += digits[index];
  }
  return text;
}

// The sum of the bits that a text lists: "bits: 1 each entry ...; 2 ...".
uint64_t listed_bits(const std::string& text) {
  uint64_t bits = 0;
  const size_t begin = text.find("bits: ");
  if (begin == std::string::npos) return 0;
  std::istringstream words(text.substr(begin + 5));
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789") == std::string::npos) bits += std::stoull(word);
  }
  return bits;
}

void expect_documented(const NumberBounds& bounds, const std::string& text) {
  if (bounds.are_bits) {
    EXPECT_EQ(listed_bits(text), bounds.max) << text;
    return;
  }
  const bool has_least = text.find(grouped(bounds.min) + " to ") != std::string::npos;
  EXPECT_TRUE(has_least || (bounds.min == 0 && text.find("up to ") != std::string::npos)) << text;
  EXPECT_NE(text.find("to " + grouped(bounds.max)), std::string::npos) << text;
}

TEST(RequestBounds, are_those_of_the_document) {
  const auto expect = [](const char* table, const auto& rows) {
    SCOPED_TRACE(table);
    each_row(rows, [&]<typename Row>(auto, const Row& row) {
      SCOPED_TRACE(row.name);
      if constexpr (requires { row.are_valid.bounds; }) {
        // The text above the tables bounds amounts.
        if (row.fault == ErrorCode::bad_amount) return;
        expect_documented(row.are_valid.bounds, documented(table, row.name));
      } else if constexpr (requires { row.is_valid.bounds; }) {
        expect_documented(row.is_valid.bounds, documented(table, row.name));
      }
    });
  };
  expect("Acquire", Layout<AcquireRequest>::columns);
  expect("Acquire", Layout<AcquireRequest>::fields);
  expect("Release", Layout<ReleaseRequest>::columns);
  expect("Forward", Layout<ForwardRequest>::columns);
  expect("Forward", Layout<ForwardRequest>::fields);
  expect("Refund", Layout<RefundRequest>::columns);
  expect("Reserve", Layout<ReserveRequest>::columns);
  expect("Reserve", Layout<ReserveRequest>::fields);
  expect("Settle", Layout<SettleRequest>::fields);
  expect("Cancel", Layout<CancelRequest>::fields);
  expect("Extend", Layout<ExtendRequest>::fields);
  expect("Record", Layout<RecordRequest>::fields);
  expect("Consume", Layout<ConsumeRequest>::fields);
  static_assert(limits::amount_max == (uint64_t{1} << 63) - 1);
  EXPECT_NE(document().find("Other amounts are at\n  most 2^63 - 1."), std::string::npos);
  expect_documented(subject_counts_bounds, documented("Reserve", "subjectCounts"));
  expect_documented(label_bytes_bounds, documented("Reserve", "idSizes"));
  expect_documented(label_bytes_bounds, documented("Reserve", "owner"));
}

}  // namespace
}  // namespace sluice::wire
