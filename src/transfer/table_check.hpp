// Checks that a database has the tables of go-ratelimit, before a row of them is read.
#pragma once

#include "store/database.hpp"
#include "transfer/complaints.hpp"

namespace sluice::transfer {

// Tables that are missing or unknown, the same of their columns, and damage. Each step finds
// nothing new where the one before it has complained, and is left out.
void check_database(store::Database& database, Complaints& complaints);

}  // namespace sluice::transfer
