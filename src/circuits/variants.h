// Names of the algorithms of operations, `Operation::variant`: one list for each family.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace heliograph::circuits {

/// Names of the algorithms of one group.
template <std::size_t N>
using VariantNames = std::array<const char*, N>;

namespace bit_variants {
inline constexpr VariantNames<4> additions = {"ripple", "prefix", "bitwise", "numberwise"};  // bitwise is ripple
inline constexpr VariantNames<3> comparisons = {"ripple", "prefix", "bitwise"};
inline constexpr VariantNames<4> products = {"wallace", "booth", "tree", "karatsuba"};
}  // namespace bit_variants

namespace digit_variants {
inline constexpr VariantNames<2> carries = {"ripple", "prefix"};  // for every operation that propagates carries
inline constexpr VariantNames<4> products = {"schoolbook", "karatsuba", "ripple", "prefix"};
}  // namespace digit_variants

template <std::size_t N>
bool is_one_of(std::string_view name, const VariantNames<N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
template <std::size_t N>
std::vector<std::string> list_of(const VariantNames<N>& names) {
  return {names.begin(), names.end()};
}
/// Joins names, as "ripple, prefix".
template <std::size_t N>
std::string text_of(const VariantNames<N>& names) {
  std::string text;
  for (const char* const name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace heliograph::circuits
