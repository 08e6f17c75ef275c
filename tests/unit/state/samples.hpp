// Records and headers as a shard writes them, for the tests of this folder.
#pragma once

#include <cstdint>
#include <string>

#include "state/part.hpp"
#include "state/record.hpp"

namespace sluice::state {

inline constexpr int64_t sample_ns = 30 * base::ns_per_day;
inline constexpr limiter::Moment sample_moment{
    .ns = sample_ns, .wall_ns = 20'000 * base::ns_per_day, .order = 2'000'000'000};

inline PartHeader sample_header() {
  return {.epoch = 77,
          .shard = 1,
          .shards = 4,
          .time = {.state_ns = sample_moment.ns,
                   .machine = {.boot = {.high = 0x0102'0304'0506'0708, .low = 9},
                               .boot_ns = 5 * base::ns_per_day,
                               .wall_ns = sample_moment.wall_ns - 1}},
          .calendar_wall_ns = sample_moment.wall_ns,
          .order = sample_moment.order,
          .reset_all_order = 1'000,
          .file_tag = 0x0A0B'0C0D};
}

inline ReservedSubject subject_here(uint64_t number) {
  return {.where = ReservedSubject::Where::here,
          .key = {.name = {.low = ~number, .high = number << 40 | 1},
                  .route = static_cast<uint16_t>(number)}};
}
inline ReservedSubject subject_of_shard(uint16_t shard) {
  return {.where = ReservedSubject::Where::other_shard, .shard = shard};
}

// Of one subject, without a client's id or an owner.
inline ReservationRecord open_reservation() {
  ReservationRecord reservation{.id = 0x0001'2345'6789'ABCD,
                                .lifetime_ms = 60'000,
                                .due_ms = sample_ns / base::ns_per_ms + 59'000,
                                .amounts = {.requests = 1, .input_tokens = 700, .output_tokens = 9},
                                .charged_ns = sample_ns - base::ns_per_s,
                                .order = sample_moment.order - 5,
                                .subjects_count = 1};
  reservation.subjects[0] = subject_here(3);
  return reservation;
}

// Of a key whose requests have changed its policy.
inline WindowRecord sample_window() {
  return {.key = "tenant-7/day",
          .end_ms = sample_ns / base::ns_per_ms + 3'600'000,
          .approved = 17,
          .denied = 3,
          .policy = {.window_ms = 7'200'000, .max_requests = 50, .max_requests_in_queue = 0},
          .rules_policy = {.window_ms = 60'000, .max_requests = 100, .max_requests_in_queue = 400}};
}

// With everything that a reservation can have.
inline ReservationRecord full_reservation() {
  ReservationRecord reservation = open_reservation();
  reservation.state = api::ReservationState::expired;
  reservation.admission = api::QuotaCode::unlimited;
  reservation.is_part = true;
  reservation.is_connection_bound = true;
  reservation.is_repeated = true;
  reservation.refunded_bits = 0b1000'0001;
  reservation.amounts.cost = limits::amount_max;
  reservation.expired_order = sample_moment.order;
  reservation.client_id = {.low = 5, .high = UINT64_MAX};
  reservation.request_hash = 11;
  reservation.owner = "worker 7";
  reservation.subjects_count = limits::call_subjects_max;
  for (uint16_t at = 0; at < limits::call_subjects_max; ++at) {
    reservation.subjects[at] = at % 2 == 0 ? subject_here(at) : subject_of_shard(at);
  }
  reservation.subjects[4] = {};
  return reservation;
}

inline ReservationRecord settled_reservation() {
  ReservationRecord reservation = open_reservation();
  reservation.state = api::ReservationState::settled;
  reservation.charged_ns = 0;
  reservation.order = 0;
  reservation.client_id = {.low = 5, .high = 6};
  reservation.request_hash = 7;
  return reservation;
}

inline EndedReservation ended_reservation() {
  return {.id = 0x0001'2345'6789'ABCD,
          .state = api::ReservationState::cancelled,
          .late = true,
          .forgotten_ms = sample_ns / base::ns_per_ms + 59'000,
          .amounts = {.requests = 1, .input_tokens = 700, .output_tokens = 9}};
}

}  // namespace sluice::state
