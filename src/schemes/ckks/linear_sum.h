// Sums of plaintexts times rotations of one ciphertext, then rescaled: one operation with a single final rounding.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "device/plans.h"
#include "schemes/ckks/context.h"

namespace heliograph::ckks {

using LinearTerm = device::LinearPlan::Term;

struct LinearSum {
  Context* context = nullptr;                      // must outlive the sum
  std::size_t level = 0;                           // level of the operand
  std::size_t places = 0;                          // modulus of rotation steps
  std::vector<std::int64_t> rotations;             // rotations of the baby steps, then of the giant steps; 0: no rotation
  std::shared_ptr<const device::LinearPlan> plan;  // for keys of the set's own gadget, or of the sum's own keys
  /// Plans for keys that were made for levels, by level; made at first use.
  struct LevelPlans {
    std::mutex mutex;
    std::map<std::size_t, std::shared_ptr<const device::LinearPlan>> plans;
  };
  std::shared_ptr<LevelPlans> level_plans = std::make_shared<LevelPlans>();
  RnsTensor plaintexts;        // one component each, over the level's and the special primes; words: see make_linear_sum
  bool own_keys = false;       // uses BootstrappingKeys::to_coefficients
  std::vector<double> bounds;  // log2 of each plaintext's largest value
  bool complex = false;
};

/// Primes of a sum's own keys, if they are not the usual ones. `special`: the divisor's primes.
struct OwnKeys {
  device::PrimeList special, primes;
};

/// Plaintexts of a sum's terms: one component each.
struct EncodedTerms {
  /// NTT domain, over the primes of the sum, with one word for each run of equal words. If `stored`: coefficients over a
  /// few primes, whose product exceeds each coefficient; each use transforms them.
  RnsTensor words;
  bool stored = false;
  std::vector<double> bounds;  // log2 of each plaintext's largest value
  bool complex = false;
};
/// Encodes `count` plaintexts for operands of `level`, over `primes`. values(first, count) returns some of them, [count], of
/// any width up to `places`. `store`: coefficients instead of transforms, if these take less memory. `repeats`: the values,
/// a power of two of at least 4, repeat through all slots. Throws PlaintextRangeError, OutOfMemoryError.
EncodedTerms encode_terms(Context& context, std::size_t level, std::size_t places, const device::PrimeList& primes,
                          std::size_t count, const std::function<Values(std::size_t first, std::size_t count)>& values,
                          bool store = false, bool repeats = false);
/// Returns the transforms of stored terms [first, first + count).
RnsTensor transformed_terms(Context& context, const EncodedTerms& terms, const device::PrimeList& primes, std::size_t first,
                            std::size_t count);

/// `babies` and `giants` are rotations, with 0 first if present. values(first, count) returns the plaintexts of some terms,
/// [count], of any width. `places`: the modulus of rotation steps, at least the period. If all plaintexts repeat along the
/// slots, each run of equal words is stored once; the plaintext with the longest period decides. Throws PlaintextRangeError,
/// OutOfMemoryError.
LinearSum make_linear_sum(Context& context, std::size_t level, std::size_t places, const std::vector<std::int64_t>& babies,
                          const std::vector<std::int64_t>& giants, std::vector<LinearTerm> terms,
                          const std::function<Values(std::size_t first, std::size_t count)>& values,
                          const OwnKeys* own = nullptr, bool repeats = false);

/// Applies the sum to a tensor without metadata.
RnsTensor apply(const LinearSum& sum, const RnsTensor& x, const EvaluationKeys& keys);
/// Returns the sum over terms of rotate(plaintext * rotate(x, baby), giant), one level down. `x` has degree one and the
/// sum's level. If keys compose rotations, terms whose steps have no key form separate sums, each rounded. The separate sums
/// act on rotations of `x`, or are rotated afterwards. Throws MissingKeyError, MismatchError or LevelError.
Ciphertext apply(const LinearSum& sum, const Ciphertext& x, const EvaluationKeys& keys);

}  // namespace heliograph::ckks
