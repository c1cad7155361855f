#include "backend/cuda/ring/forms.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/ring/conversion.cuh"
#include "backend/cuda/ring/field.cuh"
#include "backend/cuda/ring/kernels.h"

namespace heliograph::backend::cuda {

namespace {

using math::u128;

FieldKind kind_of(u64 largest) {
  return largest < u64{1} << 30 ? FieldKind::field32 : largest < u64{1} << 50 ? FieldKind::field50 : FieldKind::field60;
}

u64 largest_of(const std::vector<u64>& values) {
  u64 most = 0;
  for (u64 v : values) most = std::max(most, v);
  return most;
}

template <class F>
typename F::Constant constant(u64 w, u64 q);
template <>
Field32::Constant constant<Field32>(u64 w, u64 q) {
  return {static_cast<u32>(w), static_cast<u32>((w << 32) / q)};
}
template <>
Field50::Constant constant<Field50>(u64 w, u64 q) {
  return w > q / 2 ? -static_cast<double>(q - w) : static_cast<double>(w);
}
template <>
Field60::Constant constant<Field60>(u64 w, u64 q) {
  return {w, static_cast<u64>((u128{w} << 64) / q)};
}

template <class F>
typename F::Prime prime(u64 q, u64 n_inverse = 0, u64 last = 0);
template <>
Field32::Prime prime<Field32>(u64 q, u64 n_inverse, u64 last) {
  const int bits = math::bit_length(q);
  return {
      .q = static_cast<u32>(q),
      .mu = static_cast<u32>((u64{1} << (bits + 30)) / q),
      .shift = static_cast<u32>(bits - 2),
      .n_inverse = constant<Field32>(n_inverse, q),
      .last = constant<Field32>(last, q),
      .mu64 = ~u64{0} / q,
      .fold = (u64{1} << 63) / q * q,
#ifdef HELIOGRAPH_WORKBENCH_FP64
      .inverse = 1.0 / static_cast<double>(q),
#endif
  };
}
template <>
Field50::Prime prime<Field50>(u64 q, u64 n_inverse, u64 last) {
  return {.q = static_cast<double>(q),
          .inverse = 1.0 / static_cast<double>(q),
          .n_inverse = constant<Field50>(n_inverse, q),
          .last = constant<Field50>(last, q)};
}
template <>
Field60::Prime prime<Field60>(u64 q, u64 n_inverse, u64 last) {
  return {.q = q,
          .mu = ~u64{0} / q,
          .two64 = constant<Field60>(static_cast<u64>((u128{1} << 64) % q), q),
          .n_inverse = constant<Field60>(n_inverse, q),
          .last = constant<Field60>(last, q)};
}

template <class T>
std::unique_ptr<Table> uploaded(const std::shared_ptr<State>& state, const std::vector<T>& values) {
  return std::make_unique<Table>(state, values.data(), values.size() * sizeof(T));
}

}  // namespace

CudaRing::CudaRing(const std::shared_ptr<State>& state, const device::RingConstant& constant)
    : FormOf(constant), slot_(state->slot()) {
  const u64 most = largest_of(ring().primes());
  kind_ = ring().word() == math::Word::w32 ? FieldKind::field32
                                           : (kind_of(most) == FieldKind::field60 ? FieldKind::field60 : FieldKind::field50);
  if (kind_ == FieldKind::field32) fill<Field32>(state);
  if (kind_ == FieldKind::field50) fill<Field50>(state);
  if (kind_ == FieldKind::field60) fill<Field60>(state);
}

template <class F>
void CudaRing::fill(const std::shared_ptr<State>& state) {
  const std::size_t n = ring().n();
  std::vector<typename F::Prime> primes;
  std::vector<Field60::Prime> any;
  std::vector<typename F::Constant> forward, inverse;
  const std::size_t powers = ring().transforms() ? n * ring().primes().size() : 0;
  forward.reserve(powers), inverse.reserve(powers);
  for (std::size_t i = 0; i < ring().primes().size(); ++i) {
    const u64 q = ring().primes()[i];
    any.push_back(prime<Field60>(q));
    if (!ring().transforms()) {
      primes.push_back(prime<F>(q));
      continue;
    }
    const u64 root = ring().root(static_cast<math::PrimeIndex>(i));
    for (u64 w : math::forward_twiddles(n, root, q)) forward.push_back(constant<F>(w, q));
    const std::vector<u64> back = math::inverse_twiddles(n, root, q);
    for (u64 w : back) inverse.push_back(constant<F>(w, q));
    const u64 n_inverse = math::inverse_mod(n, q);
    primes.push_back(prime<F>(q, n_inverse, math::mul_mod(back[1], n_inverse, q)));
  }
  primes_ = uploaded(state, primes);
  any_primes_ = uploaded(state, any);
  forward_ = uploaded(state, forward);
  inverse_ = uploaded(state, inverse);
}

CudaConversion::CudaConversion(const std::shared_ptr<State>& state, const device::ConversionConstant& constant)
    : FormOf(constant), kind_(kind_of(std::max(largest_of(conversion().from), largest_of(conversion().to)))) {
  if (kind_ == FieldKind::field32) fill<Field32>(state);
  if (kind_ == FieldKind::field50) fill<Field50>(state);
  if (kind_ == FieldKind::field60) fill<Field60>(state);
}

namespace {

template <class F>
void fill_targets(const math::Conversion& c, std::vector<ConversionTarget<F>>& targets,
                  std::vector<typename F::Value>& matrix) {
  for (u64 q : c.to) targets.push_back({prime<F>(q)});
  const std::size_t width = padded_targets(static_cast<u32>(c.targets()));
  targets.resize(width, targets.back());
  matrix.resize((c.sources() + 2) * width);
  for (std::size_t j = 0; j < c.targets(); ++j) {
    for (std::size_t i = 0; i < c.sources(); ++i)
      matrix[i * width + j] = static_cast<typename F::Value>(c.matrix[j * c.sources() + i]);
    if (!c.wrap.empty()) matrix[c.sources() * width + j] = static_cast<typename F::Value>(c.wrap[j]);
    if (!c.own.empty()) matrix[(c.sources() + 1) * width + j] = static_cast<typename F::Value>(c.own[j]);
  }
}
template <>
void fill_targets<Field50>(const math::Conversion& c, std::vector<ConversionTarget<Field50>>& targets,
                           std::vector<double>& matrix) {
  for (std::size_t j = 0; j < c.targets(); ++j)
    targets.push_back({prime<Field50>(c.to[j]), c.own.empty() ? 0 : constant<Field50>(c.own[j], c.to[j])});
  const u32 steps = matrix_steps(static_cast<u32>(c.sources())), tiles = matrix_tiles(static_cast<u32>(c.targets()));
  targets.resize(tiles * kMatrixTile, targets.back());
  matrix.resize(std::size_t{tiles} * steps * 2 * kMatrixTile * kMatrixStep);
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const u64 q = c.to[j], base = static_cast<u64>(kPiece) % q;
    const auto set = [&](std::size_t column, u64 m) {
      const double whole = constant<Field50>(m, q), high = std::nearbyint(whole / kPiece);
      const std::size_t thread = j % kMatrixTile * kMatrixStep + column % kMatrixStep;
      double* const pair = &matrix[((j / kMatrixTile * steps + column / kMatrixStep) * 32 + thread) * 2];
      pair[0] = high, pair[1] = whole - high * kPiece;
    };
    for (std::size_t i = 0; i < c.sources(); ++i) {
      const u64 m = c.matrix[j * c.sources() + i];
      set(2 * i, math::mul_mod(m, base, q));
      set(2 * i + 1, m);
    }
    if (!c.wrap.empty()) set(2 * c.sources(), c.wrap[j]);
  }
}

}  // namespace

template <class F>
void CudaConversion::fill(const std::shared_ptr<State>& state) {
  const math::Conversion& c = conversion();
  std::vector<ConversionSource<F>> sources;
  for (std::size_t i = 0; i < c.sources(); ++i)
    sources.push_back(
        {prime<F>(c.from[i]), constant<F>(c.inverse[i], c.from[i]), c.fixed.fractions[i] << (c.fixed.shift == 52 ? 12 : 0)});
  std::vector<ConversionTarget<F>> targets;
  std::vector<typename F::Value> matrix;
  fill_targets<F>(c, targets, matrix);
  sources_ = uploaded(state, sources);
  targets_ = uploaded(state, targets);
  matrix_ = uploaded(state, matrix);
}

CudaPermutation::CudaPermutation(const std::shared_ptr<State>& state, const device::Permutation& p) {
  std::vector<u32> packed;
  for (std::size_t i = 0; i < p.source.size(); ++i)
    packed.push_back(p.source[i] << 1 | (!p.negate.empty() && p.negate[i] ? 1 : 0));
  table_ = uploaded(state, packed);
}

CudaLimbSums::CudaLimbSums(const std::shared_ptr<State>& state, const device::LimbSumList& list) {
  std::vector<Term> terms;
  for (const device::LimbSumList::Term& t : list.terms)
    terms.push_back({t.weight, t.a.operand, t.a.component, t.a.limb, t.b.operand, t.b.component, t.b.limb, t.turn,
                     (t.a.once ? 1u : 0u) | (t.b.once ? 2u : 0u)});
  terms.resize(std::max<std::size_t>(terms.size(), 1));  // a list may have constants and no terms
  std::vector<Result> results;
  for (const device::LimbSumList::Result& r : list.results)
    results.push_back({r.constant, r.to.operand, r.to.component, r.to.limb, r.prime, r.first, r.count});
  terms_ = uploaded(state, terms);
  results_ = uploaded(state, results);
}

std::unique_ptr<const device::Form> CudaKernels::form(const device::LimbSumConstant& c) {
  return std::make_unique<CudaLimbSums>(state_, c.list());
}

std::unique_ptr<const device::Form> CudaKernels::form(const device::RingConstant& c) {
  return std::make_unique<CudaRing>(state_, c);
}

std::unique_ptr<const device::Form> CudaKernels::form(const device::ConversionConstant& c) {
  return std::make_unique<CudaConversion>(state_, c);
}

std::unique_ptr<const device::Form> CudaKernels::form(const device::PermutationConstant& c) {
  return std::make_unique<CudaPermutation>(state_, c.permutation());
}

}  // namespace heliograph::backend::cuda
