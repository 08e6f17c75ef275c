// A store of quotas that keeps its state, for tests of files that have what it keeps.
#pragma once

#include "quota/quota_store.hpp"

namespace sluice::server {

inline constexpr quota::Options small_store{.subjects_max = 100,
                                            .reservations_max = 100,
                                            .waiters_max = 10,
                                            .name_seed = 42,
                                            .id_seed = 42,
                                            .keeps_state = true};

}  // namespace sluice::server
