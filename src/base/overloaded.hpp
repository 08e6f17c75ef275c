// Several lambdas as one visitor: std::visit(Overloaded{...}, variant).
// Source: std::visit, cppreference; clang 14 still needs the deduction guide.
#pragma once

namespace sluice::base {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace sluice::base
