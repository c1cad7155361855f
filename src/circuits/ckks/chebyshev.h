// Chebyshev series of real numbers, and their fits.
#pragma once

#include <cstddef>
#include <vector>

namespace heliograph::ckks {

/// Returns the sum of series[k] T_k(x), by Clenshaw's recurrence.
double chebyshev_value(const std::vector<double>& coefficients, double x);
/// Returns cos(i pi / (count - 1)) for i < count: points of [-1, 1] with both ends, the largest first.
std::vector<double> extreme_points(std::size_t count);
/// Returns the `count` zeros of T_count, the largest first.
std::vector<double> chebyshev_nodes(std::size_t count);
/// Returns the first `degree` + 1 coefficients of the interpolant at the nodes whose values are `values`.
std::vector<double> interpolated(const std::vector<double>& values, std::size_t degree);
/// Returns the coefficients of `degree` + 1 polynomials with the smallest sum of squared relative distances from nonzero
/// values at the nodes, by Householder's QR decomposition.
std::vector<double> relative_fit(const std::vector<double>& values, std::size_t degree);

}  // namespace heliograph::ckks
