// Helpers shared by the operations.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Scales whose relative difference is at most this count as equal.
inline constexpr double kScaleTolerance = 0x1p-30;

inline Values number(double value) { return {{value}, {}, 1, false}; }
/// Throws ScaleError if the scales differ by more than the tolerance.
void require_scales(double a, double b);
/// Sets the scale to `scale`; the relative difference becomes noise.
void settle_scale(CiphertextData& x, double scale);
/// Throws ScaleError if rescaling to that level and scale would leave only rounding error.
void require_scale(const Context& c, std::size_t level, double scale);
/// Throws LevelError unless a product at `scale` fits the modulus of its level.
void require_room(const CiphertextData& x, double scale);
/// Returns the metadata of a rescaled ciphertext, one level down. `extra`: log2 of noise that is added before the
/// division. Throws LevelError, ScaleError.
CiphertextData rescaled(const CiphertextData& x, std::size_t components, double extra);
RnsTensor times_whole(Context& c, const RnsTensor& x, double whole);
/// Brings a tensor to a lower level and another scale than that level's.
Ciphertext lower_to(const Ciphertext& a, std::size_t level, double scale);
/// Drops limbs to reach a lower level at the same scale, if the ciphertext has all primes of that level; else applies
/// `lower`.
Ciphertext confined(const Ciphertext& a, std::size_t level);
/// Subtracts a plaintext with the known numbers of the padding slots, which makes these slots zero and takes no level.
Ciphertext cleared(const Ciphertext& a);
/// Sets the padding slots to zero. Takes one level, unless the slots are zero already. Throws LevelError.
Ciphertext masked(const Ciphertext& a);
/// Returns a tensor that may be rotated: if padding slots have other contents than the tensor's own values, masks them,
/// which takes a level.
Ciphertext own(const Ciphertext& a);
/// Extends `a` to `width` values. The new slots are zero, except in a tensor with Tail::even: there they equal the
/// ciphertext's one value.
Ciphertext of_width(const Ciphertext& a, std::size_t width);
/// Returns the error of the known numbers of padding slots, which are tracked as doubles.
rlwe::Figure tail_noise(const CiphertextData& x);
/// Adds one number per item at `scale`; the number of items is x's. `over`: writes into x's memory.
RnsTensor plus_numbers(Context& c, const RnsTensor& x, double scale, const std::vector<std::complex<double>>& numbers,
                       bool over = false);
/// Return the metadata of a sum with numbers, or a product with numbers, of the shape `shape`. `numbers` has one number
/// per item. A scale of 0 is replaced by the default.
CiphertextData plus_figures(const CiphertextData& x, const Values& values, const Shape& shape);
CiphertextData times_figures(const CiphertextData& x, const Values& values, const Shape& shape,
                             const std::vector<std::complex<double>>& numbers, double& scale);
/// Term of a weighted sum: the ciphertext times a number that is encoded at `scale`, or the ciphertext alone.
struct Summand {
  Ciphertext x;
  std::optional<double> factor = {};
  double scale = 1;
};
/// Computes a weighted sum in one pass, with the bits of multiply_constants of each summand, their sum, and add_constants
/// of a nonzero constant. All summands must have the same level and the same width.
Ciphertext weighted_sum(std::vector<Summand> summands, double constant = 0);
/// Applies add_constants. `over`: writes into a's memory.
Ciphertext plus_constants(const Ciphertext& a, const Values& values, bool over);
/// Encodes a number times a fixed weight per slot, for a level at a scale.
using Weights = std::function<Plaintext(std::complex<double> number, std::size_t level, double scale)>;
/// Returns the sum of coefficients[k] * 2 T_k(x / 2), k >= 1, plus coefficients[0]; x has degree one
/// (circuits/ckks/polynomial.cpp). `weights` multiplies the sum, without another level.
Ciphertext evaluate_doubled(const Ciphertext& x, const std::vector<std::complex<double>>& coefficients,
                            const EvaluationKeys& keys, const Weights& weights = {});
/// Evaluates a polynomial with complex coefficients. `guard`: as in evaluate_polynomial.
Ciphertext evaluate_complex(const Ciphertext& x, const std::vector<std::complex<double>>& coefficients, Basis basis,
                            const EvaluationKeys& keys, const std::string& guard = {});
Ciphertext of_degree_one(const Ciphertext& a, const EvaluationKeys& keys);
/// Applies the automorphisms to every item; `stack` stacks the results along a new first axis. Errors name missing keys
/// by their `steps`.
CiphertextData turned(const Ciphertext& x, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                      const EvaluationKeys& keys, bool stack);
const rlwe::SwitchKey& relinearization_key(const EvaluationKeys& keys);
/// Returns the lowest level from `level` on for which keys of all these automorphisms were made; 0 if there is none, for the
/// set's usual keys.
std::size_t key_level_of(const EvaluationKeys& keys, const std::vector<u64>& galois, std::size_t level);
/// Returns the key of a rotation that was made for `key_level` (see key_level_of), for an operand of `level`. Throws
/// MissingKeyError, which names the rotation by its steps; LevelError if its keys are for lower levels.
const rlwe::SwitchKey& rotation_key(const EvaluationKeys& keys, u64 galois, std::int64_t steps, std::size_t key_level,
                                    std::size_t level);

}  // namespace heliograph::ckks
