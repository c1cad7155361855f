// Matrix products, convolutions and sums with plaintext weights, each as one gathered modular product; operations on
// shapes.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/checked.h"
#include "base/progress.h"
#include "schemes/exact/encode.h"
#include "schemes/exact/linear.h"
#include "schemes/exact/tails.h"

namespace heliograph::exact {

namespace {

/// Returns the largest row sum of |weights| (exponent 1), or the root of the largest row sum of squares (exponent 2).
double largest_row(const GatheredProduct& p, int exponent) {
  double largest = 1;
  for (std::size_t row = 0; row * p.terms < p.weights.size(); ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < p.terms; ++k)
      sum += std::pow(std::abs(static_cast<double>(p.weights[row * p.terms + k])), exponent);
    largest = std::max(largest, exponent == 2 ? std::sqrt(sum) : sum);
  }
  return largest;
}

/// Returns the largest row sum of |weights|, exactly.
Magnitude largest_row_sum(const GatheredProduct& p) {
  Magnitude largest;
  for (std::size_t row = 0; row * p.terms < p.weights.size(); ++row) {
    math::u128 sum = 0;
    for (std::size_t k = 0; k < p.terms; ++k) sum += magnitude_of(p.weights[row * p.terms + k]);
    Magnitude exact = static_cast<u64>(sum);
    if (sum >> 64)
      exact = exact + Magnitude(u64{1} << 32) * Magnitude(u64{1} << 32) * Magnitude(static_cast<u64>(sum >> 64));
    largest = larger(largest, exact);
  }
  return largest;
}

/// Returns the largest magnitude of biases. A bias is an integer, or its residues modulo each plaintext modulus; such
/// residues stand for the integer of smallest magnitude.
Magnitude largest_bias(const Context& c, const std::vector<std::int64_t>& bias, std::size_t rows) {
  Magnitude largest;
  if (bias.size() <= rows) {
    for (const std::int64_t v : bias) largest = larger(largest, magnitude_of(v));
    return largest;
  }
  const Magnitude all = Magnitude::product_of(c.spec().plain_moduli);
  for (std::size_t row = 0; row < rows; ++row) {
    Magnitude value, weight = 1;  // mixed radix: each step makes `value` correct modulo one more modulus
    for (std::size_t i = 0; i < c.parts(); ++i) {
      const u64 t = c.plain(i).t;
      const auto modulo = [t](const Magnitude& m) {
        u64 rest = 0;
        for (std::size_t k = m.words().size(); k-- > 0;)
          rest = static_cast<u64>(((math::u128{rest} << 64) + m.words()[k]) % t);
        return rest;
      };
      const u64 wanted = math::signed_mod(bias[i * rows + row], t), missing = math::sub_mod(wanted, modulo(value), t);
      value = value + weight * math::mul_mod(missing, math::inverse_mod(modulo(weight) % t, t), t);
      weight = weight * t;
    }
    largest = larger(largest, value <= c.most() ? value : all - value);
  }
  return largest;
}

/// Returns whether every output combines inputs, and no two outputs are the same combination.
bool outputs_distinct(const GatheredProduct& p) {
  std::set<std::vector<std::int64_t>> rows;
  std::set<std::vector<math::u32>> windows;
  for (std::size_t g = 0; g < p.groups; ++g) {
    rows.clear();
    for (std::size_t m = 0; m < p.outputs; ++m) {
      const auto first = p.weights.begin() + static_cast<std::ptrdiff_t>((g * p.outputs + m) * p.terms);
      std::vector<std::int64_t> row(first, first + static_cast<std::ptrdiff_t>(p.terms));
      if (std::all_of(row.begin(), row.end(), [](std::int64_t w) { return w == 0; }) || !rows.insert(std::move(row)).second)
        return false;
    }
    for (std::size_t at = 0; at < p.positions; ++at) {
      const auto first = p.index.begin() + static_cast<std::ptrdiff_t>((g * p.positions + at) * p.terms);
      if (!windows.insert({first, first + static_cast<std::ptrdiff_t>(p.terms)}).second) return false;
    }
  }
  return true;
}

/// Returns whether at most one output uses each input.
bool inputs_disjoint(const GatheredProduct& p) {
  if (p.outputs > 1) return false;
  std::vector<bool> used(p.inputs);
  for (math::u32 i : p.index) {
    if (i == GatheredProduct::kNone) continue;
    if (used[i]) return false;
    used[i] = true;
  }
  return true;
}

/// Replaces the weights by the smallest integers congruent modulo t.
GatheredProduct reduced(GatheredProduct product, u64 t) {
  for (std::int64_t& w : product.weights) w = math::centered(math::signed_mod(w, t), t);
  return product;
}

Ciphertext apply(const Ciphertext& x, const GatheredProduct& product, const Shape& shape,
                 const std::vector<std::int64_t>& bias) {
  CiphertextData r = derived_by(x.data(), product, bias);
  ProgressSteps steps(x.data().parts.size());
  for (std::size_t part = 0; part < x.data().parts.size(); ++part) {
    r.parts.push_back(steps.part(1, [&] { return product_of(x.data(), part, product, shape, bias); }));
    r.tails[part] = tail_of(x.data(), part, product, bias);
  }
  return finish(std::move(r));
}

}  // namespace

CiphertextData derived_by(const CiphertextData& x, const GatheredProduct& product, const std::vector<std::int64_t>& bias) {
  product.check();
  CiphertextData r = derived(x);
  r.bounds = x.bounds.times(largest_row_sum(product)).plus(largest_bias(*x.context, bias, product.groups * product.outputs));
  r.independent = x.independent && inputs_disjoint(product);
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const GatheredProduct used = reduced(product, x.context->plain(x.first_part + part).t);
    r.distinct = r.distinct && outputs_distinct(used);
    r.noise[part] += std::log2(largest_row(used, x.independent ? 2 : 1));
    if (!bias.empty()) r.noise[part] = rlwe::log2_sum(r.noise[part], x.context->rules().integer_noise(x.first_part + part));
  }
  return r;
}

RnsTensor product_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product, const Shape& shape,
                     const std::vector<std::int64_t>& bias) {
  Context& c = *x.context;
  const std::size_t modulus = x.first_part + part, rows = bias.empty() ? 0 : shape.front();
  const auto prepared = c.engine().product(reduced(product, c.plain(modulus).t));
  const RnsTensor out = ring::gathered_product(x.parts[part], prepared, shape);
  const std::int64_t* values = bias.data() + (bias.size() > rows ? modulus * rows : 0);
  for (std::size_t i = 0; i < rows && out.items() > 0; ++i) {
    if (values[i] == 0) continue;
    const std::size_t inner = out.items() / rows;
    const u64 residue = math::signed_mod(values[i], c.plain(modulus).t);
    ring::add_constant_in_place(out, i * inner, inner, scaled_constant(c, modulus, x.level(), x.factors[part], residue));
  }
  return out;
}

Tail tail_of(const CiphertextData& x, std::size_t part, const GatheredProduct& product,
             const std::vector<std::int64_t>& bias) {
  const std::size_t modulus = x.first_part + part, rows = product.groups * product.outputs;
  const u64 t = x.context->plain(modulus).t;
  const auto row = [&](std::size_t i) {
    return bias.empty() ? 0 : math::signed_mod(bias[bias.size() > rows ? modulus * rows + i : i], t);
  };
  const auto times = [&](std::size_t weight, u64 number) {
    return math::mul_mod(math::signed_mod(product.weights[weight], t), number, t);
  };
  return x.tails[part].gathered(product, !bias.empty(), row, times, sum_modulo(t));
}

void check_bias(Context& c, const std::vector<std::int64_t>& bias, std::size_t rows) {
  if (bias.empty() || (bias.size() == c.parts() * rows && c.parts() > 1)) return;
  if (bias.size() != rows)
    throw ShapeError("the bias has " + std::to_string(bias.size()) + " values for " + std::to_string(rows) + " outputs");
  check_values(c, {.data = bias, .shape = {rows}, .width = 1}, Packing::coefficients);
}

Ciphertext matmul(const std::vector<std::int64_t>& weights, std::size_t rows, std::size_t columns, const Ciphertext& x,
                  const std::vector<std::int64_t>& bias) {
  Context& c = *x.data().context;
  const GatheredProduct p = ring::matrix_product(c.engine(), weights, rows, columns, x.shape());
  check_bias(c, bias, rows);
  Shape out = x.shape();
  out[0] = rows;
  return apply(x, p, out, bias);
}

namespace {

struct Image {
  std::size_t channels, height, width;
};

std::size_t padded(std::size_t length, const Convolution& s) { return checked_add(length, checked_mul(2, s.padding)); }

/// Appends, for one group, the flat input index of each term of each output position.
void append_windows(GatheredProduct& p, const Convolution& s, const Image& image, std::size_t group, std::size_t out_height,
                    std::size_t out_width) {
  for (std::size_t y = 0; y < out_height; ++y) {
    for (std::size_t x = 0; x < out_width; ++x) {
      for (std::size_t channel = 0; channel < s.inputs_per_group; ++channel) {
        for (std::size_t i = 0; i < s.height * s.width; ++i) {
          const std::size_t row = y * s.stride + i / s.width, column = x * s.stride + i % s.width;
          const bool inside =
              row >= s.padding && row - s.padding < image.height && column >= s.padding && column - s.padding < image.width;
          const std::size_t plane = group * s.inputs_per_group + channel;
          p.index.push_back(
              inside ? static_cast<math::u32>((plane * image.height + row - s.padding) * image.width + column - s.padding)
                     : GatheredProduct::kNone);
        }
      }
    }
  }
}

Ciphertext convolve_one(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& s,
                        const std::vector<std::int64_t>& bias) {
  const Shape in = x.shape();
  const GatheredProduct product =
      convolution_product(*x.data().context, in, weights, s);  // throws before shapes are computed
  return apply(x, product, convolution_shape(in, s), bias);
}

}  // namespace

Shape convolution_shape(const Shape& in, const Convolution& s) {
  return {s.outputs, (padded(in[1], s) - s.height) / s.stride + 1, (padded(in[2], s) - s.width) / s.stride + 1};
}

GatheredProduct convolution_product(Context& c, const Shape& in, const std::vector<std::int64_t>& weights,
                                    const Convolution& s) {
  require<ShapeError>(weights.size() == checked_product(s.outputs, s.inputs_per_group, s.height, s.width),
                      "the number of weights must be outputs x inputs_per_group x height x width");
  const Image image{in[0], in[1], in[2]};
  if (s.groups == 0 || s.stride == 0 || image.channels != s.groups * s.inputs_per_group || s.outputs % s.groups != 0 ||
      padded(image.height, s) < s.height || padded(image.width, s) < s.width || s.height * s.width == 0) {
    throw ShapeError("weights of shape " + ring::to_string({s.outputs, s.inputs_per_group, s.height, s.width}) + " in " +
                     std::to_string(s.groups) + " group(s) do not convolve a tensor of shape " + ring::to_string(in));
  }
  const Shape out = convolution_shape(in, s);
  GatheredProduct p{.groups = s.groups,
                    .outputs = s.outputs / s.groups,
                    .positions = checked_mul(out[1], out[2]),
                    .terms = s.inputs_per_group * s.height * s.width,
                    .inputs = ring::element_count(in),
                    .weights = weights};
  ring::reserve_index(c.engine(), p);
  for (std::size_t g = 0; g < s.groups; ++g) append_windows(p, s, image, g, out[1], out[2]);
  return p;
}

Ciphertext conv2d(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& s,
                  const std::vector<std::int64_t>& bias) {
  const Shape in = x.shape();
  check_bias(*x.data().context, bias, s.outputs);
  if (in.size() == 3) return convolve_one(x, weights, s, bias);
  if (in.size() != 4)
    throw ShapeError("a convolution takes (channels, H, W) or (batch, channels, H, W), not " + ring::to_string(in));
  std::vector<Ciphertext> parts;
  ProgressSteps steps(in[0]);
  for (std::size_t i = 0; i < in[0]; ++i) {
    const Ciphertext y = steps.part(1, [&] { return convolve_one(index(x, 0, i), weights, s, bias); });
    if (i == 0) x.data().context->engine().require_memory(checked_mul(in[0], y.bytes()), "this convolution");
    Shape one = y.shape();
    one.insert(one.begin(), 1);
    parts.push_back(reshape(y, one));
  }
  return concatenate(parts, 0);
}

Ciphertext sum(const Ciphertext& a, std::size_t axis) {
  Shape shape = a.shape();
  require<ShapeError>(axis < shape.size(), "the axis to sum over is out of range");
  const std::size_t length = shape[axis];
  std::vector<std::size_t> order = {axis};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != axis) order.push_back(i);
  }
  require<ShapeError>(length > 0, "an empty axis cannot be summed");
  if (ring::element_count(shape) == 0) return index(a, axis, 0);
  const Ciphertext lead = transpose(a, order);
  a.data().context->engine().require_host_memory(checked_mul(length, 3 * sizeof(std::int64_t)), "this sum");
  Ciphertext r = matmul(std::vector<std::int64_t>(length, 1), 1, length, lead, {});
  return index(r, 0, 0);
}

Ciphertext sum_pool2d(const Ciphertext& a, std::size_t size) {
  const Shape in = a.shape();
  require<ShapeError>(in.size() >= 2, "pooling takes a tensor (..., H, W)");
  const std::size_t height = in[in.size() - 2], width = in[in.size() - 1];
  if (size == 0 || height % size != 0 || width % size != 0)
    throw ShapeError("windows of " + std::to_string(size) + " x " + std::to_string(size) +
                     " do not tile a tensor of shape " + ring::to_string(in));
  if (size == 1) return a;
  Shape out = in;
  out[in.size() - 2] /= size, out[in.size() - 1] /= size;
  GatheredProduct p{.groups = 1,
                    .outputs = 1,
                    .positions = ring::element_count(out),
                    .terms = size * size,
                    .inputs = ring::element_count(in)};
  if (p.inputs == 0) return reshape(slice(a, 0, 0, 1, in[0]), out);
  ring::reserve_index(a.data().context->engine(), p);
  p.weights.assign(p.terms, 1);
  for (std::size_t at = 0; at < p.positions; ++at) {
    const std::size_t x = at % (width / size), row = at / (width / size);  // row of the outputs, over all planes
    for (std::size_t i = 0; i < size * size; ++i)
      p.index.push_back(static_cast<math::u32>((row * size + i / size) * width + x * size + i % size));
  }
  return apply(a, p, out, {});
}

namespace {

template <class View, class Walked>
Ciphertext viewed(const Ciphertext& a, View view, Walked walked) {
  CiphertextData r = derived(a.data());
  r.bounds = a.data().bounds;
  for (const RnsTensor& part : a.data().parts) r.parts.push_back(view(part));
  for (std::size_t part = 0; part < r.parts.size(); ++part) r.tails[part] = walked(a.data().tails[part]);
  return finish(std::move(r));
}

}  // namespace

Ciphertext reshape(const Ciphertext& a, const Shape& shape) {
  CiphertextData r = derived(a.data());
  r.seeds = a.data().seeds;  // the order of the items is unchanged, so the seeds give the same masks
  r.fresh = a.data().fresh, r.bounds = a.data().bounds;
  for (const RnsTensor& part : a.data().parts) r.parts.push_back(part.reshape(shape));
  r.tails = a.data().tails;
  return finish(std::move(r));
}

Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order) {
  return viewed(
      a, [&](const RnsTensor& p) { return p.transpose(order); },
      [&](const Tail& t) { return t.transposed(a.shape(), order); });
}

Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
  return viewed(
      a, [&](const RnsTensor& p) { return p.slice(axis, start, step, count); },
      [&](const Tail& t) { return t.sliced(a.shape(), axis, start, step, count); });
}

Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position) {
  require<ShapeError>(axis < a.shape().size() && position < a.shape()[axis], "an index is out of range");
  return viewed(
      a, [&](const RnsTensor& p) { return p.drop_axis(axis, position); },
      [&](const Tail& t) { return t.sliced(a.shape(), axis, position, 1, 1); });
}

Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape) {
  CiphertextData r = derived(a.data());
  r.distinct = r.independent = false;
  r.bounds = a.data().bounds;
  for (const RnsTensor& part : a.data().parts) r.parts.push_back(part.broadcast_to(shape));
  for (std::size_t part = 0; part < r.parts.size(); ++part) r.tails[part] = a.data().tails[part].broadcast(a.shape(), shape);
  return finish(std::move(r));
}

Ciphertext concatenate(const std::vector<Ciphertext>& given, std::size_t axis) {
  require<ShapeError>(!given.empty(), "concatenate needs at least one tensor");
  std::size_t level = given.front().level(), width = 0;
  for (const Ciphertext& p : given) width = std::max(width, p.slots());
  std::vector<Ciphertext> parts;
  for (const Ciphertext& p : given) parts.push_back(of_width(p, width));
  const Ciphertext& first = parts.front();
  for (const Ciphertext& p : parts) {
    require_same(p.data(), first.data().context, first.data().key, "the other tensor");
    require<MismatchError>(p.packing() == first.packing(), "one tensor packs slots, another coefficients");
    require_same_moduli(p.data(), first.data());
    level = std::min(level, p.level());
  }
  CiphertextData r = derived(switch_level(first, level).data());
  r.bounds = first.data().bounds;
  for (const Ciphertext& p : parts) {
    r.vouched = r.vouched && p.vouched();
    r.bounds = Bounds::larger(r.bounds, p.data().bounds, r.context->most());
  }
  r.distinct = r.independent = false;
  for (std::size_t part = 0; part < first.data().parts.size(); ++part) {
    std::vector<RnsTensor> pieces;
    for (const Ciphertext& p : parts) {
      const Ciphertext low = of_factor(switch_level(p, level), part, r.factors[part]);
      pieces.push_back(ring::to_domain(low.data().parts[part], first.data().parts[part].domain()));
      r.noise[part] = rlwe::log2_max(r.noise[part], low.data().noise[part]);
      r.width = std::max(r.width, p.data().width);
    }
    r.parts.push_back(ring::concatenate(pieces, axis));
    r.tails[part] = first.data().tails[part];
    Shape shape = first.shape();
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const Shape more = parts[i].shape();
      r.tails[part] = Tail::joined(r.tails[part], shape, parts[i].data().tails[part], more, axis);
      shape[axis] += more[axis];
    }
  }
  return finish(std::move(r));
}

}  // namespace heliograph::exact
