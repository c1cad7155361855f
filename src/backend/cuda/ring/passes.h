// The passes of transforms and conversions that composites put together: each one launch.
#pragma once

#include "backend/cuda/ring/forms.h"
#include "backend/cuda/ring/ntt.cuh"
#include "device/kernels.h"

namespace heliograph::backend::cuda {

/// Whether rings of this degree are transformed in columns and rows (composites are fused then).
inline bool has_columns(std::size_t n) { return n >= 4 * kRow; }

// Defined for each field in a file of its own.
template <class F>
void forward_columns(Queue&, const char* name, const CudaRing&, const PrimeList&, const Source& in, const View& out);
template <class F>
void inverse_columns(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& in, const View& out);
template <class F>
void forward_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& out);  // in place
template <class F>
void forward_ntt(Queue&, const CudaRing&, const PrimeList&, const View& a, const View& out);
template <class F>
void inverse_ntt(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& a, const View& out);

/// The part of a product between the column passes: rows of a and b (components 0.. of `e`) to rows of their product, in
/// place in the first components.
template <class F>
void tensor_rows(Queue&, const CudaRing&, const PrimeList&, const View& e, bool square);
/// The part of a key switch between the column passes: rows of `digits` to rows of the two sums with `key`. `transformed`:
/// the digits have been transformed wholly before.
template <class F>
void key_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& digits, bool transformed,
              const View& key, const PrimeList& key_limbs, const View& sum);

/// A key switch between the raised digits' column passes and the division, in the NTT domain.
struct SwitchPass {
  const char* name;
  const device::KeySwitchPlan& plan;  // plan.down is simple
  const View& digits;
  const View* own;  // what was decomposed, in the NTT domain: a digit's own limbs; null: all digits are transformed
  const u32* turn;  // of `digits`, `own` and `add` in the NTT domain (CudaPermutation::table); null: none
  const View& key;
  const View* add;
  const View &kept, &divided;  // limbs of the sums that stay, words; rows of those divided by
};
template <class F>
void switch_rows(Queue&, const CudaRing&, const SwitchPass&);
/// The end of a division: own times `beside`, plus the rows of `rest`. `out` may be either.
template <class F>
void divide_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& rest, const View& beside,
                 const device::LimbConstants& own, const View& out);

/// Some key switches of a call, from one of them on: an item of every view is one of them, with its items beside each other.
struct KeySums {
  const device::ApplyKeys& call;
  std::size_t first;
  View digits, added;  // words
};
/// The sums of the limbs divided by: their rows, as Values for the column pass.
template <class F>
void divisor_sums(Queue&, const CudaRing&, const KeySums&, const View& out);
/// The sums of the limbs that stay, divided: `rest` has the remainders' rows.
template <class F>
void divided_sums(Queue&, const CudaRing&, const KeySums&, const View& rest, const View& out);

/// The keys of a linear sum's steps, all laid out alike, from one of them on.
struct StepKeys {
  const device::LinearPlan& plan;
  const device::In* keys;
};
/// Baby steps: sums[giant] of the giant steps [first, first + count) of digits (words), for every item.
template <class F>
void linear_babies(Queue&, const CudaRing&, const StepKeys&, const View& digits, const View& x, const View& plaintexts,
                   std::size_t first, std::size_t count, const View& sums);
/// total = added (may be null, or `total`) + giant steps [first, first + count), which turn, from the columns of their digits and
/// the first components of their sums. The first of `keys` is that of step `first`.
template <class F>
void linear_giants(Queue&, const CudaRing&, const StepKeys&, const View& digits, const View& sums, std::size_t first,
                   std::size_t count, const View* added, const View& total);

Source plain_source(const View& a);
template <class F>
NttArguments<F> ntt_arguments(const CudaRing& ring, const PrimeList& primes, const Source& in, const View& out, u32 parts,
                              bool inverse) {
  return {.in = in,
          .out = strided(out),
          .grid = Grid(parts, out),
          .primes = primes_of(primes),
          .table = ring.primes().as<typename F::Prime>(),
          .twiddles = (inverse ? ring.inverse() : ring.forward()).template as<typename F::Constant>(),
          .n = static_cast<u32>(out.n),
          .components = Divisor(static_cast<u32>(out.components)),
          .polynomials = static_cast<u32>(out.components * out.items())};
}

}  // namespace heliograph::backend::cuda
