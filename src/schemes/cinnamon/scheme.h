// What instructions ask of a scheme. Two have them: CKKS and BGV, whose ciphertexts rest in the NTT domain.
#pragma once

#include <variant>

#include "heliograph/program.h"
#include "program/limbs/link.h"
#include "schemes/ckks/context.h"
#include "schemes/exact/context.h"

namespace heliograph::cinnamon {

/// A parameter set.
class Scheme {
 public:
  // Throws ParameterError for schemes that have none.
  explicit Scheme(const AnyKeys& keys);
  explicit Scheme(const AnyCiphertext& x);
  explicit Scheme(std::shared_ptr<ckks::Context> context) : context_(std::move(context)) {}
  explicit Scheme(std::shared_ptr<exact::Context> context);
  bool operator==(const Scheme& other) const = default;

  rlwe::Context& rlwe() const;
  const std::shared_ptr<rlwe::Context>& rlwe_shared() const;
  /// Level of the fewest primes that holds so many.
  std::size_t level_of(std::size_t limbs) const;
  ring::Engine& engine() const { return *rlwe().engine(); }
  /// The same set where the secrets are; for the process that has them.
  const std::shared_ptr<rlwe::Context>& key_holder() const;
  /// Galois elements: of rotations, powers of `generator`; and of the one that is none, CKKS's conjugation, BGV's exchange of rows.
  math::u64 generator() const;
  math::u64 rotation(std::int64_t steps) const;
  math::u64 other() const;
  /// Null unless it is of that scheme.
  template <class C>
  const std::shared_ptr<C>* as() const {
    return std::get_if<std::shared_ptr<C>>(&context_);
  }
  const std::shared_ptr<ckks::Context>& ckks() const;

 private:
  std::variant<std::shared_ptr<ckks::Context>, std::shared_ptr<exact::Context>> context_;
};

const rlwe::EvaluationKeys& switch_keys(const AnyKeys& keys);
/// Its tensor; ciphertexts of programs have one. Throws ParameterError.
const ring::RnsTensor& tensor_of(const AnyCiphertext& x);

/// A ciphertext as a program takes it.
struct Given {
  ring::RnsTensor tensor;  // NTT domain
  double scale = 1;
  bool complex = false;
};
/// For an item of the program. `recorded`: what a program that was written takes there, else null. Throws MismatchError,
/// WrongKeyError, ShapeError, LevelError, ScaleError.
Given given(const Scheme& scheme, const rlwe::KeyId& key, const program::limbs::Item& item, const AnyCiphertext& x,
            const AnyCiphertext* recorded);

/// Whether what was said of a recording's results holds: of the bounds that files say, of those that this process vouches for.
struct Standing {
  bool assumed = false, vouched = false;
};
/// As far as this ciphertext is within what was said of `item` of the recorded one: of CKKS.
Standing within(const AnyCiphertext& x, const AnyCiphertext& recorded, std::size_t item);

/// A result of a program that was written: as `item` of the recorded one but for its words and shape, with noise and ranges as far as
/// they stand. `complex`: whether an operand was.
AnyCiphertext result(const AnyCiphertext& recorded, std::size_t item, const rlwe::KeyId& key, ring::RnsTensor tensor,
                     bool complex, Standing standing);

}  // namespace heliograph::cinnamon
