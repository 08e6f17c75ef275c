// The layout of the frames that the server answers with: one table for each struct of columns.
// Flow:   encode_*() writes the columns of a table, *_bytes_max() computes their bound from it.
// Shape:  proto/sluicegate.capnp; docs/protocol.md. A table has the struct's pointers in their
//         order; an OtherRow is written by hand, at pointer_of(table, name).
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_layout.hpp"

namespace sluice::wire {

inline constexpr auto welcome_rows = std::tuple{OtherRow{"serverVersion"}};
inline constexpr auto error_rows = std::tuple{OtherRow{"text"}};
inline constexpr auto go_away_rows = std::tuple{OtherRow{"reason"}};

inline constexpr auto verdicts_rows = std::tuple{OtherRow{"verdicts"}, OtherRow{"details"}};

inline constexpr auto granted_rows =
    std::tuple{answer_column<uint32_t>("entries", std::identity{}),
               OtherRow{"verdicts"},
               OtherRow{"details"},
               answer_column<uint64_t>("reservations", std::identity{}),
               OtherRow{"codes"},
               answer_column<int64_t>("retryAfterMs", std::identity{}),
               OtherRow{"permits"}};

inline constexpr auto interned_rows =
    std::tuple{answer_column<api::Handle>("handles", std::identity{}), OtherRow{"verdicts"}};

// The server sends only those that the request asked for, by detail_bit.
inline constexpr auto details_rows =
    std::tuple{answer_column<uint32_t>("limit", &api::Detail::limit),
               answer_column<uint64_t>("windowMs", &api::Detail::window_ms),
               answer_column<uint32_t>("remaining", &api::Detail::remaining),
               answer_column<uint64_t>("resetMs", &api::Detail::reset_ms),
               answer_column<uint64_t>("retryAfterMs", &api::Detail::retry_after_ms),
               answer_column<uint64_t>("requestId", &api::Detail::request_id),
               answer_column<uint32_t>("position", &api::Detail::position)};

constexpr uint8_t detail_bit_of(size_t pointer) noexcept {
  return static_cast<uint8_t>(1U << pointer);
}
static_assert(detail_bit_of(pointer_of(details_rows, "limit")) == detail_bit::limit);
static_assert(detail_bit_of(pointer_of(details_rows, "windowMs")) == detail_bit::window);
static_assert(detail_bit_of(pointer_of(details_rows, "remaining")) == detail_bit::remaining);
static_assert(detail_bit_of(pointer_of(details_rows, "resetMs")) == detail_bit::reset);
static_assert(detail_bit_of(pointer_of(details_rows, "retryAfterMs")) == detail_bit::retry);
static_assert(detail_bit_of(pointer_of(details_rows, "requestId")) == detail_bit::request_id);
static_assert(detail_bit_of(pointer_of(details_rows, "position")) == detail_bit::position);

inline constexpr auto inspected_rows =
    std::tuple{OtherRow{"keys"},
               answer_column<uint16_t>("keySizes",
                                       [](const api::KeyState& state) { return state.key.size(); }),
               answer_column<uint64_t>("windowMs", &api::KeyState::window_ms),
               answer_column<uint32_t>("maxRequests", &api::KeyState::max_requests),
               answer_column<uint32_t>("maxRequestsInQueue", &api::KeyState::max_requests_in_queue),
               answer_column<uint32_t>("approved", &api::KeyState::approved),
               answer_column<uint32_t>("denied", &api::KeyState::denied),
               answer_column<uint32_t>("waiting", &api::KeyState::waiting),
               answer_column<uint64_t>("resetMs", &api::KeyState::reset_ms)};

inline constexpr auto quota_answers_rows = std::tuple{
    OtherRow{"codes"}, answer_column<uint64_t>("reservations", &api::QuotaAnswer::reservation),
    answer_column<int64_t>("retryAfterMs", &api::QuotaAnswer::retry_after_ms), OtherRow{"limits"},
    OtherRow{"detail"}};

// An item is a limit with the index of its entry or subject.
inline constexpr auto limit_states_rows =
    std::tuple{answer_column<uint32_t>(
                   "entries", [](uint32_t entry, const api::LimitReport&) { return entry; }),
               answer_column<uint8_t>("subjects", &api::LimitReport::subject),
               OtherRow{"names"},
               answer_column<uint8_t>("nameSizes", &api::LimitReport::name_bytes),
               answer_column<uint8_t>("metrics", &api::LimitReport::metric),
               answer_column<uint8_t>("kinds", &api::LimitReport::kind),
               answer_column<uint8_t>("ceilings", &api::LimitReport::ceiling),
               answer_column<uint8_t>("violated", &api::LimitReport::violated),
               answer_column<uint64_t>("amounts", &api::LimitReport::amount),
               answer_column<uint64_t>("used", &api::LimitReport::used),
               answer_column<uint64_t>("reserved", &api::LimitReport::reserved),
               answer_column<uint64_t>("remaining", &api::LimitReport::remaining),
               answer_column<uint64_t>("periodMs", &api::LimitReport::period_ms),
               answer_column<uint64_t>("resetMs", &api::LimitReport::reset_ms)};

inline constexpr auto usage_rows =
    std::tuple{OtherRow{"names"},
               answer_column<uint16_t>("nameSizes", &api::SubjectRow::name_bytes),
               answer_column<uint8_t>("sources", &api::SubjectRow::source),
               answer_column<uint32_t>("openReservations", &api::SubjectRow::open_reservations),
               answer_column<uint32_t>("waiting", &api::SubjectRow::waiting),
               OtherRow{"quotas"},
               OtherRow{"limits"}};

inline constexpr auto topology_rows = std::tuple{
    OtherRow{"hosts"},
    answer_column<uint16_t>("hostSizes", [](const TopologyNode& node) { return node.host.size(); }),
    answer_column<uint16_t>("restPorts", &TopologyNode::rest_port),
    answer_column<uint16_t>("nativePorts",
                            [](const TopologyNode& node) { return node.state.native_port; }),
    answer_column<uint32_t>("shards", [](const TopologyNode& node) { return node.state.shards; }),
    answer_column<uint64_t>("routingSeeds",
                            [](const TopologyNode& node) { return node.state.routing_seed; }),
    answer_column<uint64_t>("instanceIds",
                            [](const TopologyNode& node) { return node.state.instance_id; })};

// ------------------------------------------------------------------------- walks over a table

template <typename Row>
concept NumberColumn = requires {
  typename Row::Number;
};

// Calls `visit(pointer, column)` for each column that is not written by hand.
template <typename... Rows, typename Visit>
constexpr void each_column(const std::tuple<Rows...>& rows, Visit visit) {
  each_row(rows, [&]<typename Row>(auto pointer, const Row& row) {
    if constexpr (NumberColumn<Row>) visit(pointer, row);
  });
}

}  // namespace sluice::wire
