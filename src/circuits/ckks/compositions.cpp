// The table of compositions of polynomials that approximate the sign.
#include <array>
#include <cmath>

#include "circuits/ckks/text.h"
#include "heliograph/functions.h"

namespace heliograph::ckks {

namespace {

constexpr std::size_t kMostStages = 6;
/// An entry of the table: -log2 of gap and error, the polynomials, and the position of their odd coefficients.
struct CompositionRow {
  double gap_bits, error_bits, abs_error_bits;
  std::size_t stages, first;
  std::array<std::size_t, kMostStages> degrees;
  std::array<double, kMostStages> lows, growths, growths_of_abs;
};
#include "circuits/ckks/sign_composites.inc"

Composition composition_of(const CompositionRow& row, std::size_t place) {
  Composition c;
  c.place = place;
  c.gap = std::exp2(-row.gap_bits), c.error = std::exp2(-row.error_bits), c.error_of_abs = std::exp2(-row.abs_error_bits);
  std::size_t next = row.first;
  for (std::size_t i = 0; i < row.stages; ++i) {
    const std::size_t degree = row.degrees[i];
    std::vector<double> series(degree + 1);
    for (std::size_t k = 1; k <= degree; k += 2) series[k] = kSignCoefficients[next++];
    c.degrees.push_back(degree), c.depths.push_back(polynomial_depth(degree)), c.stages.push_back(std::move(series));
    c.lows.push_back(row.lows[i]), c.growths.push_back(row.growths[i]), c.growths_of_abs.push_back(row.growths_of_abs[i]);
  }
  return c;
}

}  // namespace

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> all = [] {
    std::vector<Composition> made;
    for (const CompositionRow& row : kSignRows) made.push_back(composition_of(row, made.size()));
    return made;
  }();
  return all;
}

std::vector<Composition> fitting_compositions(double gap, double error) {
  std::vector<Composition> fitting;
  const Composition* least = nullptr;
  for (const Composition& c : compositions()) {
    if (c.gap <= gap * (1 + 0x1p-20) && c.error <= error) fitting.push_back(c);
    if (least == nullptr || c.gap < least->gap || (c.gap == least->gap && c.error < least->error)) least = &c;
  }
  if (fitting.empty())
    throw ParameterError("no composition separates values " + power_text(gap) + " of the largest apart with an error of " +
                         power_text(error) + "; the limits are " + power_text(least->gap) + " and " +
                         power_text(least->error));
  return fitting;
}

}  // namespace heliograph::ckks
