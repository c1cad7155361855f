// Matrices on slots by diagonals, baby steps and giant steps: one linear sum, whose baby steps share a decomposition.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "schemes/ckks/linear_sum.h"
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

/// A giant step divides and decomposes where a baby step only multiplies with its key: it takes some three times as long. It is
/// counted as two, for keys take memory too.
constexpr std::size_t kGiantCost = 2;

/// What steps of `baby` diagonals take, in key products.
std::size_t cost(const Diagonals& diagonals, std::size_t baby) {
  std::set<std::size_t> babies, giants;
  for (const auto& [k, values] : diagonals) {
    babies.insert(k % baby);
    giants.insert(k / baby);
  }
  return babies.size() - babies.count(0) + kGiantCost * (giants.size() - giants.count(0));
}

/// Of equals the larger.
std::size_t best_baby(const Diagonals& diagonals, std::size_t size) {
  std::set<std::size_t> candidates;
  for (std::size_t baby = 1; baby < size; baby *= 2) candidates.insert(baby);
  if (diagonals.size() <= 64)  // few, and perhaps at regular distances
    for (auto it = diagonals.begin(); it != diagonals.end() && std::next(it) != diagonals.end(); ++it)
      candidates.insert(std::next(it)->first - it->first);
  std::size_t best = size, least = cost(diagonals, size);
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it)
    if (const std::size_t taken = cost(diagonals, *it); taken < least) {
      best = *it;
      least = taken;
    }
  return best;
}

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

/// One diagonal: of a giant step and a baby step that follows it.
struct Place {
  std::int64_t giant, baby;
};

/// The plaintexts of some diagonals: each turned back by its giant step, which comes after.
Values turned_back(const Diagonals& diagonals, const Place* places, std::size_t count, std::size_t size, std::size_t width,
                   bool complex) {
  Values values{{}, {count}, width, complex};
  values.data.reserve(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& diagonal = diagonals.at(static_cast<std::size_t>(places[i].giant + places[i].baby));
    for (std::size_t k = 0; k < width; ++k) {
      const std::size_t at = (k + size - static_cast<std::size_t>(places[i].giant)) & (size - 1);
      values.data.push_back(at < diagonal.size() ? diagonal[at] : 0);
    }
  }
  return values;
}

LinearSum sum_of(const Parameters& parameters, const Diagonals& diagonals, std::size_t size, std::size_t level,
                 std::size_t baby) {
  std::vector<Place> places;
  std::set<std::int64_t> distinct;
  std::vector<std::int64_t> giants;
  for (const auto& [k, values] : diagonals) {
    const auto first = static_cast<std::int64_t>(k - k % baby), rest = static_cast<std::int64_t>(k % baby);
    places.push_back({first, rest});
    distinct.insert(rest);
    if (giants.empty() || giants.back() != first) giants.push_back(first);
  }
  const std::vector<std::int64_t> babies(distinct.begin(), distinct.end());
  const auto place_in = [](const std::vector<std::int64_t>& steps, std::int64_t step) {
    return static_cast<math::u32>(std::lower_bound(steps.begin(), steps.end(), step) - steps.begin());
  };
  std::vector<LinearTerm> terms;
  for (const Place& p : places) terms.push_back({place_in(giants, p.giant), place_in(babies, p.baby)});
  const bool complex = std::any_of(diagonals.begin(), diagonals.end(), [](const auto& d) {
    return std::any_of(d.second.begin(), d.second.end(), [](const auto& v) { return v.imag() != 0; });
  });
  const std::size_t width = parameters.context()->period();
  return make_linear_sum(parameters.context(), level, babies, giants, std::move(terms),
                         [&](std::size_t first, std::size_t count) {
                           return turned_back(diagonals, places.data() + first, count, size, width, complex);
                         });
}

/// Throws unless the diagonals are a matrix on `size` of the set's slots; those that are 0 are left out.
Diagonals checked(const Parameters& parameters, const Diagonals& diagonals, std::size_t size) {
  if (const std::size_t period = parameters.context()->period(); !std::has_single_bit(size) || size > period)
    throw ShapeError("a matrix on slots has a power of two of rows, at most " + std::to_string(period) + " here, not " +
                     std::to_string(size));
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
  if (baby == 0) baby = best_baby(diagonals, size);
  std::size_t rows = 0, columns = 0;
  for (const auto& [k, values] : diagonals)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != std::complex<double>(0))
        rows = std::max(rows, i + 1), columns = std::max(columns, (i + k) % size + 1);
  return std::make_shared<LinearTransformData>(LinearTransformData{parameters, level, width,
                                                                   sum_of(parameters, diagonals, size, level, baby),
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
