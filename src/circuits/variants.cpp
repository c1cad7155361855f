// Which algorithms an operation has by name, in each family.
#include <algorithm>

#include "base/errors.h"
#include "circuits/operations.h"

namespace heliograph::circuits {

namespace {

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool adds(const std::string& name) {
  return one_of(name, {"add", "add_clear", "subtract", "subtract_clear", "clear_subtract", "negate"});
}

/// Comparisons for order, and what is made of them.
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
    if (adds(operation.name)) return {"ripple", "prefix", "bitwise", "numberwise"};
    if (compares(operation.name)) return {"ripple", "prefix", "bitwise"};
    if (multiplies && !clear) return {"wallace", "booth", "tree", "karatsuba"};
    return {};
  }
  if (multiplies && !clear) return {"schoolbook", "karatsuba", "ripple", "prefix"};
  if (multiplies || adds(operation.name) || compares(operation.name) || divides(operation.name) ||
      one_of(operation.name, {"sum", "dot"}))
    return {"ripple", "prefix"};
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
    text += i == 0 ? "; there are \"" : i + 1 == known.size() ? " and \"" : ", \"";
    text += known[i];
    text += '"';
  }
  throw ParameterError(text);
}

}  // namespace heliograph::circuits
