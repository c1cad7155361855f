// Error bounds of operations, by trial runs on the null device.
#pragma once

#include <vector>

#include "heliograph/ckks.h"

namespace heliograph::ckks {

/// Returns the error bound of values up to 1 after a bootstrap. Throws ParameterError for a set without bootstrapping.
double error_of_bootstrap(const Parameters& parameters, int iterations);
/// Returns the error bound of the roundings when a Chebyshev series is evaluated at the top level.
double error_of_series(const Parameters& parameters, const std::vector<double>& coefficients);
/// Returns the error bound of a functional bootstrap. `noise`: a bound on the error of the integers before it.
double error_of_table(const Parameters& parameters, const std::vector<double>& table, double noise);

}  // namespace heliograph::ckks
