// Matrices on slots by diagonals, baby steps and giant steps: one linear sum, whose baby steps share a decomposition.
#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "schemes/ckks/diagonals.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

struct LinearTransformData {
  Parameters parameters;
  std::size_t level, width;
  LinearSum sum;
  bool whole;                 // as large as the period; else the same on each stretch of a vector that repeats
  std::size_t rows, columns;  // of a whole one's corner that has all that is not 0
};

namespace {

Diagonals diagonals_of(const std::vector<std::complex<double>>& matrix, std::size_t size) {
  if (size == 0 || matrix.size() / size != size || matrix.size() % size != 0)
    throw ShapeError("a matrix on " + std::to_string(size) + " slots has " + std::to_string(size) + " x " +
                     std::to_string(size) + " entries, not " + std::to_string(matrix.size()));
  Diagonals diagonals;
  for (std::size_t k = 0; k < size; ++k) {
    std::vector<std::complex<double>> values(size);
    bool zero = true;
    for (std::size_t i = 0; i < size; ++i) {
      values[i] = matrix[i * size + ((i + k) & (size - 1))];
      zero = zero && values[i] == std::complex<double>(0);
    }
    if (!zero) diagonals.emplace(k, std::move(values));
  }
  return diagonals;
}

/// Throws unless the diagonals are a matrix on `size` of the set's slots; those that are 0 are left out.
Diagonals checked(const Parameters& parameters, const Diagonals& diagonals, std::size_t size) {
  if (const std::size_t period = parameters.context()->period(); !std::has_single_bit(size) || size > period)
    throw ShapeError("a matrix on slots has a power of two of rows, at most " + std::to_string(period) + " here, not " +
                     std::to_string(size));
  if (const std::size_t slots = parameters.slots(), period = parameters.context()->period();
      size < period && slots != period)
    throw ShapeError("a matrix on " + std::to_string(size) +
                     " slots takes values that repeat through the whole ciphertext; " + std::to_string(slots) +
                     " slots of these parameters have zeros behind them: take parameters with a " +
                     "power of two of slots and without repeat=False");
  Diagonals kept;
  for (const auto& [k, values] : diagonals) {
    if (k >= size || values.size() > size)
      throw ShapeError("diagonal " + std::to_string(k) + " of " + std::to_string(values.size()) + " values: a matrix on " +
                       std::to_string(size) + " slots has diagonals 0 to " + std::to_string(size - 1) +
                       " of as many values");
    if (std::any_of(values.begin(), values.end(), [](const auto& v) { return v != std::complex<double>(0); }))
      kept.emplace(k, values);
  }
  require<ShapeError>(!kept.empty(), "a matrix of zeros: there is nothing to compute");
  return kept;
}

std::shared_ptr<const LinearTransformData> made(const Parameters& parameters, const Diagonals& given, std::size_t size,
                                                std::size_t level, std::size_t baby, std::size_t width) {
  const Diagonals diagonals = checked(parameters, given, size);
  const std::size_t top = parameters.top_level();
  if (level == 0) level = top;
  if (level < 2 || level > top)
    throw LevelError("a matrix product takes one level: it is made for levels 2 to " + std::to_string(top) + ", not " +
                     std::to_string(level));
  if (width > parameters.slots())
    throw SlotsError("results of " + std::to_string(width) + " values; a ciphertext holds " +
                     std::to_string(parameters.slots()));
  std::size_t rows = 0, columns = 0;
  for (const auto& [k, values] : diagonals)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != std::complex<double>(0))
        rows = std::max(rows, i + 1), columns = std::max(columns, (i + k) % size + 1);
  return std::make_shared<LinearTransformData>(
      LinearTransformData{parameters, level, width, sum_of(*parameters.context(), diagonals, size, level, baby),
                          size == parameters.context()->period(), rows, columns});
}

}  // namespace

LinearTransform::LinearTransform(const Parameters& parameters, const std::vector<std::complex<double>>& matrix,
                                 std::size_t size, std::size_t level, std::size_t baby)
    : LinearTransform(parameters, diagonals_of(matrix, size), size, level, baby) {}

LinearTransform::LinearTransform(const Parameters& parameters, const Diagonals& diagonals, std::size_t size,
                                 std::size_t level, std::size_t baby, std::size_t width)
    : data_(made(parameters, diagonals, size, level, baby, width)) {}

std::vector<std::int64_t> LinearTransform::rotations() const {
  std::set<std::int64_t> steps(data_->sum.rotations.begin(), data_->sum.rotations.end());
  steps.erase(0);
  return {steps.begin(), steps.end()};
}

std::size_t LinearTransform::level() const { return data_->level; }

Parameters LinearTransform::parameters() const { return data_->parameters; }

Ciphertext apply(const LinearTransform& transform, const Ciphertext& a, const EvaluationKeys& keys,
                 const Progress& progress) {
  const LinearTransformData& data = transform.data();
  if (!(a.parameters() == data.parameters)) throw MismatchError("the matrix was made for other parameters");
  const Ciphertext known = data.whole ? of_width(a, std::min(data.columns, a.parameters().slots())) : cleared(a);
  if (known.level() < data.level)
    throw LevelError("the matrix was made for level " + std::to_string(data.level) + "; this ciphertext is at level " +
                     std::to_string(known.level()));
  const Shape shape = a.shape();
  const std::size_t items = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  Ciphertext x = of_degree_one(known, keys);
  if (x.level() > data.level) x = lower(x, data.level);
  CiphertextData result = reshape(apply(data.sum, reshape(x, {items}), keys, progress), shape).data();
  result.width = data.width > 0 ? data.width : a.slots();
  if (data.whole && data.rows <= result.width) result.tail = {};
  return finish(std::move(result));
}

}  // namespace heliograph::ckks
