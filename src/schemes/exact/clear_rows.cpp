// Rows of bytes times an encrypted vector. The vector arrives in few ciphertexts with a number per coefficient, and is
// expanded to one ciphertext per number (Angel et al., SealPIR, ePrint 2017/1142, section 3.3). The products are then one
// inner product of polynomials per block of rows.
#include "schemes/exact/clear_rows.h"

#include <algorithm>
#include <bit>

#include "base/parallel.h"
#include "base/progress.h"
#include "schemes/exact/derive.h"

namespace heliograph::exact {

namespace {

/// Returns the signed permutation of coefficients that multiplies by X^(-shift).
device::Permutation shifted_down(std::size_t n, std::size_t shift) {
  device::Permutation p{.source = std::vector<math::u32>(n), .negate = std::vector<bool>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    p.source[i] = static_cast<math::u32>((i + shift) % n);
    p.negate[i] = i + shift >= n;
  }
  return p;
}

/// Transposes rows [rows][columns] to polynomials [columns][limbs][n].
template <class Word>
std::vector<Word> transposed(std::span<const std::int8_t> values, std::size_t columns, std::size_t n,
                             const std::vector<u64>& moduli) {
  constexpr std::size_t kTile = 64;  // number of rows that stay in cache while their columns are written
  const std::size_t rows = values.size() / columns, limbs = moduli.size();
  std::vector<Word> words(columns * limbs * n);
  constexpr std::size_t kTogether = 16;  // number of columns per thread
  parallel_for((columns + kTogether - 1) / kTogether, columns * limbs * n, [&](std::size_t group) {
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

/// Expands each coefficient below the spread, of each of x's ciphertexts, to its own ciphertext, multiplied by the
/// spread. The result has the shape [spread, ciphertexts]. Step i splits a polynomial in X^(2^i) into its even and odd
/// parts.
RnsTensor expanded(Context& c, const ClearRowsData& d, const RnsTensor& x, const std::vector<const rlwe::SwitchKey*>& keys) {
  ring::Engine& e = c.engine();
  const std::size_t count = d.plan.ciphertexts;
  const RnsTensor all(c.rlwe().engine(), {d.plan.spread, count}, 2, x.primes(), Domain::coefficient);
  e.enqueue(device::Copy{x.view(), all.drop_axis(0, 0).view()});
  ProgressSteps steps(d.plan.spread);
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
    steps.add_until(2 * n);
  }
  return all;
}

// A slice is a range of a limb's words. The first axis of a sliced tensor counts the slices of all limbs; each entry has
// one limb of a slice's words.

/// Returns the fewest words per slice for which the number of slices is at most the limbs of one call; 0: limbs are not
/// sliced.
std::size_t slice_words(Context& c, std::size_t level) {
  if (!c.engine().cuts_batches()) return 0;
  return std::min(c.spec().n, std::max(kLeastSlice, c.spec().n * std::bit_ceil(level) / device::PrimeList::kMost));
}

device::View slices_of(const device::View& x, std::size_t limb, std::size_t words) {
  device::View v = x.with_limbs(limb, 1);
  for (int i = v.axes; i > 0; --i) v.shape[i] = v.shape[i - 1], v.stride[i] = v.stride[i - 1];
  ++v.axes;
  v.shape[0] = v.n / words, v.stride[0] = static_cast<std::ptrdiff_t>(words), v.n = words;
  return v;
}

/// Views the slice axis of a tensor as limbs.
device::View with_slices_as_limbs(const RnsTensor& x) {
  device::View v = x.view();
  v.limbs = v.shape[0], v.limb_stride = static_cast<std::size_t>(v.stride[0]);
  --v.axes;
  for (int i = 0; i < v.axes; ++i) v.shape[i] = v.shape[i + 1], v.stride[i] = v.stride[i + 1];
  return v;
}

RnsTensor make_slices(Context& c, const device::PrimeList& primes, ring::Shape shape, std::size_t components,
                      std::size_t words) {
  shape.insert(shape.begin(), primes.size() * c.spec().n / words);
  return {c.rlwe().engine(), shape, components, device::PrimeList{0}, Domain::ntt, ring::Secrecy::open, words};
}

enum class To : unsigned char { slices, whole };
/// Copies between whole polynomials and their slices.
void copy_slices(ring::Engine& e, To to, const RnsTensor& whole, const RnsTensor& sliced) {
  const std::size_t limbs = whole.primes().size(), slices = sliced.shape()[0] / limbs;
  for (std::size_t l = 0; l < limbs; ++l) {
    const device::View some = slices_of(whole.view(), l, sliced.view().n);
    const device::View part = sliced.slice(0, l * slices, 1, slices).view();
    e.enqueue(to == To::slices ? device::Copy{some, part} : device::Copy{part, some});
  }
}

/// Returns the inner products of the rows with several vectors in one pass over the rows, two components per vector. A
/// vector has one ciphertext per number, [columns], in the NTT domain.
RnsTensor products(Context& c, const ClearRowsData& d, const std::vector<RnsTensor>& vectors) {
  ring::Engine& e = c.engine();
  const std::size_t columns = d.plan.columns, n = c.spec().n, words = d.words.view().n, results = 2 * vectors.size();
  const device::PrimeList primes = vectors.front().primes();
  const RnsTensor sums(c.rlwe().engine(), {d.blocks()}, results, primes, Domain::ntt);
  if (d.blocks() == 0) return sums;
  if (!d.sliced) {
    const RnsTensor factors(c.rlwe().engine(), {}, results * columns, primes, Domain::ntt);
    device::Gather gather;
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t v = 0; v < vectors.size(); ++v)
        gather.pieces.push_back({vectors[v].drop_axis(0, j).view(), factors.with_components(j * results + 2 * v, 2).view()});
    }
    e.enqueue(gather);
    e.enqueue(device::InnerProduct{e.prepared(), primes, d.words.view(), factors.view(),
                                   device::PrimeList::range(0, primes.size()), sums.view()});
    return sums;
  }
  const RnsTensor factors = make_slices(c, primes, {columns}, results, words);
  for (std::size_t v = 0; v < vectors.size(); ++v) copy_slices(e, To::slices, vectors[v], factors.with_components(2 * v, 2));
  device::View key = with_slices_as_limbs(factors);
  key.axes = 0, key.components = columns * results;  // the columns are contiguous
  const RnsTensor parts = make_slices(c, primes, {d.blocks()}, results, words);
  device::PrimeList prime_of;
  for (std::size_t i = 0; i < parts.shape()[0]; ++i) prime_of.push_back(primes[i * words / n]);
  e.enqueue(device::InnerProduct{e.prepared(), prime_of, with_slices_as_limbs(d.words), key,
                                 device::PrimeList::range(0, prime_of.size()), with_slices_as_limbs(parts)});
  copy_slices(e, To::whole, sums, parts);
  return sums;
}

/// Throws the errors of `ClearRows::times` for one vector.
void require_vector(const ClearRowsData& d, const CiphertextData& x, const EvaluationKeys& keys) {
  require<MismatchError>(x.context == d.context,
                         "the vector and the rows have different parameter sets; encrypt the vector with the rows' set");
  require_same(x, keys.data().context, keys.data().keys.id, "these evaluation keys");
  require<ShapeError>(
      x.shape() == Shape{d.plan.ciphertexts} && x.packing == Packing::coefficients && x.width == d.plan.spread,
      "this tensor is not a vector for these rows; make it with encrypt_vector, one component per column");
  require<LevelError>(x.level() == d.context->rlwe().top_level() && x.degree() == 1,
                      "the vector was changed by an operation; pass the result of encrypt_vector");
}

/// Returns one ciphertext per number of a vector, at the plan's level.
RnsTensor numbers_of(Context& c, const ClearRowsData& d, const CiphertextData& x, const EvaluationKeys& keys) {
  std::vector<const rlwe::SwitchKey*> switch_keys;
  for (const std::int64_t step : d.plan.rotations)
    switch_keys.push_back(
        &schemes::key_of(keys, c.row_galois(step), step, c.column_galois(), "no column rotation is needed"));
  const RnsTensor all = expanded(c, d, ring::to_domain(x.front(), Domain::coefficient), switch_keys);
  const RnsTensor some = all.reshape({d.plan.spread * d.plan.ciphertexts}).slice(0, 0, 1, d.plan.columns);
  return ring::to_domain(c.rules().switch_level(0, some, d.plan.level), Domain::ntt);
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
  require<ShapeError>(block < d.blocks(), "the index of the block is out of range");
  require<ShapeError>(values.size() == std::min(n, d.rows - block * n) * columns,
                      "the number of values must be the rows of the block times the columns");
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
    copy_slices(e, To::slices, rows, d.words.drop_axis(1, block));
  else
    e.enqueue(device::Copy{rows.view(), d.words.drop_axis(0, block).view()});
}

std::vector<Ciphertext> ClearRows::times(const std::vector<Ciphertext>& vectors,
                                         const std::vector<EvaluationKeys>& keys) const {
  constexpr std::size_t kTogether = 4;  // vectors per pass, so that the factors of a slice stay in cache
  const ClearRowsData& d = *data_;
  Context& c = *d.context;
  require<ShapeError>(vectors.size() == keys.size(), "the number of evaluation keys must equal the number of vectors");
  for (std::size_t v = 0; v < vectors.size(); ++v) require_vector(d, vectors[v].data(), keys[v]);
  ProgressSteps steps(2 * vectors.size());  // a vector's expansion, and its products
  std::vector<Ciphertext> made;
  for (std::size_t first = 0; first < vectors.size(); first += kTogether) {
    const std::size_t count = std::min(kTogether, vectors.size() - first);
    std::vector<RnsTensor> numbers;
    for (std::size_t v = first; v < first + count; ++v)
      numbers.push_back(steps.part(1, [&] { return numbers_of(c, d, vectors[v].data(), keys[v]); }));
    const RnsTensor sums = ring::to_domain(products(c, d, numbers), Domain::coefficient);
    for (std::size_t v = 0; v < count; ++v) {
      const CiphertextData& x = vectors[first + v].data();
      CiphertextData r = derived(x);
      r.width = c.spec().n;
      r.vouched = x.vouched && keys[first + v].data().vouched;
      r.independent = r.distinct = false;
      r.noise = {product_noise(c, d.plan, x.noise[0])};
      r.parts = {count == 1 ? sums : ring::copy(sums.with_components(2 * v, 2))};
      made.push_back(finish(std::move(r)));
    }
    steps.add(count);
  }
  return made;
}

}  // namespace heliograph::exact
