// Named algorithms of operations, in each family.
#include <algorithm>

#include "base/errors.h"
#include "circuits/operations.h"
#include "circuits/variants.h"

namespace heliograph::circuits {

namespace {

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool adds(const std::string& name) {
  return one_of(name, {"add", "add_clear", "subtract", "subtract_clear", "clear_subtract", "negate"});
}

/// Returns whether an operation is an ordering comparison or derived from one.
bool compares(const std::string& name) {
  return one_of(name, {"less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "absolute"});
}

bool divides(const std::string& name) {
  return one_of(name, {"divide", "remainder", "divmod", "floor_divide", "floor_remainder", "floor_divmod"});
}

}  // namespace

std::vector<std::string> variants(const Encoding& encoding, const tfhe::Operation& operation,
                                  const std::vector<Type>& operands) {
  if (!operands.empty() && operands[0].boolean && operation.name != "sum") return {};
  const bool multiplies = one_of(operation.name, {"multiply", "multiply_clear"}), clear = !operation.arguments.empty();
  if (encoding.boolean()) {
    if (adds(operation.name)) return list_of(bit_variants::additions);
    if (compares(operation.name)) return list_of(bit_variants::comparisons);
    if (multiplies && !clear) return list_of(bit_variants::products);
    return {};
  }
  if (multiplies && !clear) return list_of(digit_variants::products);
  if (multiplies || adds(operation.name) || compares(operation.name) || divides(operation.name) ||
      one_of(operation.name, {"sum", "dot"}))
    return list_of(digit_variants::carries);
  return {};
}

void check_variant(const Encoding& encoding, const tfhe::Operation& operation, const std::vector<Type>& operands) {
  if (operation.variant.empty()) return;
  const std::vector<std::string> known = variants(encoding, operation, operands);
  if (std::find(known.begin(), known.end(), operation.variant) != known.end()) return;
  std::string text = operation.name;
  text += operation.arguments.empty() ? "" : " by a clear operand";
  text += known.empty() ? " has no variants in sets of " : " has no variant \"" + operation.variant + "\" in sets of ";
  text += encoding.boolean() ? "bits" : "digits";
  for (std::size_t i = 0; i < known.size(); ++i) {
    text += i == 0 ? "; the variants are \"" : i + 1 == known.size() ? " and \"" : ", \"";
    text += known[i];
    text += '"';
  }
  throw ParameterError(text);
}

}  // namespace heliograph::circuits
