// Passes of transforms and conversions for composites. Each function is one launch.
#pragma once

#include "backend/cuda/ring/forms.h"
#include "backend/cuda/ring/ntt.cuh"
#include "device/kernels.h"

namespace heliograph::backend::cuda {

/// Returns whether rings of this degree are transformed by a column pass and a row pass; only then composites are fused.
inline bool has_columns(std::size_t n) { return n >= 4 * kRow; }

// Each field defines these functions in its own file.
template <class F>
void forward_columns(Queue&, const char* name, const CudaRing&, const PrimeList&, const Source& in, const View& out);
template <class F>
void inverse_columns(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& in, const View& out);
template <class F>
void forward_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& out);  // transforms in place
template <class F>
void inverse_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& in, const View& out);
template <class F>
void forward_ntt(Queue&, const CudaRing&, const PrimeList&, const View& a, const View& out);
template <class F>
void inverse_ntt(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& a, const View& out);

/// Returns whether `convert_columns` takes this conversion, and is faster than three launches, for results like `out`.
bool fuses_columns(const CudaRing&, const CudaConversion&, const View& out);
/// Runs the inverse column pass of x, the conversion, and the forward column pass of the results. `from`, `to`: the primes
/// of the limbs of x and `out`. Results are congruent to those of the three passes.
void convert_columns(Queue&, const char* name, const CudaRing&, const CudaConversion&, const PrimeList& from, const View& x,
                     const PrimeList& to, const View& out);

/// Runs the part of a product between the column passes: multiplies the rows of a and b (the components of `e`). The product
/// overwrites the first components of `e`.
template <class F>
void tensor_rows(Queue&, const CudaRing&, const PrimeList&, const View& e, bool square);
/// Runs the part of a key switch between the column passes: multiplies rows of `digits` by `key` and writes rows of the two
/// sums. `transformed`: the digits are in the NTT domain.
template <class F>
void key_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& digits, bool transformed,
              const View& key, const PrimeList& key_limbs, const View& sum);

/// The part of a key switch between the column passes of the extended digits and the division, in the NTT domain.
struct SwitchPass {
  const char* name;
  const device::KeySwitchPlan& plan;  // the plan; its division `down` must be simple (DividePlan::simple)
  const View& digits;
  const View* own;  // the decomposed polynomial in the NTT domain: the digits' own limbs; null: all digits are transformed
  const u32* turn;  // permutation of `digits`, `own` and `add` in the NTT domain (CudaPermutation::table); null: identity
  const View& key;
  const View* add;
  const View &kept, &divided;  // words of the sums' remaining limbs; rows of the limbs that are divided out
};
template <class F>
void switch_rows(Queue&, const CudaRing&, const SwitchPass&);
/// Computes the end of a division: own times `beside`, plus the rows of `rest`. `out` may be the memory of `beside` or of
/// `rest`.
template <class F>
void divide_rows(Queue&, const char* name, const CudaRing&, const PrimeList&, const View& rest, const View& beside,
                 const device::LimbConstants& own, const View& out);

/// Consecutive key switches of a call, from `first` on. Each item of a view belongs to one of these key switches.
struct KeySums {
  const device::ApplyKeys& call;
  std::size_t first;
  View digits, added;  // operands in words, not Values
};
/// Computes the sums of the limbs that are divided out: their rows, as Values for the column pass.
template <class F>
void divisor_sums(Queue&, const CudaRing&, const KeySums&, const View& out);
/// Computes the sums of the remaining limbs and divides them; `rest` has the remainders' rows.
template <class F>
void divided_sums(Queue&, const CudaRing&, const KeySums&, const View& rest, const View& out);

/// Keys of a linear sum's giant steps, from one step on; all keys have one layout.
struct StepKeys {
  const device::LinearPlan& plan;
  const device::In* keys;
};
/// Computes the baby steps of the giant steps [first, first + count).
template <class F>
void linear_babies(Queue&, const CudaRing&, const device::BabySteps& call, std::size_t first, std::size_t count);
template <class F>
void linear_turned(Queue&, const CudaRing&, const device::GiantSteps& call, std::size_t first, std::size_t count);
/// total = added (null, or `total`, or another view) + the giant steps [first, first + count) except the identity. Reads
/// their digits after the column pass, and the first components of their sums. keys[0] belongs to step `first`.
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
