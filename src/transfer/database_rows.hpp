// Goes over the rows of a query; a failure is a complaint.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "store/database.hpp"
#include "transfer/complaints.hpp"

namespace sluice::transfer {

struct Query {
  std::string place;  // of a complaint
  std::string_view sql;
  std::string_view parameter = {};  // ?1, unless it is empty
};

template <typename Take>
void each_row(store::Database& database, Query query, Complaints& complaints, Take take) {
  store::Result<store::Statement> statement = database.prepare(query.sql);
  if (!statement) return complaints.add(std::move(query.place), text_of(statement.error()));
  if (!query.parameter.empty()) statement->bind(1, query.parameter);
  while (true) {
    const store::Result<bool> row = statement->step();
    if (!row) return complaints.add(std::move(query.place), text_of(row.error()));
    if (!*row) return;
    take(*statement);
  }
}

}  // namespace sluice::transfer
