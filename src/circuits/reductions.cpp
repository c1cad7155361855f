// Sums along axes and matrix products, as a few computations over whole tensors.
#include <algorithm>

#include "base/errors.h"
#include "circuits/operands.h"
#include "heliograph/tfhe.h"
#include "schemes/tfhe/context.h"

namespace heliograph::tfhe {

namespace {

constexpr std::size_t kProductBits = 512;  // of the operands on one side of a dot product's circuit

/// A part of the way: from `first` on, `share` of all.
Progress stretch(const Progress& progress, double first, double share) {
  if (!progress) return {};
  return [=](double done) { progress(first + share * done); };
}

std::vector<std::size_t> moved(std::size_t axes, std::size_t from, std::size_t to) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < axes; ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), from);
  return order;
}

Shape with_axis(Shape shape, std::size_t axis) {
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return shape;
}

/// Entries start, start + 1, ... of an axis, which stays.
Ciphertext piece(const Ciphertext& a, std::size_t axis, std::size_t start, std::size_t count) {
  return slice(a, axis, start, 1, count);
}

/// Turned along an axis: entry i is what was entry i + steps.
Ciphertext turned(const Ciphertext& a, std::size_t axis, std::size_t steps) {
  const std::size_t length = a.shape()[axis];
  steps %= length;
  if (steps == 0) return a;
  return concatenate({piece(a, axis, steps, length - steps), piece(a, axis, 0, steps)}, axis);
}

/// Row i (along `axis`) turned by i along `along`.
Ciphertext skewed(const Ciphertext& a, std::size_t axis, std::size_t along) {
  std::vector<Ciphertext> rows;
  for (std::size_t i = 0; i < a.shape()[axis]; ++i) rows.push_back(turned(piece(a, axis, i, 1), along, i));
  return concatenate(rows, axis);
}

Ciphertext cannon(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const Operation& operation,
                  const Progress& progress) {
  const std::size_t rows = a.shape().size() - 2, columns = a.shape().size() - 1, n = a.shape()[columns];
  const std::size_t rows_b = b.shape().size() - 2, columns_b = rows_b + 1;
  if (n == 0 || a.shape()[rows] != n || b.shape()[rows_b] != n || b.shape()[columns_b] != n)
    throw ShapeError("Cannon's algorithm multiplies square matrices of one size");
  Operation product = operation;
  product.name = "multiply";
  if (a.data().tensor.items() == 0 || b.data().tensor.items() == 0)  // of the same shape, and there is nothing to turn
    return compute(keys, product, {a, b})[0];
  const Operation add{.name = "add", .goal = operation.goal};
  const double share = 1.0 / static_cast<double>(n);
  // Skewed matrices are copies: of one matrix they would meet themselves unknown.
  const bool shares = a.data().tensor.shares_storage(b.data().tensor);
  const Ciphertext right = shares ? compute(keys, {.name = "refresh"}, {b})[0] : b;
  Ciphertext x = skewed(a, rows, columns), y = skewed(right, columns_b, rows_b), total;
  for (std::size_t cycle = 0; cycle < n; ++cycle) {
    const Ciphertext p = compute(keys, product, {x, y}, stretch(progress, share * static_cast<double>(cycle), share))[0];
    total = cycle ? compute(keys, add, {total, p})[0] : p;
    if (cycle + 1 < n) x = turned(x, columns, 1), y = turned(y, rows_b, 1);
  }
  return total;
}

/// Sum of products along the axis `back` places from the end, of operands that broadcast otherwise.
Ciphertext dot_along(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, std::size_t back,
                     const Operation& operation, const Progress& progress) {
  const std::size_t axis_a = a.shape().size() - back, axis_b = b.shape().size() - back, length = a.shape()[axis_a];
  const std::size_t most = std::max<std::size_t>(2, kProductBits / std::max(1U, a.type().bits));
  const std::size_t pairs = std::min(length, most), groups = length / pairs, rest = length - groups * pairs;
  Operation dot = operation;
  dot.name = "dot";
  std::vector<Ciphertext> operands;
  for (std::size_t i = 0; i < pairs; ++i) operands.push_back(piece(a, axis_a, i * groups, groups));
  for (std::size_t i = 0; i < pairs; ++i) operands.push_back(piece(b, axis_b, i * groups, groups));
  const double share = static_cast<double>(length - rest) / static_cast<double>(length);
  Ciphertext sums = compute(keys, dot, operands, stretch(progress, 0, 0.9 * share))[0];
  const std::size_t axis = sums.shape().size() - back;
  if (rest) {
    const Ciphertext last = dot_along(keys, piece(a, axis_a, length - rest, rest), piece(b, axis_b, length - rest, rest),
                                      back, operation, stretch(progress, 0.9 * share, 0.9 * (1 - share)));
    sums = concatenate({sums, reshape(last, with_axis(last.shape(), axis))}, axis);
  }
  return sum(keys, sums, axis, sums.type(), stretch(progress, 0.9, 0.1));
}

}  // namespace

Ciphertext sum(const EvaluationKeys& keys, const Ciphertext& a, std::size_t axis, Type type, const Progress& progress) {
  if (axis >= a.shape().size()) throw ShapeError("there is no axis " + std::to_string(axis) + " to sum along");
  std::size_t length = a.shape()[axis];
  if (a.type().boolean && type.boolean) throw DtypeError("a sum of booleans needs an integer type for its result");
  const Type result = a.type().boolean ? type : a.type();
  if (length == 0) {
    Shape shape = a.shape();
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return broadcast_to(trivial(keys, {0}, {}, result), shape);
  }
  const Operation add{.name = "sum", .type = result};
  if (length > 1 && a.data().tensor.view().stride[axis] == 0) {  // one element again and again: copies of one noise
    const Operation times{.name = "multiply", .arguments = {static_cast<std::int64_t>(length)}};
    return compute(keys, times, compute(keys, add, {index(a, axis, 0)}), progress)[0];
  }
  Ciphertext left = a;
  const auto round = [&](const Ciphertext& x, const Progress& p) {
    const std::size_t n = x.shape()[axis], terms = std::min(n, circuits::kSumTerms), groups = n / terms,
                      rest = n - groups * terms;
    std::vector<Ciphertext> operands;
    for (std::size_t i = 0; i < terms; ++i) operands.push_back(piece(x, axis, i * groups, groups));
    std::vector<Ciphertext> sums = compute(keys, add, operands, p);
    if (rest) {
      operands.clear();
      for (std::size_t i = 0; i < rest; ++i) operands.push_back(piece(x, axis, groups * terms + i, 1));
      sums.push_back(compute(keys, add, operands)[0]);
    }
    return sums.size() == 1 ? sums[0] : concatenate(sums, axis);
  };
  // Nearly all of the work is in the first round.
  double done = 0;
  do {
    const double share = length > circuits::kSumTerms ? (1 - done) * 0.9 : 1 - done;
    left = round(left, stretch(progress, done, share));
    done += share;
    length = left.shape()[axis];
  } while (length > 1);
  return index(left, axis, 0);
}

Ciphertext matmul(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const std::string& algorithm,
                  const Operation& operation, const Progress& progress) {
  if (!algorithm.empty() && algorithm != "cannon")
    throw ParameterError("there is no matrix product \"" + algorithm + "\"; there is \"cannon\", or none for the default");
  const std::size_t axes_a = a.shape().size(), axes_b = b.shape().size();
  if (axes_a < 2 || axes_b < 2) throw ShapeError("a matrix product takes tensors of at least two axes");
  const std::size_t length = a.shape()[axes_a - 1];
  if (length != b.shape()[axes_b - 2])
    throw ShapeError("a matrix product of rows of " + std::to_string(length) + " and columns of " +
                     std::to_string(b.shape()[axes_b - 2]));
  if (!(a.type() == b.type()) || a.type().boolean)
    throw DtypeError("matmul takes integers of one type, not " + a.type().text() + " and " + b.type().text() +
                     "; convert one with .astype");
  if (length == 0) throw ShapeError("a matrix product of empty rows");
  if (algorithm == "cannon") return cannon(keys, a, b, operation, progress);
  // [..., K, M, 1] by [..., K, 1, N]
  const Ciphertext across = transpose(a, moved(axes_a, axes_a - 1, axes_a - 2));
  const Ciphertext x = reshape(across, with_axis(across.shape(), axes_a)), y = reshape(b, with_axis(b.shape(), axes_b - 1));
  return dot_along(keys, x, y, 3, operation, progress);
}

}  // namespace heliograph::tfhe
