// Operations of ciphertexts with numbers, and operations that change a tensor's shape.
#include <algorithm>
#include <cmath>
#include <functional>

#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

std::vector<std::complex<double>> broadcast_numbers(const Values& values, const RnsTensor& wide) {
  require<ShapeError>(values.width == 1, "values must have one number for each ciphertext");
  return ring::broadcast_values(values.data, values.shape, wide);
}

/// Returns the range after multiplication by a real number with known bounds; several numbers share one range.
Range times_one_of(const Range& a, const Range& number) {
  const Range r = scaled(a, number.high);
  return number.low == number.high ? r : merged(r, scaled(a, number.low));
}

bool uniform(const std::vector<std::complex<double>>& numbers) {
  return std::equal(numbers.begin() + (numbers.empty() ? 0 : 1), numbers.end(), numbers.begin());
}

/// Returns the scale of a factor. 0 selects the divisor of the next rescaling.
double factor_scale(const CiphertextData& x, double scale) {
  if (scale == 0) {
    if (x.level == 1) throw LevelError("level 1 is the lowest, so only multiplication by integers is left (scale=1)");
    const Context& c = *x.context;
    scale = c.ratio(x.level) * (c.scale(x.level - 1) / x.scale);
  }
  require<ScaleError>(std::isfinite(scale) && scale >= 1, "a scale must be a finite number of at least 1");
  return scale;
}

}  // namespace

RnsTensor plus_numbers(Context& c, const RnsTensor& x, double scale, const std::vector<std::complex<double>>& numbers,
                       bool over) {
  if (std::any_of(numbers.begin(), numbers.end(), [](const auto& v) { return v.imag() != 0; })) {
    const std::size_t n = c.spec().n;
    std::vector<double> polynomials(numbers.size() * n);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      polynomials[i * n] = std::rint(numbers[i].real() * scale);
      polynomials[i * n + n / 2] = std::rint(numbers[i].imag() * scale);
    }
    const RnsTensor sums = ring::to_domain(upload_polynomials(c, polynomials, x.primes()), Domain::ntt);
    return ring::add(x, sums.reshape(x.shape()), over);
  }
  const std::vector<u64> moduli = c.rlwe().moduli(x.primes());
  if (const double whole = numbers.empty() ? 0 : std::rint(numbers[0].real() * scale); uniform(numbers) && whole != 0)
    return ring::weighted_sum({{x, constants_of(1, moduli)}}, constants_of(whole, moduli), over);
  const RnsTensor out = over && x.dense() ? x : ring::copy(x);
  for (std::size_t i = 0, end; i < numbers.size(); i = end) {  // one encoding for each run of equal numbers
    for (end = i + 1; end < numbers.size() && numbers[end] == numbers[i];) ++end;
    const double whole = std::rint(numbers[i].real() * scale);
    if (whole != 0) ring::add_constant_in_place(out, i, end - i, constants_of(whole, moduli));
  }
  return out;
}

Ciphertext add_constants(const Ciphertext& a, const Values& values) { return plus_constants(a, values, false); }

CiphertextData plus_figures(const CiphertextData& x, const Values& values, const Shape& shape) {
  check_values(*x.context, values, x.level, x.scale);
  CiphertextData r = derived(x);
  r.complex = x.complex || values.complex;
  r.noise = both(x.noise, 0);  // rounding errors of two coefficients
  r.tail = x.tail.with(x.shape(), values.data, values.shape, shape, std::plus<>());
  const bool complex = r.complex;
  r.ranges =
      Ranges::both(x.ranges, x.shape(), ranges_of_numbers(values.data), values.shape, shape,
                   [&](const Range& a, const Range& b) { return complex ? sum(magnitudes(a), magnitudes(b)) : sum(a, b); });
  return r;
}

Ciphertext plus_constants(const Ciphertext& a, const Values& values, bool over) {
  const CiphertextData& x = a.data();
  const Shape shape = ring::broadcast_shapes(x.shape(), values.shape);
  const std::vector<std::complex<double>> numbers = broadcast_numbers(values, x.tensor.broadcast_to(shape));
  CiphertextData r = plus_figures(x, values, shape);
  r.tensor = plus_numbers(*x.context, x.tensor.broadcast_to(shape), x.scale, numbers, over);
  return finish(std::move(r));
}

CiphertextData times_figures(const CiphertextData& x, const Values& values, const Shape& shape,
                             const std::vector<std::complex<double>>& numbers, double& scale) {
  scale = factor_scale(x, scale);
  const double largest = largest_of(values);
  if (std::any_of(numbers.begin(), numbers.end(), [](const auto& v) { return v.imag() != 0; }))
    throw DtypeError("a factor for a whole ciphertext must be real; multiply by i with multiply_i, or encode a plaintext");
  require_room(x, x.scale * scale * std::max(1.0, largest));
  CiphertextData r = derived(x);
  r.scale = x.scale * scale;
  const double factor = std::max(largest * scale, 1.0);
  r.noise = x.noise.times(std::log2(factor));
  if (std::any_of(numbers.begin(), numbers.end(),
                  [&](const auto& v) { return std::rint(v.real() * scale) != v.real() * scale; }))
    r.noise = both(r.noise, x.peak() + std::log2(x.scale) - 1);
  r.tail = x.tail.with(x.shape(), values.data, values.shape, shape, std::multiplies<>());
  r.ranges = Ranges::both(x.ranges, x.shape(), ranges_of_numbers(values.data), values.shape, shape,
                          [](const Range& a, const Range& b) { return times_one_of(a, b); });
  return r;
}

Ciphertext multiply_constants(const Ciphertext& a, const Values& values, double scale) {
  const CiphertextData& x = a.data();
  Context& c = *x.context;
  const Shape shape = ring::broadcast_shapes(x.shape(), values.shape);
  const RnsTensor in = x.tensor.broadcast_to(shape);
  const std::vector<std::complex<double>> numbers = broadcast_numbers(values, in);
  CiphertextData r = times_figures(x, values, shape, numbers, scale);
  if (uniform(numbers)) {
    r.tensor = numbers.empty() ? in : times_whole(c, in, std::rint(numbers[0].real() * scale));
    return finish(std::move(r));
  }
  ring::Engine& e = c.engine();
  const std::vector<u64> moduli = c.rlwe().moduli(in.primes());
  r.tensor = RnsTensor(c.rlwe().engine(), shape, in.components(), in.primes(), Domain::ntt);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    e.enqueue(device::MulConstants{e.prepared(), in.primes(), in.view().item(i),
                                   constants_of(std::rint(numbers[i].real() * scale), moduli), r.tensor.view().item(i)});
  }
  return finish(std::move(r));
}

Ciphertext matmul(const std::vector<double>& weights, std::size_t rows, std::size_t columns, const Ciphertext& a,
                  double scale) {
  const CiphertextData& x = a.data();
  Context& c = *x.context;
  scale = factor_scale(x, scale);
  require<ShapeError>(weights.size() == checked_mul(rows, columns), "the number of weights must be rows x columns");
  std::vector<math::i64> whole;
  whole.reserve(weights.size());
  double most = 0, most_whole = 0, row = 0, row_whole = 0;  // sums of the weights' magnitudes, one per row
  bool rounded = false;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] * scale, v = std::rint(exact);
    if (!(std::abs(v) < 0x1p63))
      throw PlaintextRangeError(
          "a weight times its scale, " + std::to_string(std::log2(scale)) +
          " bits, exceeds 63 bits; divide the matrix by a power of two and multiply the product by it");
    if (i % columns == 0) row = row_whole = 0;
    most = std::max(most, row += std::abs(weights[i])), most_whole = std::max(most_whole, row_whole += std::abs(v));
    rounded = rounded || v != exact;
    whole.push_back(static_cast<math::i64>(v));
  }
  require_room(x, x.scale * scale * std::max(1.0, most));
  CiphertextData r = derived(x);
  r.scale = x.scale * scale;
  r.noise = x.noise.times(std::log2(std::max(1.0, most_whole)));
  if (rounded) r.noise = both(r.noise, x.peak() + std::log2(x.scale) - 1 + std::log2(static_cast<double>(columns)));
  Shape shape = x.shape();
  const auto product = c.engine().product(ring::matrix_product(c.engine(), std::move(whole), rows, columns, shape));
  const auto none = [](std::size_t) { return std::complex<double>(0); };
  const auto times = [&](std::size_t weight, std::complex<double> number) { return weights[weight] * number; };
  r.tail = x.tail.gathered(product->product(), false, none, times, std::plus<>());
  r.ranges = x.ranges.gathered(weights, product->product());
  shape[0] = rows;
  r.tensor = ring::gathered_product(x.tensor, product, shape);
  return finish(std::move(r));
}

namespace {

/// Rearranges the ciphertexts of a tensor. A reshape preserves their order, so the result remains a fresh encryption.
Ciphertext arranged(const Ciphertext& a, RnsTensor tensor, bool in_order, Tail tail, Ranges ranges) {
  CiphertextData r = in_order ? a.data() : derived(a.data());
  r.tensor = std::move(tensor);
  r.tail = std::move(tail);
  r.ranges = std::move(ranges);
  return finish(std::move(r));
}

}  // namespace

Ciphertext reshape(const Ciphertext& a, const Shape& shape) {
  return arranged(a, a.data().tensor.reshape(shape), true, a.data().tail, a.data().ranges);
}
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order) {
  const CiphertextData& x = a.data();
  RnsTensor turned = x.tensor.transpose(order);  // throws for invalid orders
  return arranged(a, std::move(turned), false, x.tail.transposed(x.shape(), order), x.ranges.transposed(x.shape(), order));
}
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
  const CiphertextData& x = a.data();
  RnsTensor some = x.tensor.slice(axis, start, step, count);
  return arranged(a, std::move(some), false, x.tail.sliced(x.shape(), axis, start, step, count),
                  x.ranges.sliced(x.shape(), axis, start, step, count));
}
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position) {
  require<ShapeError>(axis < a.shape().size() && position < a.shape()[axis], "an index is out of range");
  return arranged(a, a.data().tensor.drop_axis(axis, position), false, a.data().tail.sliced(a.shape(), axis, position, 1, 1),
                  a.data().ranges.sliced(a.shape(), axis, position, 1, 1));
}
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape) {
  RnsTensor wide = a.data().tensor.broadcast_to(shape);
  return arranged(a, std::move(wide), false, a.data().tail.broadcast(a.shape(), shape),
                  a.data().ranges.broadcast(a.shape(), shape));
}

Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis) {
  require<ShapeError>(!parts.empty(), "concatenate needs at least one tensor");
  std::size_t level = parts.front().level(), width = 0;
  for (const Ciphertext& p : parts) {
    require_same(p.data(), parts.front().data().context, parts.front().data().key, "the other tensor");
    width = std::max(width, p.slots());
  }
  std::vector<Ciphertext> wide;
  for (const Ciphertext& p : parts) {
    wide.push_back(of_width(p, width));
    level = std::min(level, wide.back().level());
  }
  CiphertextData r;
  std::vector<RnsTensor> tensors;
  Shape shape;
  for (const Ciphertext& p : wide) {
    const Ciphertext low = lower(p, level);
    CiphertextData x = derived(low.data());
    x.tail = low.data().tail;
    x.ranges = x.ranges.map([&](const Range& a) { return p.slots() < width ? moved(a, low.data().packing(), x.tail) : a; });
    if (tensors.empty()) r = x;
    require_scales(x.scale, r.scale);
    if (tensors.empty()) {
      shape = p.shape();
    } else if (const Shape more = p.shape();
               axis < shape.size() && more.size() == shape.size()) {  // other shapes are refused below
      r.tail = Tail::joined(r.tail, shape, x.tail, more, axis);
      r.ranges = Ranges::joined(r.ranges, shape, x.ranges, more, axis);
      shape[axis] += more[axis];
    }
    settle_scale(x, r.scale);
    r.width = std::max(r.width, x.width);
    r.complex = r.complex || x.complex;
    r.guards = Guards::joined(r.guards, x.guards);
    r.noise = larger(r.noise, x.noise);
    tensors.push_back(low.data().tensor);
  }
  r.tensor = ring::concatenate(tensors, axis);
  return finish(std::move(r));
}

}  // namespace heliograph::ckks
