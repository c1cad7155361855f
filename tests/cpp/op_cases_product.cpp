// Cases of inner_product, tensor and product.
#include <bit>
#include <limits>

#include "op_cases.h"

namespace heliograph::test {

namespace {

using device::GatheredProduct;

std::string text(std::size_t v) { return std::to_string(v); }

/// `slice`: number of coefficients in a slice of operands that have all coefficients; 0: no slice is taken.
OpCase inner_case(const Field& field, std::size_t n, std::size_t digits, std::size_t results, Shape shape, Fill fill,
                  Layout key_layout, std::size_t slice = 0) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 6);
    const auto seen = [&](const View& v) { return slice ? coefficients(v, 64, slice) : v; };
    const auto prepared = rig.prepare(ring);
    // the key also has a limb for a prime that the product does not use
    const PrimeList primes{0, 3, 5}, key_primes{5, 1, 0, 3}, key_limbs{2, 3, 0};
    Shape s = shape;
    s.components = digits;
    const View x = seen(rig.input(*ring, primes, s, fill));
    const View key = seen(rig.input(*ring, key_primes, {{}, digits * results + 1, key_layout}, fill));
    const View out = seen(rig.output(*ring, primes, {s.batch, results, Layout::sliced}));
    return [=, &rig] { rig.queue().enqueue(device::InnerProduct{prepared, primes, x, key, key_limbs, out}); };
  };
  const std::string values = fill == Fill::top ? " all q-1" : "";
  return {"inner_product",
          std::string(field.name) + " n=" + text(n) + " digits=" + text(digits) + " results=" + text(results) + values +
              (slice ? " slice of " + text(slice) : ""),
          kind_in(field), false, declare};
}

/// Adds digits that are automorphisms of one component; every third digit is the component itself. `limbs`: at most five.
OpCase turned_case(const Field& field, std::size_t n, std::size_t turns, std::size_t results, Shape shape,
                   Fill fill = Fill::random, std::size_t limbs = 5) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 6);
    const auto prepared = rig.prepare(ring);
    const PrimeList all{0, 3, 5, 1, 2}, key_primes{5, 1, 0, 2, 3, 4}, all_key_limbs{2, 4, 0, 1, 3};
    const PrimeList primes(all.begin(), limbs), key_limbs(all_key_limbs.begin(), limbs);
    const View x = rig.input(*ring, primes, shape, fill);
    const View key = rig.input(*ring, key_primes, {{}, turns * results + 1, Layout::sliced}, fill);
    const View out = rig.output(*ring, primes, {shape.batch, results, Layout::sliced});
    std::vector<device::PermutationHandle> list;
    for (std::size_t j = 0; j < turns; ++j)
      list.push_back(j % 3 == 1 ? nullptr
                                : rig.kernels().prepare(device::Permutation{math::automorphism_table(n, 2 * j + 3), {}}));
    return [=, &rig] { rig.queue().enqueue(device::InnerProduct{prepared, primes, x, key, key_limbs, out, list}); };
  };
  return {"inner_product",
          std::string(field.name) + " n=" + text(n) + " turns=" + text(turns) + " results=" + text(results) +
              (limbs < 5 ? " limbs=" + text(limbs) : "") + (fill == Fill::top ? " all q-1" : ""),
          kind_in(field), n > 4096, declare};
}

OpCase tensor_case(const Field& field, std::size_t n, std::size_t a_components, std::size_t b_components,
                   const std::vector<std::size_t>& batch, Layout b_layout, Fill fill, bool square, std::size_t slice = 0) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, n, 6);
    const auto seen = [&](const View& v) { return slice ? coefficients(v, 64, slice) : v; };
    const auto prepared = rig.prepare(ring);
    const PrimeList primes{4, 1, 2};
    const View a = seen(rig.input(*ring, primes, {batch, a_components, Layout::sliced}, fill));
    const View b = square ? a : seen(rig.input(*ring, primes, {batch, b_components, b_layout}, fill));
    const View out = seen(rig.output(*ring, primes, {batch, a_components + b_components - 1, Layout::sliced}));
    return [=, &rig] { rig.queue().enqueue(device::Tensor{prepared, primes, a, b, out}); };
  };
  return {"tensor",
          std::string(field.name) + " n=" + text(n) + " " + text(a_components) + "x" + text(b_components) +
              (square ? " square" : "") + (slice ? " slice of " + text(slice) : ""),
          kind_in(field), false, declare};
}

struct Matrix {
  // inputs: items of the input; bits: number of bits of the weights
  std::size_t n, groups, outputs, positions, terms, inputs;
  int bits;
  bool padding = false;
  bool extreme = false;  // all weights have the largest magnitude
  Layout layout = Layout::packed;
  Fill fill = Fill::random;
  std::size_t components = 1;
  // slice: the call uses n coefficients of longer polynomials; window: the operands' memory has all coefficients of these
  // polynomials
  bool slice = false, window = false;
  bool values = false;  // number that selects different weights of the same shape
};

GatheredProduct gathered(Rig& rig, const Matrix& m) {
  GatheredProduct g{
      .groups = m.groups, .outputs = m.outputs, .positions = m.positions, .terms = m.terms, .inputs = m.inputs};
  for (std::size_t i = 0; i < m.groups * m.outputs * m.terms; ++i) {
    const u64 r = rig.random(), top = m.bits == 64 ? ~u64{0} >> 1 : (u64{1} << m.bits) - 1;
    const auto magnitude = static_cast<math::i64>(m.extreme || i % 7 == 0 ? top : (r >> 1) & top);
    g.weights.push_back(r & 1 ? -magnitude : magnitude);
  }
  if (m.bits == 64) g.weights[0] = std::numeric_limits<math::i64>::min();
  for (std::size_t i = 0; i < m.groups * m.positions * m.terms; ++i) {
    const u64 r = rig.random();
    g.index.push_back(m.padding && r % 4 == 0 ? GatheredProduct::kNone : static_cast<u32>((r >> 8) % m.inputs));
  }
  return g;
}

OpCase product_case(const Field& field, const Matrix& m) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(field, m.slice ? std::bit_ceil(2 * m.n) : m.n, 6);
    const auto prepared = rig.prepare(ring);
    const PrimeList primes{1, 5};
    const auto p = rig.kernels().prepare(gathered(rig, m));
    const std::size_t results = m.groups * m.outputs * m.positions;
    const Shape results_shape{{results}, m.components, m.layout == Layout::packed ? Layout::packed : Layout::sliced};
    View in = rig.input(ring->word(), m.window ? ring->n() : m.n, moduli(*ring, primes),
                        {{m.inputs}, m.components, m.layout}, m.fill);
    View out = rig.output(ring->word(), m.window ? ring->n() : m.n, primes.size(), results_shape);
    if (m.window) {
      const std::size_t first = 64 / in.word_size();
      in = coefficients(in, first, m.n), out = coefficients(out, first, m.n);
    }
    return [=, &rig] { rig.queue().enqueue(device::Product{prepared, primes, p, in, out}); };
  };
  const std::string shape = text(m.groups) + "x" + text(m.outputs) + "x" + text(m.positions) + " K=" + text(m.terms);
  return {"product",
          std::string(field.name) + (m.slice ? " slice of " : " n=") + text(m.n) + (m.slice ? " coefficients " : " ") +
              shape + " bits=" + text(m.bits) + (m.padding ? " padded" : "") + (m.extreme ? " extreme" : "") +
              (m.window ? " in place of all" : ""),
          m.values ? Kind::arithmetic : kind_in(field), false, declare};
}

void matrices(std::vector<OpCase>& cases, const Field& field) {
  const auto add = [&](const Matrix& m) { cases.push_back(product_case(field, m)); };
  for (const int bits : {1, 4, 8, 15, 20, 31, 40, 64}) {
    Matrix padded{256, 1, 5, 3, 9, 7, bits}, extreme{64, 1, 3, 1, 845, 845, bits};
    padded.padding = true, padded.components = 2;
    extreme.extreme = true, extreme.fill = Fill::top;
    padded.values = bits != 15, extreme.values = true;
    add(padded), add(extreme);
  }
  Matrix grouped{128, 3, 2, 5, 25, 60, 8}, many{8, 5, 17, 3, 33, 40, 8};
  grouped.padding = many.padding = true, grouped.components = 3, many.components = 2;
  grouped.layout = Layout::sliced;
  add(grouped), add(many);
  Matrix dense{1024, 1, 10, 1, 100, 100, 15}, single{256, 1, 1, 1, 1, 1, 20}, least{2, 1, 4, 2, 3, 5, 40};
  dense.layout = Layout::sliced, least.layout = Layout::broadcast, single.fill = Fill::edges;
  // more terms than one sum of unreduced products may have, and several outputs per pass
  Matrix summed{64, 1, 6, 1, 40, 40, 40};
  summed.extreme = summed.values = true, summed.fill = Fill::top;
  add(dense), add(single), add(least), add(summed);
  add({64, 1, 2, 2, 0, 3, 8});          // no terms: the result is 0
  for (const int bits : {4, 15, 40}) {  // sizes for which the backends choose each algorithm
    Matrix backwards{128, 1, 6, 3, 30, 11, bits};
    backwards.padding = true, backwards.layout = Layout::reversed, backwards.components = 2;
    add(backwards);
  }
  for (const std::size_t n : {64, 192, 320, 832}) {
    for (const int bits : {4, 15, 40}) {  // sizes for which the backends choose each algorithm
      Matrix slice{n, 1, 6, 3, 30, 11, bits};
      slice.padding = slice.slice = true, slice.components = 2;
      add(slice);
      slice.window = true, slice.layout = Layout::sliced;
      add(slice);
    }
  }
}

/// A 5 x 5 convolution with stride 2 over a padded 9 x 9 image, like the first layer of a network.
OpCase convolution_case(const Field& field) {
  const auto declare = [&field](Rig& rig) -> std::function<void()> {
    constexpr int kSide = 9, kOut = 5, kKernel = 5, kPad = 2;
    const auto ring = ring_of(field, 256, 6);
    const auto prepared = rig.prepare(ring);
    const PrimeList primes{0, 2};
    GatheredProduct g{
        .groups = 1, .outputs = 5, .positions = kOut * kOut, .terms = kKernel * kKernel, .inputs = kSide * kSide};
    for (int p = 0; p < kOut * kOut; ++p) {
      for (int k = 0; k < kKernel * kKernel; ++k) {
        const int y = p / kOut * 2 + k / kKernel - kPad, x = p % kOut * 2 + k % kKernel - kPad;
        const bool inside = y >= 0 && y < kSide && x >= 0 && x < kSide;
        g.index.push_back(inside ? static_cast<u32>(y * kSide + x) : GatheredProduct::kNone);
      }
    }
    for (std::size_t i = 0; i < g.outputs * g.terms; ++i) g.weights.push_back(static_cast<math::i64>(rig.random() % 15) - 7);
    const auto p = rig.kernels().prepare(g);
    const View in = rig.input(*ring, primes, {{kSide, kSide}, 2, Layout::packed});
    const View out = rig.output(*ring, primes, {{5, kOut, kOut}, 2, Layout::sliced});
    return [=, &rig] { rig.queue().enqueue(device::Product{prepared, primes, p, in, out}); };
  };
  return {"product", std::string(field.name) + " convolution", kind_in(field), false, declare};
}

}  // namespace

void product_cases(std::vector<OpCase>& cases) {
  for (const Field* f : main_fields()) {
    for (const std::size_t digits : {1, 2, 3, 8}) {
      cases.push_back(inner_case(*f, 1024, digits, 2, {{3}, 1}, Fill::random, Layout::packed));
    }
    cases.push_back(inner_case(*f, 16, 40, 2, {{2}, 1, Layout::sliced}, Fill::top, Layout::sliced));
    cases.push_back(inner_case(*f, 2048, 3, 1, {{3, 5}, 1, Layout::transposed}, Fill::edges, Layout::sliced));
    cases.push_back(inner_case(*f, 512, 5, 3, {{3}, 1, Layout::broadcast}, Fill::random, Layout::packed));
    cases.push_back(inner_case(*f, 256, 3, 2, {{2, 3}, 1, Layout::reversed}, Fill::random, Layout::packed));
    cases.push_back(inner_case(*f, 4, 2, 2, {{}, 1}, Fill::random, Layout::packed));
    for (std::size_t results : {2, 3})  // sums with many terms
      cases.push_back(inner_case(*f, 256, 200, results, {{2, 2}, 1, Layout::reversed}, Fill::top, Layout::sliced));

    cases.push_back(turned_case(*f, 1024, 1, 2, {{3}, 1}));
    cases.push_back(turned_case(*f, 2048, 5, 1, {{2, 3}, 1, Layout::reversed}));
    cases.push_back(turned_case(*f, 512, 64, 2, {{3}, 1, Layout::sliced}, Fill::top));
    // More automorphisms than a GPU kernel applies in one launch.
    cases.push_back(turned_case(*f, 64, 270, 3, {{3, 2}, 1, Layout::transposed}));
    cases.push_back(turned_case(*f, 256, 270, 1, {{}, 1}, Fill::random, 1));
    // all items use the same keys
    cases.push_back(turned_case(*f, 512, 13, 4, {{2, 3}, 1, Layout::transposed}, Fill::random, 1));
    cases.push_back(turned_case(*f, 64, 10, 8, {{5}, 1}, Fill::top, 1));
    cases.push_back(turned_case(*f, 64, 9, 3, {{4}, 1, Layout::sliced}, Fill::edges, 1));
    cases.push_back(turned_case(*f, 128, 300, 5, {{3, 3}, 1, Layout::transposed}, Fill::top, 1));
    cases.push_back(turned_case(*f, 256, 17, 4, {{3}, 1, Layout::broadcast}));
    cases.push_back(turned_case(*f, 4, 5, 2, {{2}, 1}, Fill::edges));
    cases.push_back(turned_case(*f, 16384, 20, 2, {{2}, 1}));

    cases.push_back(tensor_case(*f, 1024, 2, 2, {3}, Layout::packed, Fill::random, false));
    cases.push_back(tensor_case(*f, 1024, 2, 2, {5}, Layout::packed, Fill::top, true));
    cases.push_back(tensor_case(*f, 512, 3, 2, {3, 5}, Layout::broadcast_last, Fill::edges, false));
    cases.push_back(tensor_case(*f, 2048, 3, 3, {1}, Layout::packed, Fill::random, true));
    cases.push_back(tensor_case(*f, 256, 2, 2, {2, 3}, Layout::reversed, Fill::random, false));
    cases.push_back(tensor_case(*f, 64, 1, 3, {3}, Layout::broadcast, Fill::random, false));
    cases.push_back(tensor_case(*f, 2, 2, 2, {3}, Layout::packed, Fill::top, false));

    cases.push_back(inner_case(*f, 1024, 3, 2, {{3}, 1}, Fill::random, Layout::packed, 704));
    cases.push_back(inner_case(*f, 1024, 70, 2, {{3}, 1}, Fill::random, Layout::packed, 704));
    cases.push_back(inner_case(*f, 8192, 2, 2, {{}, 1}, Fill::edges, Layout::packed, 4160));
    cases.push_back(tensor_case(*f, 1024, 2, 2, {3}, Layout::packed, Fill::random, false, 192));
    cases.push_back(tensor_case(*f, 8192, 2, 2, {1}, Layout::packed, Fill::top, true, 4160));

    matrices(cases, *f);
    cases.push_back(convolution_case(*f));
  }
}

}  // namespace heliograph::test
