// What the operations share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

/// Scales that differ by less than this share are taken as one.
inline constexpr double kScaleTolerance = 0x1p-30;

/// One number for all ciphertexts.
inline Values number(double value) { return {{value}, {}, 1, false}; }
/// Throws ScaleError where the scales differ by more.
void require_scales(double a, double b);
/// The ciphertext said to be at `scale`: the difference becomes noise.
void settle_scale(CiphertextData& x, double scale);
/// Throws ScaleError where a rescaling to that level and scale would leave nothing but its rounding error.
void require_scale(const Context& c, std::size_t level, double scale);
/// Throws LevelError unless `scale` leaves room at the ciphertext's level.
void require_room(const CiphertextData& x, double scale);
/// One level down: everything but the tensor. `extra` is noise, log2, that is divided too. LevelError, ScaleError.
CiphertextData rescaled(const CiphertextData& x, std::size_t components, double extra);
/// All limbs times `whole`.
RnsTensor times_whole(Context& c, const RnsTensor& x, double whole);
/// At a lower level as it is, at its own scale, where that level's primes are all among its own; else `lower`.
Ciphertext confined(const Ciphertext& a, std::size_t level);
/// The numbers in the tail (where it is one of numbers) subtracted: by a plaintext, at no level.
Ciphertext cleared(const Ciphertext& a);
/// The values alone, whatever stands behind them: one level down, but where that is zero. LevelError.
Ciphertext masked(const Ciphertext& a);
/// What rotations may turn: nothing that is not the tensor's own stands behind its values. Masks, at a level, what is unknown there.
Ciphertext own(const Ciphertext& a);
/// What may meet operands of `width` values: with zeros behind its own where they are fewer, or what it has everywhere.
Ciphertext of_width(const Ciphertext& a, std::size_t width);
/// How far a tail's numbers may be off, which doubles follow.
rlwe::Figure tail_noise(const CiphertextData& x);
/// The number of each item plus a tensor of its shape, at a scale.
/// `over`: into x's memory.
RnsTensor plus_numbers(Context& c, const RnsTensor& x, double scale, const std::vector<std::complex<double>>& numbers,
                       bool over = false);
/// All of a sum or a product with numbers but its tensor, of `shape`; `numbers` are its items'. A scale of 0 becomes the one meant.
CiphertextData plus_figures(const CiphertextData& x, const Values& values, const Shape& shape);
CiphertextData times_figures(const CiphertextData& x, const Values& values, const Shape& shape,
                             const std::vector<std::complex<double>>& numbers, double& scale);
/// What a sum takes of a ciphertext: it times a number that is rounded at `scale`, or as it is.
struct Summand {
  Ciphertext x;
  std::optional<double> factor = {};
  double scale = 1;
};
/// In one pass what multiply_constants of each, add and, of a constant that is not 0, add_constants give one after the other. The
/// summands have one level and one width.
Ciphertext weighted_sum(std::vector<Summand> summands, double constant = 0);
/// add_constants; `over`: into a's memory.
Ciphertext plus_constants(const Ciphertext& a, const Values& values, bool over);
/// A number times what each slot has of its own, encoded for a level at a scale.
using Weights = std::function<Plaintext(std::complex<double> number, std::size_t level, double scale)>;
/// The sum of coefficients[k] * 2 T_k(x / 2), k >= 1, and of coefficients[0]; x of degree one (circuits/ckks/polynomial.cpp).
/// With weights: times them, in no more levels.
Ciphertext evaluate_doubled(const Ciphertext& x, const std::vector<std::complex<double>>& coefficients,
                            const EvaluationKeys& keys, const Progress& progress = {}, const Weights& weights = {});
/// evaluate_polynomial with complex coefficients.
Ciphertext evaluate_complex(const Ciphertext& x, const std::vector<std::complex<double>>& coefficients, Basis basis,
                            const EvaluationKeys& keys, const Progress& progress = {});
Ciphertext of_degree_one(const Ciphertext& a, const EvaluationKeys& keys);
/// The automorphisms of every item, along a new first axis where they are to be stacked; `steps` name them where keys are missing.
CiphertextData turned(const Ciphertext& x, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                      const EvaluationKeys& keys, bool stack, const Progress& progress = {});
const rlwe::SwitchKey& relinearization_key(const EvaluationKeys& keys);
/// MissingKeyError, which names the rotation by its steps.
const rlwe::SwitchKey& rotation_key(const EvaluationKeys& keys, u64 galois, std::int64_t steps);

}  // namespace heliograph::ckks
