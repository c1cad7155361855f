// Matrices on slots by diagonals, baby steps and giant steps: rotations of the input come from one decomposition, and the giant
// steps are taken one after the other from the far end (Horner's rule), so that they share keys.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/errors.h"
#include "schemes/ckks/context.h"

namespace heliograph::ckks {

/// Diagonals of one giant step at neighbouring baby steps.
struct Run {
  std::size_t first;  // place among the baby steps
  std::size_t count;
  Plaintext diagonals;  // [count, 1]
};

struct Giant {
  std::size_t step;
  std::vector<Run> runs;
};

struct LinearTransformData {
  Parameters parameters;
  std::size_t level, width;
  std::vector<std::int64_t> babies;  // ascending
  std::vector<Giant> giants;         // ascending steps, never empty
};

namespace {

/// Key switches with giant steps of `baby` diagonals.
std::size_t switches(const Diagonals& diagonals, std::size_t baby) {
  std::set<std::size_t> babies, giants;
  for (const auto& [k, values] : diagonals) {
    babies.insert(k % baby);
    giants.insert(k / baby);
  }
  return babies.size() - babies.count(0) + giants.size() - giants.count(0);
}

/// Of equals the larger: rotations that share a decomposition are the cheaper ones.
std::size_t best_baby(const Diagonals& diagonals, std::size_t size) {
  std::set<std::size_t> candidates;
  for (std::size_t baby = 1; baby < size; baby *= 2) candidates.insert(baby);
  if (diagonals.size() <= 64)  // few, and perhaps at regular distances
    for (auto it = diagonals.begin(); it != diagonals.end() && std::next(it) != diagonals.end(); ++it)
      candidates.insert(std::next(it)->first - it->first);
  std::size_t best = size, fewest = switches(diagonals, size);
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it)
    if (const std::size_t count = switches(diagonals, *it); count < fewest) {
      best = *it;
      fewest = count;
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

/// Encodes the diagonals of giant step `step` at the baby steps first .. first + count - 1 of `babies`.
Plaintext encoded(const Parameters& parameters, const Diagonals& diagonals, const std::vector<std::int64_t>& babies,
                  std::size_t first, std::size_t count, std::size_t step, std::size_t size, std::size_t level,
                  bool complex) {
  const std::size_t width = parameters.context()->period();
  Values values{{}, {count, 1}, width, complex};
  values.data.reserve(count * width);
  for (std::size_t b = first; b < first + count; ++b) {
    const auto& diagonal = diagonals.at(step + static_cast<std::size_t>(babies[b]));
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t place = (i + size - step) & (size - 1);
      values.data.push_back(place < diagonal.size() ? diagonal[place] : 0);
    }
  }
  // With this scale a rescaled product is at the scale of the level below.
  return encode(parameters, values, level, parameters.scale(level));
}

std::vector<Run> runs_of(const Parameters& parameters, const Diagonals& diagonals, const std::vector<std::int64_t>& babies,
                         std::size_t step, std::size_t size, std::size_t level, bool complex) {
  const auto here = [&](std::size_t b) {
    return b < babies.size() && diagonals.count(step + static_cast<std::size_t>(babies[b])) > 0;
  };
  std::vector<Run> runs;
  for (std::size_t b = 0; b < babies.size(); ++b) {
    if (!here(b)) continue;
    std::size_t end = b + 1;
    while (here(end)) ++end;
    runs.push_back({b, end - b, encoded(parameters, diagonals, babies, b, end - b, step, size, level, complex)});
    b = end;
  }
  return runs;
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
  parameters.require_memory(diagonals.size() * parameters.ciphertext_bytes(1, level) / 2, "the diagonals of this matrix");
  if (width > parameters.slots())
    throw SlotsError("results of " + std::to_string(width) + " values; a ciphertext holds " +
                     std::to_string(parameters.slots()));
  if (baby == 0) baby = best_baby(diagonals, size);
  std::set<std::int64_t> babies;
  std::set<std::size_t> steps;
  for (const auto& [k, values] : diagonals) {
    babies.insert(static_cast<std::int64_t>(k % baby));
    steps.insert(k - k % baby);
  }
  const bool complex = std::any_of(diagonals.begin(), diagonals.end(), [](const auto& d) {
    return std::any_of(d.second.begin(), d.second.end(), [](const auto& v) { return v.imag() != 0; });
  });
  auto data = std::make_shared<LinearTransformData>(LinearTransformData{parameters, level, width, {}, {}});
  data->babies.assign(babies.begin(), babies.end());
  for (const std::size_t step : steps)
    data->giants.push_back({step, runs_of(parameters, diagonals, data->babies, step, size, level, complex)});
  return data;
}

/// The products of one giant step's diagonals, summed.
Ciphertext inner(const Giant& giant, const Ciphertext& turned) {
  std::optional<Ciphertext> total;
  for (const Run& run : giant.runs) {
    const Ciphertext part = sum(multiply(slice(turned, 0, run.first, 1, run.count), run.diagonals), 0);
    total = total ? add(*total, part) : part;
  }
  return *total;
}

}  // namespace

LinearTransform::LinearTransform(const Parameters& parameters, const std::vector<std::complex<double>>& matrix,
                                 std::size_t size, std::size_t level, std::size_t baby)
    : LinearTransform(parameters, diagonals_of(matrix, size), size, level, baby) {}

LinearTransform::LinearTransform(const Parameters& parameters, const Diagonals& diagonals, std::size_t size,
                                 std::size_t level, std::size_t baby, std::size_t width)
    : data_(made(parameters, diagonals, size, level, baby, width)) {}

std::vector<std::int64_t> LinearTransform::rotations() const {
  std::set<std::int64_t> steps(data_->babies.begin(), data_->babies.end());
  std::size_t below = 0;
  for (const Giant& giant : data_->giants) {
    steps.insert(static_cast<std::int64_t>(giant.step - below));
    below = giant.step;
  }
  steps.erase(0);
  return {steps.begin(), steps.end()};
}

std::size_t LinearTransform::level() const { return data_->level; }

Parameters LinearTransform::parameters() const { return data_->parameters; }

Ciphertext apply(const LinearTransform& transform, const Ciphertext& a, const EvaluationKeys& keys,
                 const Progress& progress) {
  const LinearTransformData& data = transform.data();
  if (!(a.parameters() == data.parameters)) throw MismatchError("the matrix was made for other parameters");
  if (a.level() < data.level)
    throw LevelError("the matrix was made for level " + std::to_string(data.level) + "; this ciphertext is at level " +
                     std::to_string(a.level()));
  const Shape shape = a.shape();
  const std::size_t items = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  Ciphertext x = a.degree() > 1 ? relinearize(a, keys) : a;
  if (x.level() > data.level) x = lower(x, data.level);
  const Ciphertext turned = rotate(reshape(x, {items}), data.babies, keys);
  std::optional<Ciphertext> total;
  for (std::size_t g = data.giants.size(); g-- > 0;) {
    const Giant& giant = data.giants[g];
    total = total ? add(*total, inner(giant, turned)) : inner(giant, turned);
    if (const std::size_t step = giant.step - (g > 0 ? data.giants[g - 1].step : 0); step > 0)
      total = index(rotate(*total, {static_cast<std::int64_t>(step)}, keys), 0, 0);
    if (progress) progress(static_cast<double>(data.giants.size() - g) / static_cast<double>(data.giants.size()));
  }
  CiphertextData result = reshape(rescale(*total), shape).data();
  result.width = data.width > 0 ? data.width : a.slots();
  return finish(std::move(result));
}

}  // namespace heliograph::ckks
