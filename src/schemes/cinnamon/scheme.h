// The schemes of instruction programs: CKKS and BGV, whose ciphertexts are stored in the NTT domain.
#pragma once

#include <variant>

#include "heliograph/program.h"
#include "program/limbs/link.h"
#include "schemes/ckks/context.h"
#include "schemes/exact/context.h"

namespace heliograph::cinnamon {

/// A parameter set of one of these schemes.
class Scheme {
 public:
  // Throws ParameterError for other schemes.
  explicit Scheme(const AnyKeys& keys);
  explicit Scheme(const AnyCiphertext& x);
  explicit Scheme(std::shared_ptr<ckks::Context> context) : context_(std::move(context)) {}
  explicit Scheme(std::shared_ptr<exact::Context> context);
  bool operator==(const Scheme& other) const = default;

  rlwe::Context& rlwe() const;
  const std::shared_ptr<rlwe::Context>& rlwe_shared() const;
  /// Returns the lowest level with at least `limbs` primes.
  std::size_t level_of(std::size_t limbs) const;
  ring::Engine& engine() const { return *rlwe().engine(); }
  /// Returns the same set in the key holder. Call this function only in the key holder.
  const std::shared_ptr<rlwe::Context>& key_holder() const;
  /// Galois elements: rotations are powers of `generator`; `other` is CKKS's conjugation or BGV's exchange of rows.
  math::u64 generator() const;
  math::u64 rotation(std::int64_t steps) const;
  math::u64 other() const;
  /// Returns the context of scheme C, or null for the other scheme.
  template <class C>
  const std::shared_ptr<C>* as() const {
    return std::get_if<std::shared_ptr<C>>(&context_);
  }
  const std::shared_ptr<ckks::Context>& ckks() const;

 private:
  std::variant<std::shared_ptr<ckks::Context>, std::shared_ptr<exact::Context>> context_;
};

const rlwe::EvaluationKeys& switch_keys(const AnyKeys& keys);
/// Returns the tensor of a ciphertext; programs use ciphertexts of one tensor. Throws ParameterError.
const ring::RnsTensor& tensor_of(const AnyCiphertext& x);

struct Given {
  ring::RnsTensor tensor;  // NTT domain
  double scale = 1;
  bool complex = false;
};
/// Checks an input for an item of the program. `recorded`: the input of the recording if the program was written from
/// one, else null. Throws MismatchError, WrongKeyError, ShapeError, LevelError, ScaleError.
Given given(const Scheme& scheme, const rlwe::KeyId& key, const program::limbs::Item& item, const AnyCiphertext& x,
            const AnyCiphertext* recorded);

/// Whether the inputs satisfy the bounds with which the program was recorded: assumed bounds and trusted bounds.
struct Standing {
  bool assumed = false, vouched = false;
};
/// Returns whether the bounds of a CKKS input satisfy those recorded for `item`.
Standing within(const AnyCiphertext& x, const AnyCiphertext& recorded, std::size_t item);

/// Makes a result of a written program from the recorded metadata of `item`. Copies the noise and ranges for which
/// `standing` says that the recorded bounds hold. `complex`: whether an operand has complex values.
AnyCiphertext result(const AnyCiphertext& recorded, std::size_t item, const rlwe::KeyId& key, ring::RnsTensor tensor,
                     bool complex, Standing standing);

}  // namespace heliograph::cinnamon
