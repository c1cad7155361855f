// Rows of bytes times an encrypted vector. The vector comes as few ciphertexts with a number in each coefficient, and becomes one
// ciphertext for each number (Angel et al., SealPIR, ePrint 2017/1142, section 3.3); products with the rows are one inner product
// of polynomials for each block of rows.
#include "schemes/exact/clear_rows.h"

#include <algorithm>
#include <bit>

#include "lwe/parallel.h"
#include "schemes/exact/derive.h"

namespace heliograph::exact {

namespace {

/// Coefficients of X^(-shift) a.
device::Permutation shifted_down(std::size_t n, std::size_t shift) {
  device::Permutation p{.source = std::vector<math::u32>(n), .negate = std::vector<bool>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    p.source[i] = static_cast<math::u32>((i + shift) % n);
    p.negate[i] = i + shift >= n;
  }
  return p;
}

/// Rows [rows][columns] as polynomials [columns][limbs][n].
template <class Word>
std::vector<Word> transposed(std::span<const std::int8_t> values, std::size_t columns, std::size_t n,
                             const std::vector<u64>& moduli) {
  constexpr std::size_t kTile = 64;  // rows whose lines stay in a cache while their columns are written
  const std::size_t rows = values.size() / columns, limbs = moduli.size();
  std::vector<Word> words(columns * limbs * n);
  constexpr std::size_t kTogether = 16;  // columns of a thread
  lwe::parallel_for((columns + kTogether - 1) / kTogether, columns * limbs * n, [&](std::size_t group) {
    const std::size_t begin = group * kTogether, end = std::min(columns, begin + kTogether);
    for (std::size_t first = 0; first < rows; first += kTile) {
      const std::size_t last = std::min(rows, first + kTile);
      for (std::size_t j = begin; j < end; ++j) {
        for (std::size_t l = 0; l < limbs; ++l) {
          Word* const to = words.data() + (j * limbs + l) * n;
          for (std::size_t r = first; r < last; ++r) {
            const std::int8_t v = values[r * columns + j];
            to[r] = static_cast<Word>(v < 0 ? moduli[l] - static_cast<u64>(-v) : static_cast<u64>(v));
          }
        }
      }
    }
  });
  return words;
}

/// The number in each coefficient below the spread, of each of x's ciphertexts, in a ciphertext of its own, times the spread:
/// [spread, ciphertexts]. Step i splits a polynomial in X^(2^i) in its even and its odd part.
RnsTensor expanded(Context& c, const ClearRowsData& d, const RnsTensor& x, const std::vector<const rlwe::SwitchKey*>& keys,
                   const Progress& progress) {
  ring::Engine& e = c.engine();
  const std::size_t count = d.plan.ciphertexts;
  const RnsTensor all(c.rlwe().engine(), {d.plan.spread, count}, 2, x.primes(), Domain::coefficient);
  e.enqueue(device::Copy{x.view(), all.drop_axis(0, 0).view()});
  for (std::size_t i = 0, n = 1; n < d.plan.spread; ++i, n *= 2) {
    const RnsTensor some = all.slice(0, 0, 1, n), rest = all.slice(0, n, 1, n);
    const RnsTensor turned = ring::automorphism(some, c.spec().n / n + 1);
    const RnsTensor switched(c.rlwe().engine(), {n, count}, 2, x.primes(), Domain::coefficient);
    const RnsTensor pairs = keys[i]->pairs();
    e.enqueue(device::KeySwitch{c.rlwe().key_switch_plan(x.primes().size()), Domain::coefficient,
                                turned.with_components(1, 1).view(), pairs.view(), turned.with_components(0, 1).view(),
                                switched.view()});
    const RnsTensor odd = ring::subtract(some, switched);
    e.enqueue(device::Add{e.prepared(), x.primes(), some.view(), switched.view(), some.view()});
    e.enqueue(device::Permute{e.prepared(), x.primes(), d.shifts[i], odd.view(), rest.view()});
    if (progress) progress(0.5 * static_cast<double>(2 * n) / static_cast<double>(d.plan.spread));
  }
  return all;
}

// Slices. A tensor of slices has a first axis for limbs and their slices, and its own limb is one.

/// Words in a slice: the fewest, so that a call takes all slices as its limbs. 0: none, limbs stay whole.
std::size_t slice_words(Context& c, std::size_t level) {
  if (!c.engine().cuts_batches()) return 0;
  return std::min(c.spec().n, std::max(kLeastSlice, c.spec().n * std::bit_ceil(level) / device::PrimeList::kMost));
}

/// The words of one limb as slices, of `components` components that lie in a row.
device::View slices_of(const device::View& x, std::size_t limb, std::size_t components, std::size_t words) {
  device::View v = x.with_limbs(limb, 1);
  const std::size_t slices = v.n / words;
  for (int i = v.axes; i > 0; --i) v.shape[i] = v.shape[i - 1], v.stride[i] = v.stride[i - 1];
  ++v.axes;
  v.shape[0] = slices, v.stride[0] = static_cast<std::ptrdiff_t>(words), v.components = components, v.n = words;
  return v;
}

/// A tensor of slices with all of them as limbs.
device::View with_slices_as_limbs(const RnsTensor& x) {
  device::View v = x.view();
  v.limbs = v.shape[0], v.limb_stride = static_cast<std::size_t>(v.stride[0]);
  --v.axes;
  for (int i = 0; i < v.axes; ++i) v.shape[i] = v.shape[i + 1], v.stride[i] = v.stride[i + 1];
  return v;
}

/// Room for slices of polynomials of these primes.
RnsTensor make_slices(Context& c, const device::PrimeList& primes, ring::Shape shape, std::size_t components,
                      std::size_t words) {
  shape.insert(shape.begin(), primes.size() * c.spec().n / words);
  return {c.rlwe().engine(), shape, components, device::PrimeList{0}, Domain::ntt, ring::Secrecy::open, words};
}

/// Copies between whole polynomials, `components` in a row, and their slices.
void copy_slices(ring::Engine& e, const device::View& whole, std::size_t components, const RnsTensor& sliced,
                 bool to_slices) {
  const std::size_t slices = sliced.shape()[0] / whole.limbs;
  for (std::size_t l = 0; l < whole.limbs; ++l) {
    const device::View some = slices_of(whole, l, components, sliced.view().n);
    const device::View part = sliced.slice(0, l * slices, 1, slices).view();
    e.enqueue(to_slices ? device::Copy{some, part} : device::Copy{part, some});
  }
}

/// The inner products of the rows with ciphertexts of one number each, [columns] in the NTT domain.
RnsTensor products(Context& c, const ClearRowsData& d, const RnsTensor& numbers) {
  ring::Engine& e = c.engine();
  const std::size_t columns = d.plan.columns, n = c.spec().n, words = d.words.view().n;
  const device::PrimeList primes = numbers.primes();
  const RnsTensor sums(c.rlwe().engine(), {d.blocks()}, 2, primes, Domain::ntt);
  if (d.blocks() == 0) return sums;
  if (!d.sliced) {
    const RnsTensor factors(c.rlwe().engine(), {}, 2 * columns, primes, Domain::ntt);
    device::Gather gather;
    for (std::size_t j = 0; j < columns; ++j)
      gather.pieces.push_back({numbers.drop_axis(0, j).view(), factors.with_components(2 * j, 2).view()});
    e.enqueue(gather);
    e.enqueue(device::InnerProduct{e.prepared(), primes, d.words.view(), factors.view(),
                                   device::PrimeList::range(0, primes.size()), sums.view()});
    return sums;
  }
  const RnsTensor factors = make_slices(c, primes, {}, 2 * columns, words);
  device::View in_a_row = numbers.view();
  in_a_row.axes = 0;
  copy_slices(e, in_a_row, 2 * columns, factors, true);
  const RnsTensor parts = make_slices(c, primes, {d.blocks()}, 2, words);
  device::PrimeList prime_of;
  for (std::size_t i = 0; i < parts.shape()[0]; ++i) prime_of.push_back(primes[i * words / n]);
  e.enqueue(device::InnerProduct{e.prepared(), prime_of, with_slices_as_limbs(d.words), with_slices_as_limbs(factors),
                                 device::PrimeList::range(0, prime_of.size()), with_slices_as_limbs(parts)});
  copy_slices(e, sums.view(), 2, parts, false);
  return sums;
}

}  // namespace

std::size_t ClearRowsData::blocks() const { return (rows + context->spec().n - 1) / context->spec().n; }

ClearRows::ClearRows(const Parameters& parameters, std::size_t rows, std::size_t columns) {
  const std::shared_ptr<Context>& c = parameters.context();
  auto d = std::make_shared<ClearRowsData>();
  d->context = c, d->plan = rows_plan(parameters, columns), d->rows = rows;
  const device::PrimeList chain = c->rlwe().chain(d->plan.level);
  const std::size_t n = c->spec().n, slice = slice_words(*c, d->plan.level);
  c->engine().require_memory(checked_product(d->blocks(), columns, c->rlwe().polynomial_bytes(chain.size())), "the rows");
  d->sliced = slice > 0;
  d->words = d->sliced ? make_slices(*c, chain, {d->blocks()}, columns, slice)
                       : RnsTensor(c->rlwe().engine(), {d->blocks()}, columns, chain, Domain::ntt);
  if (rows) c->engine().enqueue(device::Zero{d->words.view()});
  for (std::size_t shift = 1; shift < d->plan.spread; shift *= 2)
    d->shifts.push_back(c->engine().kernels().prepare(shifted_down(n, shift)));
  data_ = Handle<ClearRowsData>(std::move(d));
}

std::size_t ClearRows::rows() const { return data_->rows; }
const RowsPlan& ClearRows::plan() const { return data_->plan; }
std::size_t ClearRows::bytes() const { return data_->words.bytes(); }

void ClearRows::set(std::size_t block, std::span<const std::int8_t> values) const {
  const ClearRowsData& d = *data_;
  Context& c = *d.context;
  const std::size_t n = c.spec().n, columns = d.plan.columns;
  require<ShapeError>(block < d.blocks(), "there is no such block of rows");
  require<ShapeError>(values.size() == std::min(n, d.rows - block * n) * columns, "these are not the rows of a block");
  const RnsTensor rows(c.rlwe().engine(), {}, columns, c.rlwe().chain(d.plan.level), Domain::coefficient);
  const std::vector<u64> moduli = c.rlwe().moduli(rows.primes());
  const auto load = [&]<class Word>(Word) {
    const std::vector<Word> words = transposed<Word>(values, columns, n, moduli);
    ring::upload(rows, std::as_bytes(std::span(words)));
  };
  rows.view().word == math::Word::w64 ? load(u64{}) : load(math::u32{});
  ring::Engine& e = c.engine();
  e.enqueue(device::ForwardNtt{e.prepared(), rows.primes(), rows.view(), rows.view()});
  if (d.sliced)
    copy_slices(e, rows.view(), columns, d.words.drop_axis(1, block), true);
  else
    e.enqueue(device::Copy{rows.view(), d.words.drop_axis(0, block).view()});
}

Ciphertext ClearRows::times(const Ciphertext& vector, const EvaluationKeys& keys, const Progress& progress) const {
  const ClearRowsData& d = *data_;
  const CiphertextData& x = vector.data();
  Context& c = *d.context;
  require<MismatchError>(x.context == d.context, "the vector is encrypted for other parameters than the rows");
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<ShapeError>(
      x.shape() == Shape{d.plan.ciphertexts} && x.packing == Packing::coefficients && x.width == d.plan.spread,
      "this tensor is no encrypted vector of as many components as the rows have columns");
  require<LevelError>(x.level() == c.rlwe().top_level() && x.degree() == 1, "the vector is not as it was encrypted");
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (const std::int64_t step : d.plan.rotations)
    switch_keys.push_back(
        &schemes::key_of(keys, c.row_galois(step), step, c.column_galois(), "no column rotation is needed"));
  const RnsTensor all = expanded(c, d, ring::to_domain(x.front(), Domain::coefficient), switch_keys, progress);
  const RnsTensor numbers = all.reshape({d.plan.spread * d.plan.ciphertexts}).slice(0, 0, 1, d.plan.columns);
  const RnsTensor at_level = ring::to_domain(c.rules().switch_level(0, numbers, d.plan.level), Domain::ntt).contiguous();
  const RnsTensor sums = products(c, d, at_level);
  CiphertextData r = derived(x);
  r.width = c.spec().n;
  r.vouched = x.vouched && keys.data().vouched;
  r.independent = r.distinct = false;
  r.noise = {product_noise(c, d.plan, x.noise[0])};
  r.parts = {ring::to_domain(sums, Domain::coefficient)};
  if (progress) progress(1);
  return finish(std::move(r));
}

}  // namespace heliograph::exact
