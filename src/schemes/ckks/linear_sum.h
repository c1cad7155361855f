// Sums of plaintexts times rotations of one ciphertext, rescaled: one operation, with one rounding at its end.
#pragma once

#include <functional>

#include "device/plans.h"
#include "schemes/ckks/context.h"

namespace heliograph::ckks {

using LinearTerm = device::LinearPlan::Term;

struct LinearSum {
  Context* context = nullptr;           // which outlives it
  std::size_t level = 0;                // of the operand
  std::size_t places = 0;               // that rotations turn
  std::vector<std::int64_t> rotations;  // of the baby steps, then the giant steps; 0 is none
  std::shared_ptr<const device::LinearPlan> plan;
  RnsTensor plaintexts;        // one component each, over the level's and the special primes; words: see make_linear_sum
  bool own_keys = false;       // those of BootstrappingKeys::to_coefficients
  std::vector<double> bounds;  // log2 of each plaintext's largest value
  bool complex = false;
};

/// What a sum's keys are given in where they are not the usual ones: `special` are those among the primes that are divided by.
struct OwnKeys {
  device::PrimeList special, primes;
};

/// Babies and giants are rotations, 0 first where it is one of them; values(first, count) gives the plaintexts of some of the
/// terms, [count] of any width. `places`: those that rotations turn, the period at least. Where all plaintexts repeat along the slots,
/// the words of their limbs come in runs and are kept once each: those of the one that repeats least say how many.
/// Throws PlaintextRangeError, OutOfMemoryError.
LinearSum make_linear_sum(Context& context, std::size_t level, std::size_t places, const std::vector<std::int64_t>& babies,
                          const std::vector<std::int64_t>& giants, std::vector<LinearTerm> terms,
                          const std::function<Values(std::size_t first, std::size_t count)>& values,
                          const OwnKeys* own = nullptr);

/// The same of a tensor, whose noise and values the caller knows.
RnsTensor apply(const LinearSum& sum, const RnsTensor& x, const EvaluationKeys& keys, const Progress& progress = {});
/// sum over terms of plaintext * rotations, giant steps applied after: rotate(sum_b plaintext * rotate(x, b), g), one level
/// down. `x` has degree one and the sum's level. Where keys compose rotations, the terms of steps without a key are sums of their own,
/// each rounded, of rotations of `x` or rotated after. Throws MissingKeyError and the like.
Ciphertext apply(const LinearSum& sum, const Ciphertext& x, const EvaluationKeys& keys, const Progress& progress = {});

}  // namespace heliograph::ckks
