#include "circuits/ckks/slot_matrices.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/errors.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

// The bound on ||W||_2 is the least of sqrt(||W||_1 ||W||_inf), the root of the sum of squared entries, and for small
// matrices sqrt(||W* W||_inf), which is 1 for an orthogonal matrix.
MatrixNorms norms_of(const DiagonalViews& diagonals, std::size_t size) {
  constexpr double most_products = 0x1p24;
  constexpr std::size_t largest_gram = 2048;
  MatrixNorms norms{std::vector<MatrixNorms::Row>(size)};
  std::vector<double> columns(size);
  std::vector<std::size_t> counts(size);  // nonzero entries of each row
  double squares = 0, products = 0;
  for (const auto& [k, values] : diagonals) {
    const std::size_t end = values.repeats ? size : std::min(size, values.count);
    for (std::size_t i = 0; i < end; ++i) {
      const std::complex<double> v = values[i];
      if (v == std::complex<double>(0)) continue;
      norms.complex = norms.complex || v.imag() != 0;
      const double magnitude = v.imag() == 0 ? std::abs(v.real()) : std::abs(v);
      (v.imag() == 0 && v.real() < 0 ? norms.rows[i].minus : norms.rows[i].plus) += magnitude;
      norms.rows[i].squares += magnitude * magnitude;
      columns[(i + k) & (size - 1)] += magnitude, squares += magnitude * magnitude;
      ++counts[i];
    }
  }
  double row = 0, column = 0;
  for (const MatrixNorms::Row& r : norms.rows) row = std::max(row, r.plus + r.minus);
  for (const double c : columns) column = std::max(column, c);
  norms.spectral = std::min(std::sqrt(row * column), std::sqrt(squares));
  for (const std::size_t count : counts) products += static_cast<double>(count) * static_cast<double>(count);
  if (products <= most_products && size <= largest_gram) {
    std::vector<std::complex<double>> gram(size * size);
    std::vector<std::pair<std::size_t, std::complex<double>>> entries;  // nonzero entries of one row
    for (std::size_t i = 0; i < size; ++i) {
      entries.clear();
      for (const auto& [k, values] : diagonals)
        if (const std::complex<double> v = values[i]; v != std::complex<double>(0))
          entries.emplace_back((i + k) & (size - 1), v);
      for (const auto& [p, a] : entries)
        for (const auto& [q, b] : entries) gram[p * size + q] += std::conj(a) * b;
    }
    double most = 0;
    for (std::size_t p = 0; p < size; ++p) {
      double sum = 0;
      for (std::size_t q = 0; q < size; ++q) sum += std::abs(gram[p * size + q]);
      most = std::max(most, sum);
    }
    norms.spectral = std::min(norms.spectral, std::sqrt(most) * (1 + 0x1p-40));
  }
  std::vector<MatrixNorms::Row> distinct;  // equal rows give equal bounds, so neighbouring duplicates are dropped
  for (const MatrixNorms::Row& r : norms.rows)
    if (distinct.empty() || distinct.back().plus != r.plus || distinct.back().minus != r.minus ||
        distinct.back().squares != r.squares)
      distinct.push_back(r);
  norms.rows = std::move(distinct);
  return norms;
}

MatrixNorms summary_of(MatrixNorms norms) {
  using Row = MatrixNorms::Row;
  double squares = 0;
  for (const Row& r : norms.rows) squares = std::max(squares, r.squares);
  std::vector<Row> all = norms.rows, hull;
  std::sort(all.begin(), all.end(),
            [](const Row& a, const Row& b) { return a.plus != b.plus ? a.plus < b.plus : a.minus < b.minus; });
  // Both chains of the convex hull (Andrew's algorithm): a linear bound is largest at one of its points.
  for (int chain = 0; chain < 2; ++chain) {
    const std::size_t begin = hull.size();
    for (const Row& r : all) {
      const auto turns_left = [&] {
        const Row &a = hull[hull.size() - 2], &b = hull.back();
        return (b.plus - a.plus) * (r.minus - a.minus) - (b.minus - a.minus) * (r.plus - a.plus) > 0;
      };
      while (hull.size() >= begin + 2 && !turns_left()) hull.pop_back();
      hull.push_back(r);
    }
    std::reverse(all.begin(), all.end());
  }
  for (Row& r : hull) r.squares = squares;
  norms.rows = std::move(hull);
  return norms;
}

Range applied(const MatrixNorms& w, const Range& x, const Packing& packing, bool inside) {
  const double low = inside ? x.low : -x.peak, high = inside ? x.high : x.peak;
  const double length = x.rms * std::sqrt(static_cast<double>(packing.period));
  Range r{.low = 0, .high = 0, .declared = x.declared};
  bool first = true;
  for (const MatrixNorms::Row& row : w.rows) {
    const double largest = std::min((row.plus + row.minus) * x.peak, std::sqrt(row.squares) * length);
    double most = row.plus * high - row.minus * low, least = row.plus * low - row.minus * high;
    if (w.complex || packing.complex || !(most <= largest)) most = largest;
    if (w.complex || packing.complex || !(least >= -largest)) least = -largest;
    r.high = first ? most : std::max(r.high, most), r.low = first ? least : std::min(r.low, least);
    first = false;
  }
  r.peak = r.mean = r.largest();
  r.rms = std::min(r.peak, x.rms * w.spectral);
  return x.known() ? r : Range::unknown();
}

DiagonalViews checked(const Parameters& parameters, const DiagonalViews& diagonals, std::size_t size) {
  if (const std::size_t period = parameters.context()->period(); !std::has_single_bit(size) || size > period)
    throw ShapeError("the number of rows of a matrix on slots must be a power of two of at most " + std::to_string(period) +
                     ", not " + std::to_string(size));
  if (const std::size_t slots = parameters.slots(), period = parameters.context()->period();
      size < period && slots != period)
    throw ShapeError("a matrix on " + std::to_string(size) +
                     " slots needs values that repeat through the whole ciphertext, but the " + std::to_string(slots) +
                     " slots of these parameters are padded with zeros; use parameters with a " +
                     "power of two of slots and without repeat=False");
  static constexpr std::array<double, 1> zero{};
  DiagonalViews kept;
  for (const auto& [k, values] : diagonals) {
    if (k >= size || values.count > size || (values.repeats && !std::has_single_bit(values.count)))
      throw ShapeError("cannot use diagonal " + std::to_string(k) + " of " + std::to_string(values.count) +
                       " values: a matrix on " + std::to_string(size) + " slots must have diagonals 0 to " +
                       std::to_string(size - 1) + " with at most as many values as slots");
    const std::size_t numbers = values.count * (values.complex ? 2 : 1);
    if (std::any_of(values.numbers, values.numbers + numbers, [](double v) { return v != 0; })) kept.emplace(k, values);
  }
  if (kept.empty()) kept.emplace(0, DiagonalView(zero.data(), 1, false));  // the zero matrix: one product by zero
  return kept;
}

Corner corner_of(const DiagonalViews& diagonals, std::size_t size) {
  Corner corner;
  for (const auto& [k, values] : diagonals)
    for (std::size_t i = 0, end = values.repeats ? size : values.count; i < end; ++i)
      if (values[i] != std::complex<double>(0))
        corner.rows = std::max(corner.rows, i + 1), corner.columns = std::max(corner.columns, (i + k) % size + 1);
  return corner;
}

std::size_t level_of_product(const Parameters& parameters, std::size_t level, std::size_t width) {
  const std::size_t top = parameters.top_level();
  if (level == 0) level = top;
  if (level < 2 || level > top)
    throw LevelError("a matrix product takes one level, so its level must be 2 to " + std::to_string(top) + ", not " +
                     std::to_string(level));
  if (width > parameters.slots())
    throw SlotsError("cannot give results of " + std::to_string(width) + " values; a ciphertext holds " +
                     std::to_string(parameters.slots()));
  return level;
}

Ciphertext operand_of_product(const Ciphertext& a, const Parameters& parameters, std::size_t level, bool whole,
                              const Corner& corner) {
  if (!(a.parameters() == parameters))
    throw MismatchError(
        "the matrix and the ciphertext have different parameter sets; make the matrix for the ciphertext's set");
  const Ciphertext known = whole ? of_width(a, std::min(corner.columns, a.parameters().slots())) : own(a);
  if (known.level() < level)
    throw LevelError("the matrix needs level " + std::to_string(level) + " or above; this ciphertext is at level " +
                     std::to_string(known.level()));
  return known;
}

bool reads_values(const CiphertextData& x, bool whole, const Corner& corner) {
  return x.tail.kind() == Tail::Kind::even || (whole && corner.columns <= x.width) || x.width == x.context->period();
}

}  // namespace heliograph::ckks
