// Noise and ranges of what a program of instructions gives: those that CKKS's own operations give, where its limbs are read as such.
#pragma once

#include <optional>
#include <vector>

#include "schemes/cinnamon/scheme.h"

namespace heliograph::cinnamon {

/// What is known of a tensor: its words are its values times `scale`, plus noise of this canonical norm (log2).
struct Bound {
  rlwe::Figure noise = 0;
  ckks::Ranges ranges;
  double scale = 1;
};

/// What a run takes, of each item: of a plaintext or scalar the noise is its rounding.
struct Taken {
  std::vector<Bound> items;
  ring::Shape shape;     // of all ciphertexts
  bool complex = false;  // whether a ciphertext or a plaintext is
  bool keys_vouched = false;
};

/// A program's results as operations on ciphertexts: sums, products, rescalings. Key switches are noise of sums.
class Meaning {
 public:
  /// Reads the program's limbs as such. A result has no meaning here where they cannot be: where a modulus is raised, a key switch
  /// leaves out digits, or a rescaling is merged with a key switch's division.
  static Meaning of(const program::limbs::Linked& program, const Scheme& scheme);
  /// Each result's bound, none for those without a meaning.
  std::vector<std::optional<Bound>> bounds(const ckks::Context& c, const Taken& taken) const;

  struct Step {
    enum class Kind : unsigned char { item, sum, product, rescale };
    Kind kind = Kind::item;
    std::uint32_t a = 0, b = 0;  // item: which; product: steps; rescale: a step
    bool square = false;
    std::vector<std::pair<std::uint32_t, std::int64_t>> parts;  // sum: steps, and how often
    double keys = kNothing;                                     // sum: log2 of the noise of its key switches
    double rounding = kNothing;                                 // sum, rescale: log2 of that of its divisions
    double log_ratio = 0;                                       // rescale: log2 of what it divides by
  };
  static constexpr double kNothing = -1e9;

 private:
  std::vector<Step> steps_;
  std::vector<std::optional<std::uint32_t>> results_;
};

}  // namespace heliograph::cinnamon
