// Sums along axes and matrix products, as a few computations on whole tensors.
#include <algorithm>

#include "base/errors.h"
#include "base/progress.h"
#include "circuits/operands.h"
#include "heliograph/tfhe.h"
#include "schemes/tfhe/context.h"

namespace heliograph::tfhe {

namespace {

constexpr std::size_t kProductBits = 512;  // limit on the bits of one side's operands in the circuit of a dot product

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

/// Returns the entries of an axis from `start` on, and keeps the axis.
Ciphertext piece(const Ciphertext& a, std::size_t axis, std::size_t start, std::size_t count) {
  return slice(a, axis, start, 1, count);
}

/// Rotates along an axis: entry i of the result is entry i + steps.
Ciphertext turned(const Ciphertext& a, std::size_t axis, std::size_t steps) {
  const std::size_t length = a.shape()[axis];
  steps %= length;
  if (steps == 0) return a;
  return concatenate({piece(a, axis, steps, length - steps), piece(a, axis, 0, steps)}, axis);
}

/// Rotates the i-th entry along `axis` by i along the axis `along`.
Ciphertext skewed(const Ciphertext& a, std::size_t axis, std::size_t along) {
  std::vector<Ciphertext> rows;
  for (std::size_t i = 0; i < a.shape()[axis]; ++i) rows.push_back(turned(piece(a, axis, i, 1), along, i));
  return concatenate(rows, axis);
}

Ciphertext cannon(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const Operation& operation) {
  const std::size_t rows = a.shape().size() - 2, columns = a.shape().size() - 1, n = a.shape()[columns];
  const std::size_t rows_b = b.shape().size() - 2, columns_b = rows_b + 1;
  if (n == 0 || a.shape()[rows] != n || b.shape()[rows_b] != n || b.shape()[columns_b] != n)
    throw ShapeError("Cannon's algorithm needs square matrices of equal size");
  Operation product = operation;
  product.name = "multiply";
  if (a.data().tensor.items() == 0 || b.data().tensor.items() == 0)  // the result is empty
    return compute(keys, product, {a, b})[0];
  const Operation add{.name = "add", .goal = operation.goal};
  ProgressSteps steps(n);
  // Skewed matrices are copies. If both operands are copies of one matrix, the circuits would not detect that the copies
  // have equal noise.
  const bool shares = a.data().tensor.shares_storage(b.data().tensor);
  const Ciphertext right = shares ? compute(keys, {.name = "refresh"}, {b})[0] : b;
  Ciphertext x = skewed(a, rows, columns), y = skewed(right, columns_b, rows_b), total;
  for (std::size_t cycle = 0; cycle < n; ++cycle) {
    const Ciphertext p = steps.part(1, [&] { return compute(keys, product, {x, y}); })[0];
    total = cycle ? compute(keys, add, {total, p})[0] : p;
    if (cycle + 1 < n) x = turned(x, columns, 1), y = turned(y, rows_b, 1);
  }
  return total;
}

/// Returns the sum of products along the axis at position `back` from the end; other axes broadcast.
Ciphertext dot_along(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, std::size_t back,
                     const Operation& operation) {
  const std::size_t axis_a = a.shape().size() - back, axis_b = b.shape().size() - back, length = a.shape()[axis_a];
  const std::size_t most = std::max<std::size_t>(2, kProductBits / std::max(1U, a.type().bits));
  const std::size_t pairs = std::min(length, most), groups = length / pairs, rest = length - groups * pairs;
  Operation dot = operation;
  dot.name = "dot";
  std::vector<Ciphertext> operands;
  for (std::size_t i = 0; i < pairs; ++i) operands.push_back(piece(a, axis_a, i * groups, groups));
  for (std::size_t i = 0; i < pairs; ++i) operands.push_back(piece(b, axis_b, i * groups, groups));
  const double share = static_cast<double>(length - rest) / static_cast<double>(length);
  ProgressSteps steps(1);
  Ciphertext sums = steps.part(0.9 * share, [&] { return compute(keys, dot, operands); })[0];
  const std::size_t axis = sums.shape().size() - back;
  if (rest) {
    const Ciphertext last = steps.part_until(0.9, [&] {
      return dot_along(keys, piece(a, axis_a, length - rest, rest), piece(b, axis_b, length - rest, rest), back, operation);
    });
    sums = concatenate({sums, reshape(last, with_axis(last.shape(), axis))}, axis);
  }
  return steps.part_until(1, [&] { return sum(keys, sums, axis, sums.type()); });
}

}  // namespace

Ciphertext sum(const EvaluationKeys& keys, const Ciphertext& a, std::size_t axis, Type type) {
  if (axis >= a.shape().size()) throw ShapeError("axis out of range: no axis " + std::to_string(axis) + " to sum along");
  std::size_t length = a.shape()[axis];
  if (a.type().boolean && type.boolean) throw DtypeError("a sum of booleans needs an integer type for its result");
  const Type result = a.type().boolean ? type : a.type();
  if (length == 0) {
    Shape shape = a.shape();
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return broadcast_to(trivial(keys, {0}, {}, result), shape);
  }
  const Operation add{.name = "sum", .type = result};
  if (length > 1 &&
      a.data().tensor.view().stride[axis] == 0) {  // broadcasting repeats one element, so all copies have the same noise
    const Operation times{.name = "multiply", .arguments = {static_cast<std::int64_t>(length)}};
    ProgressSteps steps(1);
    const std::vector<Ciphertext> one = compute(keys, add, {index(a, axis, 0)});
    return steps.part(1, [&] { return compute(keys, times, one); })[0];
  }
  Ciphertext left = a;
  const auto round = [&](const Ciphertext& x) {
    const std::size_t n = x.shape()[axis], terms = std::min(n, circuits::kSumTerms), groups = n / terms,
                      rest = n - groups * terms;
    std::vector<Ciphertext> operands;
    for (std::size_t i = 0; i < terms; ++i) operands.push_back(piece(x, axis, i * groups, groups));
    ProgressSteps steps(1);
    std::vector<Ciphertext> sums = steps.part(1, [&] { return compute(keys, add, operands); });
    if (rest) {
      operands.clear();
      for (std::size_t i = 0; i < rest; ++i) operands.push_back(piece(x, axis, groups * terms + i, 1));
      sums.push_back(compute(keys, add, operands)[0]);
    }
    return sums.size() == 1 ? sums[0] : concatenate(sums, axis);
  };
  // The first round does nearly all of the work, so progress counts most of it.
  ProgressSteps steps(1);
  double remaining = 1;
  do {
    remaining = length > circuits::kSumTerms ? remaining * 0.1 : 0;
    left = steps.part_until(1 - remaining, [&] { return round(left); });
    length = left.shape()[axis];
  } while (length > 1);
  return index(left, axis, 0);
}

Ciphertext matmul(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const std::string& algorithm,
                  const Operation& operation) {
  if (!algorithm.empty() && algorithm != "cannon")
    throw ParameterError("unknown algorithm \"" + algorithm + "\": it must be \"cannon\", or empty for the default");
  const std::size_t axes_a = a.shape().size(), axes_b = b.shape().size();
  if (axes_a < 2 || axes_b < 2) throw ShapeError("the operands of a matrix product must have at least two axes");
  const std::size_t length = a.shape()[axes_a - 1];
  if (length != b.shape()[axes_b - 2])
    throw ShapeError("shapes do not match: rows have " + std::to_string(length) + " elements, columns " +
                     std::to_string(b.shape()[axes_b - 2]));
  if (!(a.type() == b.type()) || a.type().boolean)
    throw DtypeError("matmul needs integers of one type, not " + a.type().text() + " and " + b.type().text() +
                     "; convert one with .astype");
  if (length == 0) throw ShapeError("the rows of a matrix product must not be empty");
  if (algorithm == "cannon") return cannon(keys, a, b, operation);
  // The product of [..., K, M, 1] and [..., K, 1, N], summed over K.
  const Ciphertext across = transpose(a, moved(axes_a, axes_a - 1, axes_a - 2));
  const Ciphertext x = reshape(across, with_axis(across.shape(), axes_a)), y = reshape(b, with_axis(b.shape(), axes_b - 1));
  return dot_along(keys, x, y, 3, operation);
}

}  // namespace heliograph::tfhe
