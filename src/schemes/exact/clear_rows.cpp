// Rows of bytes times an encrypted vector. The vector comes as few ciphertexts with a number in each coefficient, and becomes one
// ciphertext for each number (Angel et al., SealPIR, ePrint 2017/1142, section 3.3); products with the rows are one inner product
// of polynomials for each block of rows.
#include "schemes/exact/clear_rows.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

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

/// Components in a row of the polynomials of one limb, a slice each for an item.
device::View slices_of(const device::View& x, std::size_t limb, std::size_t components, std::size_t words) {
  device::View v = x.with_limbs(limb, 1);
  v.axes = 1, v.shape = {v.n / words}, v.stride = {static_cast<std::ptrdiff_t>(words)}, v.components = components, v.n = words;
  return v;
}

/// A view whose first axis is its limbs'.
device::View with_limb_axis(const RnsTensor& x) {
  device::View v = x.view();
  v.limbs = v.shape[0], v.limb_stride = static_cast<std::size_t>(v.stride[0]);
  --v.axes;
  for (int i = 0; i < v.axes; ++i) v.shape[i] = v.shape[i + 1], v.stride[i] = v.stride[i + 1];
  return v;
}

/// Rows [rows][columns] as polynomials [columns][limbs][n].
template <class Word>
std::vector<Word> transposed(std::span<const std::int8_t> values, std::size_t columns, std::size_t n,
                             const std::vector<u64>& moduli) {
  constexpr std::size_t kTile = 64;  // rows whose lines stay in a cache while their columns are written
  const std::size_t rows = values.size() / columns, limbs = moduli.size();
  std::vector<Word> words(columns * limbs * n);
  for (std::size_t first = 0; first < rows; first += kTile) {
    const std::size_t last = std::min(rows, first + kTile);
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t l = 0; l < limbs; ++l) {
        Word* const to = words.data() + (j * limbs + l) * n;
        for (std::size_t r = first; r < last; ++r) {
          const std::int8_t v = values[r * columns + j];
          to[r] = static_cast<Word>(v < 0 ? moduli[l] - static_cast<u64>(-v) : static_cast<u64>(v));
        }
      }
    }
  }
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

/// The slices of all components of `x`, limb after limb, written to a tensor of such slices.
void write_slices(ring::Engine& e, const RnsTensor& x, std::size_t components, const RnsTensor& to) {
  const std::size_t limbs = x.primes().size(), slices = to.shape()[0] / limbs;
  for (std::size_t l = 0; l < limbs; ++l)
    e.enqueue(device::Copy{slices_of(x.view(), l, components, to.view().n), to.slice(0, l * slices, 1, slices).view()});
}

/// Slices of blocks put together again.
void read_slices(ring::Engine& e, const RnsTensor& from, const RnsTensor& x) {
  const std::size_t limbs = x.primes().size(), slices = from.shape()[0] / limbs, words = from.view().n;
  for (std::size_t l = 0; l < limbs; ++l) {
    device::View to = x.view().with_limbs(l, 1);
    to.axes = 2, to.shape = {slices, x.items()}, to.stride = {static_cast<std::ptrdiff_t>(words), x.view().stride[0]}, to.n = words;
    e.enqueue(device::Copy{from.slice(0, l * slices, 1, slices).view(), to});
  }
}

}  // namespace

std::size_t slice_words(const Context& c, std::size_t level) {
  static const char* w = getenv("SLICE");
  return std::max({kLeastSlice, c.spec().n * std::bit_ceil(level) / device::PrimeList::kMost, w ? std::size_t(atoi(w)) : kLeastSlice});
}

std::size_t ClearRowsData::blocks() const { return (rows + context->spec().n - 1) / context->spec().n; }

ClearRows::ClearRows(const Parameters& parameters, std::size_t rows, std::size_t columns) {
  const std::shared_ptr<Context>& c = parameters.context();
  auto d = std::make_shared<ClearRowsData>();
  d->context = c, d->plan = rows_plan(parameters, columns), d->rows = rows;
  const device::PrimeList chain = c->rlwe().chain(d->plan.level);
  const std::size_t n = c->spec().n, slice = slice_words(*c, d->plan.level);
  c->engine().require_memory(checked_product(d->blocks(), columns, c->rlwe().polynomial_bytes(chain.size())), "the rows");
  d->words = RnsTensor(c->rlwe().engine(), {chain.size() * n / slice, d->blocks()}, columns, device::PrimeList{0}, Domain::ntt,
                       ring::Secrecy::open, slice);
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
  write_slices(e, rows, columns, d.words.drop_axis(1, block));
}

Ciphertext ClearRows::times(const Ciphertext& vector, const EvaluationKeys& keys, const Progress& progress) const {
  const ClearRowsData& d = *data_;
  const CiphertextData& x = vector.data();
  Context& c = *d.context;
  require<MismatchError>(x.context == d.context, "the vector is encrypted for other parameters than the rows");
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<ShapeError>(x.shape() == Shape{d.plan.ciphertexts} && x.packing == Packing::coefficients && x.width == d.plan.spread,
                      "this tensor is no encrypted vector of as many components as the rows have columns");
  require<LevelError>(x.level() == c.rlwe().top_level() && x.degree() == 1, "the vector is not as it was encrypted");
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (const std::int64_t step : d.plan.rotations)
    switch_keys.push_back(&schemes::key_of(keys, c.row_galois(step), step, c.column_galois(), "no column rotation is needed"));
  const RnsTensor all = expanded(c, d, ring::to_domain(x.front(), Domain::coefficient), switch_keys, progress);
  const RnsTensor numbers = all.reshape({d.plan.spread * d.plan.ciphertexts}).slice(0, 0, 1, d.plan.columns);
  const RnsTensor factors = ring::to_domain(c.rules().switch_level(0, numbers, d.plan.level), Domain::ntt).contiguous();
  ring::Engine& e = c.engine();
  const device::PrimeList primes = factors.primes();
  const std::size_t slices = d.words.shape()[0], slice = d.words.view().n, each = c.spec().n / slice;
  const RnsTensor key(c.rlwe().engine(), {slices}, 2 * d.plan.columns, device::PrimeList{0}, Domain::ntt, ring::Secrecy::open, slice);
  write_slices(e, factors, 2 * d.plan.columns, key);
  const RnsTensor parts(c.rlwe().engine(), {slices, d.blocks()}, 2, device::PrimeList{0}, Domain::ntt, ring::Secrecy::open, slice);
  const RnsTensor sums(c.rlwe().engine(), {d.blocks()}, 2, primes, Domain::ntt);
  device::PrimeList prime_of;
  for (std::size_t i = 0; i < slices; ++i) prime_of.push_back(primes[i / each]);
  if (d.blocks()) {
    e.enqueue(device::InnerProduct{e.prepared(), prime_of, with_limb_axis(d.words), with_limb_axis(key),
                                   device::PrimeList::range(0, slices), with_limb_axis(parts)});
    read_slices(e, parts, sums);
  }
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
