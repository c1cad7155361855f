// A convolution, the squares of its results and their pooling, computed in stretches of output channels.
#include <algorithm>

#include "base/progress.h"
#include "schemes/exact/linear.h"

namespace heliograph::exact {

namespace {

/// The weights of output channels [first, first + count) of a convolution, and the inputs that these channels need.
struct Stretch {
  Convolution shape;
  std::vector<std::int64_t> weights, bias;
  std::size_t first_input = 0, inputs = 0;
};

Stretch stretch_of(const std::vector<std::int64_t>& weights, const Convolution& s, const std::vector<std::int64_t>& bias,
                   std::size_t first, std::size_t count) {
  const std::size_t each = s.inputs_per_group * s.height * s.width, unit = s.outputs / s.groups;
  Stretch r{.shape = s, .inputs = s.groups * s.inputs_per_group};
  r.shape.outputs = count;
  if (s.groups > 1) {  // a stretch has complete groups of channels
    r.shape.groups = count / unit;
    r.first_input = first / unit * s.inputs_per_group, r.inputs = r.shape.groups * s.inputs_per_group;
  }
  const auto append = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from, std::size_t at,
                         std::size_t n) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(at);
    to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(n));
  };
  append(r.weights, weights, first * each, count * each);
  for (std::size_t row = 0; row < bias.size(); row += s.outputs) append(r.bias, bias, row + first, count);
  return r;
}

/// Returns the number of channels per stretch, a multiple of `unit`. Outputs and squares of a stretch fit in `room`
/// bytes; all stretches have about the same size.
std::size_t channels_in(std::size_t room, std::size_t each, std::size_t outputs, std::size_t unit) {
  const std::size_t most = std::clamp<std::size_t>(room / std::max<std::size_t>(1, each) / unit, 1, outputs / unit);
  const std::size_t stretches = (outputs / unit + most - 1) / most;
  return (outputs / unit + stretches - 1) / stretches * unit;
}

/// Returns the convolution of one stretch, with the metadata of `like`.
Ciphertext convolved_stretch(const Ciphertext& x, const Stretch& some, CiphertextData like, const Shape& shape) {
  const Ciphertext from = slice(x, 0, some.first_input, 1, some.inputs);
  const GatheredProduct product = convolution_product(*x.data().context, from.shape(), some.weights, some.shape);
  like.parts = {product_of(from.data(), 0, product, shape, some.bias)};
  like.tails = {tail_of(from.data(), 0, product, some.bias)};
  return finish(std::move(like));
}

Ciphertext square_pool(Ciphertext x, std::size_t level, std::size_t pool, const EvaluationKeys& keys) {
  ProgressSteps steps(2);
  const Ciphertext low = switch_level(relinearize(x, keys), level);
  x = sum_pool2d(steps.part(1, [&] { return square(low, &keys); }), pool);
  return steps.part(1, [&] { return relinearize(x, keys); });
}

}  // namespace

Ciphertext conv2d_square_pool(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& s,
                              const std::vector<std::int64_t>& bias, std::size_t pool, const EvaluationKeys& keys,
                              std::size_t stretch) {
  const CiphertextData& a = x.data();
  Context& c = *a.context;
  const Shape in = x.shape();
  require_same(a, keys.data().context, keys.data().keys.id, "these evaluation keys");
  if (!keys.has_relinearization())
    throw MissingKeyError("these evaluation keys have no relinearization key (make them with relinearize=True)");
  if (in.size() != 3) throw ShapeError("this layer takes (channels, H, W), not " + ring::to_string(in));
  require<ShapeError>(s.outputs > 0, "a layer must have at least one output");
  check_bias(c, bias, s.outputs);
  const CiphertextData convolved = derived_by(a, convolution_product(c, in, weights, s), bias);
  const Shape plane = convolution_shape(in, s);
  if (pool == 0 || plane[1] % pool != 0 || plane[2] % pool != 0)
    throw ShapeError("windows of " + std::to_string(pool) + " x " + std::to_string(pool) +
                     " do not tile a tensor of shape " + ring::to_string(plane));
  const Shape pooled = {s.outputs, plane[1] / pool, plane[2] / pool};
  CiphertextData squared = convolved;  // metadata of the squares' operand
  for (std::size_t part = 0; part < a.parts.size() && a.degree() > 1; ++part)
    squared.noise[part] = rlwe::log2_sum(squared.noise[part], c.rules().key_switch_noise(a.first_part + part, a.level()));
  const std::size_t level = product_level(squared, x.level(), squared, x.level());
  const std::size_t parts = a.parts.size(), component = c.rlwe().polynomial_bytes(a.front().primes().size());
  const std::size_t each = checked_product(plane[1], plane[2], component, a.degree() + 1 + 3);  // bytes of outputs and
                                                                                                // squares
  const std::size_t results = checked_product(parts, ring::element_count(pooled), component, std::size_t{2});
  const std::size_t free = c.engine().free_memory();
  const std::size_t unit = s.groups > 1 ? s.outputs / s.groups : 1;
  c.engine().require_memory(checked_add(results, checked_mul(each, unit)), "this layer");
  const std::size_t room = stretch ? checked_mul(std::min(stretch, s.outputs), each) : (free - std::min(free, results)) / 2;
  const std::size_t most = channels_in(room, each, s.outputs, unit), stretches = (s.outputs + most - 1) / most;

  std::vector<Ciphertext> done;
  ProgressSteps steps(3 * parts * stretches);  // convolution, square, relinearization
  for (std::size_t part = 0; part < parts; ++part) {
    const Ciphertext own = take_moduli(x, {a.first_part + part, 1});
    CiphertextData from = convolved;  // noise and independence of the complete layer
    from.first_part = own.data().first_part, from.noise = {convolved.noise[part]}, from.factors = {convolved.factors[part]};
    RnsTensor out;
    Tail tail;
    for (std::size_t k = 0; k < stretches; ++k) {
      const std::size_t first = k * most, count = std::min(most, s.outputs - first);
      const Stretch some = stretch_of(weights, s, bias, first, count);
      const Ciphertext image = steps.part(1, [&] {
        return convolved_stretch(own, some, from, {count, plane[1], plane[2]});
      });
      const Ciphertext z = steps.part(2, [&] { return square_pool(image, level, pool, keys); });
      if (stretches == 1) {
        done.push_back(z);
        break;
      }
      if (out.empty()) out = RnsTensor(c.rlwe().engine(), pooled, 2, z.data().front().primes(), z.data().front().domain());
      ring::Engine& e = c.engine();
      e.enqueue(device::Copy{z.data().front().view(), out.slice(0, first, 1, count).view()});
      const Shape before = {first, pooled[1], pooled[2]};
      tail = k == 0 ? z.data().tails[0] : Tail::joined(tail, before, z.data().tails[0], z.shape(), 0);
      if (k + 1 < stretches) continue;
      CiphertextData r = z.data();
      r.parts = {out}, r.tails = {tail};
      done.push_back(finish(std::move(r)));
    }
  }
  return join_moduli(done);
}

}  // namespace heliograph::exact
