// Noise and ranges of instruction programs' results. Noise and ranges are those of CKKS operations, if the limbs can be
// interpreted as CKKS ciphertexts.
#pragma once

#include <optional>
#include <vector>

#include "schemes/cinnamon/scheme.h"

namespace heliograph::cinnamon {

/// Metadata of a tensor: its words are its values times `scale`, plus noise of this canonical norm (log2).
struct Bound {
  rlwe::Figure noise = 0;
  ckks::Ranges ranges;
  double scale = 1;
};

/// Bounds of a run's inputs, one for each item. The noise of a plaintext or scalar is its rounding.
struct Taken {
  std::vector<Bound> items;
  ring::Shape shape;     // common shape of the ciphertexts
  bool complex = false;  // whether a ciphertext or plaintext is complex
  bool keys_vouched = false;
};

/// A program's results as operations on ciphertexts: sums, products, rescalings. Key switches only add noise to sums.
class Meaning {
 public:
  /// Interprets the program's limbs. A result has no meaning, that is no interpretation as ciphertext operations, if it
  /// raises a modulus, or if one of its key switches omits digits or includes a rescaling.
  static Meaning of(const program::limbs::Linked& program, const Scheme& scheme);
  /// Returns the bound of each result; nullopt if a result is not a CKKS ciphertext.
  std::vector<std::optional<Bound>> bounds(const ckks::Context& c, const Taken& taken) const;

  struct Step {
    enum class Kind : unsigned char { item, sum, product, rescale };
    Kind kind = Kind::item;
    std::uint32_t a = 0, b = 0;  // item: its index; product: two steps; rescale: one step
    bool square = false;
    std::vector<std::pair<std::uint32_t, std::int64_t>> parts;  // sum: steps and multiplicities
    double keys = kNothing;                                     // sum: log2 of the noise of its key switches
    double rounding = kNothing;                                 // sum, rescale: log2 of the noise of its divisions
    double log_ratio = 0;                                       // rescale: log2 of the divisor
  };
  static constexpr double kNothing = -1e9;

 private:
  std::vector<Step> steps_;
  std::vector<std::optional<std::uint32_t>> results_;
};

}  // namespace heliograph::cinnamon
