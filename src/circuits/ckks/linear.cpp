// Matrices on slots by diagonals with baby steps and giant steps: one linear sum, whose baby steps share a decomposition.
// A matrix of blocks is one block sum.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/errors.h"
#include "circuits/ckks/slot_matrices.h"
#include "schemes/ckks/block_sum.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

struct LinearTransformData {
  Parameters parameters;
  std::size_t level, width;
  LinearSum sum;
  std::optional<BlockSum> stored;  // in place of `sum` if plaintexts at rest are coefficients
  bool whole;                      // true: the matrix is as large as the period; false: it repeats along the period
  Corner corner;
  MatrixNorms norms;
};

struct BlockTransformData {
  Parameters parameters;
  std::size_t level, width, inputs;
  BlockSum sum;
  bool whole;     // as in LinearTransformData
  Corner corner;  // of all blocks
  std::vector<MatrixNorms> norms;
};

namespace {

Diagonals diagonals_of(const std::vector<std::complex<double>>& matrix, std::size_t size) {
  if (size == 0 || matrix.size() / size != size || matrix.size() % size != 0)
    throw ShapeError("cannot use this matrix: a matrix on " + std::to_string(size) + " slots must have " +
                     std::to_string(size) + " x " + std::to_string(size) + " entries, not " + std::to_string(matrix.size()));
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

std::shared_ptr<const LinearTransformData> made(const Parameters& parameters, const DiagonalViews& given, std::size_t size,
                                                std::size_t level, std::size_t baby, std::size_t width, Storage storage) {
  Context& c = *parameters.context();
  const DiagonalViews diagonals = checked(parameters, given, size);
  level = level_of_product(parameters, level, width);
  const bool whole = size == c.period();
  const Corner corner = corner_of(diagonals, size);
  if (stores(c, diagonals.size(), level, storage))
    return std::make_shared<LinearTransformData>(
        LinearTransformData{parameters, level, width, LinearSum(), block_sum_of(c, {diagonals}, 1, size, level, baby, true),
                            whole, corner, norms_of(diagonals, size)});
  return std::make_shared<LinearTransformData>(LinearTransformData{parameters, level, width,
                                                                   sum_of(c, diagonals, size, level, baby), std::nullopt,
                                                                   whole, corner, norms_of(diagonals, size)});
}

std::shared_ptr<const BlockTransformData> made(const Parameters& parameters, const std::vector<DiagonalViews>& given,
                                               std::size_t inputs, std::size_t size, std::size_t level, std::size_t baby,
                                               std::size_t width, Storage storage) {
  Context& c = *parameters.context();
  if (inputs == 0 || given.empty() || given.size() % inputs != 0)
    throw ShapeError("a matrix of blocks must have at least one input and one output, and one block for each pair");
  level = level_of_product(parameters, level, width);
  BlockTransformData data{parameters, level, width, inputs, {}, size == c.period(), {}, {}};
  Blocks blocks;
  std::size_t terms = 0;
  for (std::size_t at = 0; at < given.size(); ++at) {
    DiagonalViews block = checked(parameters, given[at], size);
    const Corner corner = corner_of(block, size);
    data.corner = {std::max(data.corner.rows, corner.rows), std::max(data.corner.columns, corner.columns)};
    data.norms.push_back(summary_of(norms_of(block, size)));
    // Only the first block of an output may be zero: each output needs a term.
    if (corner.rows == 0 && at % inputs != 0) block.clear();
    terms += block.size();
    blocks.push_back(std::move(block));
  }
  data.sum = block_sum_of(c, blocks, inputs, size, level, baby, stores(c, terms, level, storage));
  return std::make_shared<BlockTransformData>(std::move(data));
}

/// Returns the metadata that results of a matrix product have in addition to those of its sums.
void complete(CiphertextData& result, std::size_t width, bool whole, const Corner& corner) {
  result.width = width;
  if (whole && corner.rows <= width) result.tail = {};
}

std::size_t items_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

/// Applies a block sum to [inputs, ...]. The ranges of the result are unknown.
CiphertextData summed(const BlockSum& sum, const Ciphertext& a, const EvaluationKeys& keys) {
  const CiphertextData& x = a.data();
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  const double scale = x.context->scale(sum.level);
  require_room(x, x.scale * scale);
  Shape shape = x.shape();
  const std::size_t inputs = sum.inputs.size(), items = items_of(shape) / inputs;
  CiphertextData r = derived(x);
  const std::vector<rlwe::Figure> noises = noise_of(sum, x.noise, x.peak() + std::log2(x.scale), key_level_of(sum, keys));
  rlwe::Figure most = noises.front();
  for (const rlwe::Figure& noise : noises) most = rlwe::log2_max(most, noise);
  r.noise = most, r.scale = x.scale * scale, r.ranges = Ranges(), r.complex = x.complex || sum.complex;
  r = rescaled(r, 2, -1e9);
  r.noise = after_keys(r.noise, keys.data());
  shape[0] = sum.outputs;
  r.tensor = apply(sum, x.tensor.reshape({inputs, items}), keys).reshape(shape);
  return r;
}

/// Returns the ranges of the outputs of a matrix of blocks, for operands with the ranges of `x`.
Ranges images(const BlockTransformData& data, const CiphertextData& x) {
  const bool inside = reads_values(x, data.whole, data.corner), uniform = x.ranges.uniform();
  const std::size_t outputs = data.sum.outputs, items = items_of(x.shape()) / data.inputs;
  const std::size_t some = uniform ? 1 : items;
  if (items == 0) return Ranges(Range{});
  std::vector<RangePair> list(outputs * items);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t k = 0; k < some; ++k) {
      RangePair& to = list[o * items + k];
      for (std::size_t i = 0; i < data.inputs; ++i) {
        const RangePair& from = x.ranges.at(uniform ? 0 : i * items + k);
        const MatrixNorms& norms = data.norms[o * data.inputs + i];
        const RangePair image{applied(norms, from.vouched, x.packing(), inside),
                              applied(norms, from.assumed, x.packing(), inside)};
        to = i == 0 ? image : RangePair{sum(to.vouched, image.vouched), sum(to.assumed, image.assumed)};
      }
    }
    for (std::size_t k = some; k < items; ++k) list[o * items + k] = list[o * items];
  }
  if (list.size() <= Ranges::kMost) return Ranges::of(std::move(list));
  RangePair all = list.front();
  for (const RangePair& each : list) all = {merged(all.vouched, each.vouched), merged(all.assumed, each.assumed)};
  return Ranges(all);
}

}  // namespace

LinearTransform::LinearTransform(const Parameters& parameters, const std::vector<std::complex<double>>& matrix,
                                 std::size_t size, std::size_t level, std::size_t baby)
    : LinearTransform(parameters, diagonals_of(matrix, size), size, level, baby) {}

LinearTransform::LinearTransform(const Parameters& parameters, const Diagonals& diagonals, std::size_t size,
                                 std::size_t level, std::size_t baby, std::size_t width)
    : LinearTransform(parameters, views_of(diagonals), size, level, baby, width) {}

LinearTransform::LinearTransform(const Parameters& parameters, const DiagonalViews& diagonals, std::size_t size,
                                 std::size_t level, std::size_t baby, std::size_t width, Storage storage)
    : data_(made(parameters, diagonals, size, level, baby, width, storage)) {}

std::vector<std::int64_t> LinearTransform::rotations() const {
  if (data_->stored) return data_->stored->rotations();
  std::set<std::int64_t> steps(data_->sum.rotations.begin(), data_->sum.rotations.end());
  steps.erase(0);
  return {steps.begin(), steps.end()};
}

std::size_t LinearTransform::level() const { return data_->level; }

std::size_t LinearTransform::bytes() const { return data_->stored ? data_->stored->bytes() : data_->sum.plaintexts.bytes(); }

Parameters LinearTransform::parameters() const { return data_->parameters; }

BlockTransform::BlockTransform(const Parameters& parameters, const std::vector<DiagonalViews>& blocks, std::size_t inputs,
                               std::size_t size, std::size_t level, std::size_t baby, std::size_t width, Storage storage)
    : data_(made(parameters, blocks, inputs, size, level, baby, width, storage)) {}

std::vector<std::int64_t> BlockTransform::rotations() const { return data_->sum.rotations(); }

std::size_t BlockTransform::level() const { return data_->level; }

std::size_t BlockTransform::inputs() const { return data_->inputs; }

std::size_t BlockTransform::outputs() const { return data_->sum.outputs; }

std::size_t BlockTransform::bytes() const { return data_->sum.bytes(); }

Parameters BlockTransform::parameters() const { return data_->parameters; }

Ciphertext apply(const LinearTransform& transform, const Ciphertext& a, const EvaluationKeys& keys) {
  const LinearTransformData& data = transform.data();
  const Ciphertext known = operand_of_product(a, data.parameters, data.level, data.whole, data.corner);
  const Shape shape = a.shape();
  const Ciphertext x = lower(of_degree_one(known, keys), data.level);
  const Packing packing = known.data().packing();
  const bool inside = reads_values(known.data(), data.whole, data.corner);
  const Ranges image = known.data().ranges.map([&](const Range& r) { return applied(data.norms, r, packing, inside); });
  CiphertextData result;
  if (data.stored) {
    result = summed(*data.stored, reshape(x, {1, items_of(shape)}), keys);
    result.tensor = result.tensor.reshape(shape), result.ranges = image;
  } else {
    result = reshape(apply(data.sum, reshape(x, {items_of(shape)}), keys), shape).data();
    result.ranges = Ranges::both(result.ranges, shape, image, shape, shape, narrowed);
  }
  complete(result, data.width > 0 ? data.width : a.slots(), data.whole, data.corner);
  return finish(std::move(result));
}

Ciphertext apply(const BlockTransform& transform, const Ciphertext& a, const EvaluationKeys& keys) {
  const BlockTransformData& data = transform.data();
  const Shape shape = a.shape();
  if (shape.empty() || shape[0] != data.inputs)
    throw ShapeError("a matrix of blocks with " + std::to_string(data.inputs) +
                     " inputs takes a tensor with as many ciphertexts along its first axis, not one of shape " +
                     ring::to_string(shape));
  const Ciphertext known = operand_of_product(a, data.parameters, data.level, data.whole, data.corner);
  const Ciphertext x = lower(of_degree_one(known, keys), data.level);
  CiphertextData result = summed(data.sum, x, keys);
  result.ranges = images(data, known.data());
  complete(result, data.width > 0 ? data.width : a.slots(), data.whole, data.corner);
  return finish(std::move(result));
}

}  // namespace heliograph::ckks
