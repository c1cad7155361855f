#include "circuits/ckks/chebyshev.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace heliograph::ckks {

namespace {

/// Returns cos(pi k / (2 count)) for k < 4 count. The value of T_k at node i is entry k (2 i + 1) modulo 4 count of this
/// table.
std::vector<double> cosines(std::size_t count) {
  std::vector<double> table(4 * count);
  for (std::size_t k = 0; k < table.size(); ++k)
    table[k] = std::cos(std::numbers::pi * static_cast<double>(k) / static_cast<double>(2 * count));
  return table;
}

/// A matrix, stored by columns.
struct Columns {
  std::size_t rows, columns;
  std::vector<double> entries;

  double* column(std::size_t j) { return entries.data() + j * rows; }
};

/// Solves the least squares problem of `a` and `b` in place. The first `columns` entries of b become the solution. Rows must
/// be in descending order of size, so that rounding errors of large rows do not hide small rows.
void solve_least_squares(Columns& a, std::vector<double>& b) {
  std::vector<double> diagonal(a.columns);
  for (std::size_t j = 0; j < a.columns; ++j) {
    double* v = a.column(j);
    double square = 0;
    for (std::size_t i = j; i < a.rows; ++i) square += v[i] * v[i];
    const double norm = v[j] > 0 ? -std::sqrt(square) : std::sqrt(square);
    diagonal[j] = norm;
    v[j] -= norm;
    const double half = -norm * v[j];  // |v|^2 / 2
    if (half == 0) continue;
    const auto reflect = [&](double* w) {
      double product = 0;
      for (std::size_t i = j; i < a.rows; ++i) product += v[i] * w[i];
      product /= half;
      for (std::size_t i = j; i < a.rows; ++i) w[i] -= product * v[i];
    };
    for (std::size_t k = j + 1; k < a.columns; ++k) reflect(a.column(k));
    reflect(b.data());
  }
  for (std::size_t j = a.columns; j-- > 0;) {
    b[j] = diagonal[j] == 0 ? 0 : b[j] / diagonal[j];
    for (std::size_t i = 0; i < j; ++i) b[i] -= a.column(j)[i] * b[j];
  }
}

}  // namespace

double chebyshev_value(const std::vector<double>& coefficients, double x) {
  if (coefficients.size() == 1) return coefficients[0];
  double low = coefficients[coefficients.size() - 2], high = coefficients.back();
  for (std::size_t k = coefficients.size() - 2; k-- > 0;) {
    const double before = low;
    low = coefficients[k] - high;
    high = before + high * (2 * x);
  }
  return low + high * x;
}

std::vector<double> extreme_points(std::size_t count) {
  std::vector<double> points(count);
  for (std::size_t i = 0; i < count; ++i)
    points[i] = std::cos(std::numbers::pi * static_cast<double>(i) / static_cast<double>(count - 1));
  return points;
}

std::vector<double> chebyshev_nodes(std::size_t count) {
  std::vector<double> nodes(count);
  for (std::size_t i = 0; i < count; ++i)
    nodes[i] = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.5) / static_cast<double>(count));
  return nodes;
}

std::vector<double> interpolated(const std::vector<double>& values, std::size_t degree) {
  const std::size_t count = values.size();
  const std::vector<double> table = cosines(count);
  std::vector<double> coefficients(degree + 1);
  for (std::size_t k = 0; k <= degree; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i] * table[k * (2 * i + 1) % table.size()];
    coefficients[k] = sum * (k == 0 ? 1 : 2) / static_cast<double>(count);
  }
  return coefficients;
}

std::vector<double> relative_fit(const std::vector<double>& values, std::size_t degree) {
  const std::size_t count = values.size();
  const std::vector<double> table = cosines(count);
  std::vector<std::size_t> order(count);  // rows in descending order of weight, 1 / |value|
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) < std::abs(values[b]); });
  Columns basis{count, degree + 1, std::vector<double>(count * (degree + 1))};
  for (std::size_t k = 0; k <= degree; ++k)
    for (std::size_t i = 0; i < count; ++i)
      basis.column(k)[i] = table[k * (2 * order[i] + 1) % table.size()] / values[order[i]];
  std::vector<double> solution(count, 1.0);
  solve_least_squares(basis, solution);
  solution.resize(degree + 1);
  return solution;
}

}  // namespace heliograph::ckks
