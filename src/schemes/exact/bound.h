// Bounds on values. A result is the intended integer while that integer is within half the plaintext modulus; otherwise it
// wraps modulo t undetectably. Bounds are exact integers, so that t/2 + 1 differs from t/2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heliograph::exact {

/// A bound on magnitudes: an integer below 2^4096, or unknown. A result is unknown if one of its operands is unknown.
class Magnitude {
 public:
  Magnitude() = default;            // the bound 0
  Magnitude(std::uint64_t value) {  // NOLINT(google-explicit-constructor): a number is a bound
    if (value) words_ = {value};
  }
  static Magnitude none();
  /// Parses lower-case hexadecimal digits without leading zeros; returns nullopt for any other text.
  static std::optional<Magnitude> from(const std::string& hex);
  /// `words`: lowest first.
  static Magnitude of_words(std::vector<std::uint64_t> words);
  static Magnitude product_of(const std::vector<std::uint64_t>& factors);

  bool known() const { return known_; }
  bool is_zero() const { return known_ && words_.empty(); }
  int bits() const;  // least b with value < 2^b, for a known bound
  std::string hex() const;
  double log2() const;
  const std::vector<std::uint64_t>& words() const { return words_; }
  Magnitude half() const;
  /// Rounds up to the given number of leading binary digits, at most 32.
  Magnitude rounded_up(int digits) const;

  friend Magnitude operator+(const Magnitude& a, const Magnitude& b);
  friend Magnitude operator*(const Magnitude& a, const Magnitude& b);
  /// Returns a - b for known a >= b.
  friend Magnitude operator-(const Magnitude& a, const Magnitude& b);
  /// Returns whether a and b are known and a is at most b.
  friend bool operator<=(const Magnitude& a, const Magnitude& b);
  friend bool operator==(const Magnitude&, const Magnitude&) = default;

 private:
  static constexpr std::size_t kMostWords = 64;
  Magnitude trimmed() &&;

  std::vector<std::uint64_t> words_;  // lowest word first; the last word is not 0
  bool known_ = true;
};
Magnitude larger(const Magnitude& a, const Magnitude& b);
inline std::uint64_t magnitude_of(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}
Magnitude power(const Magnitude& base, std::size_t exponent);

/// A bound on values that holds if all files are truthful: sum c_i D^i, D >= 1. D is a secret: the largest magnitude that
/// one key encrypted in one process without a declared bound. The coefficients are public.
class Growth {
 public:
  /// Identifies the encrypting process: 0 for the one that made the key, else a random number.
  using Session = std::uint64_t;

  Growth() = default;  // an unknown bound
  static Growth constant(Magnitude bound);
  /// Returns the bound D of a session.
  static Growth own(Session session);

  struct Term {
    std::uint32_t degree;
    Magnitude coefficient;
    friend bool operator==(const Term&, const Term&) = default;
  };
  bool known() const { return known_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool open() const { return known_ && !terms_.empty() && terms_.back().degree > 0; }
  Session session() const { return session_; }
  Growth in(Session session) const;
  /// Makes a bound from terms; nullopt unless their degrees ascend.
  static std::optional<Growth> from(std::vector<Term> terms, Session session);

  Magnitude at(const Magnitude& d) const;
  /// Returns whether each coefficient is at most that of `other`, so that the bound is at most `other` for every D.
  bool below(const Growth& other) const;

  // Bounds of different sessions are combined at D = `most`, the largest value that the set encrypts.
  static Growth sum(const Growth& a, const Growth& b, const Magnitude& most);
  static Growth product(const Growth& a, const Growth& b, const Magnitude& most);
  static Growth larger(const Growth& a, const Growth& b, const Magnitude& most);
  Growth times(const Magnitude& factor) const;
  Growth plus(const Magnitude& summand) const;
  friend bool operator==(const Growth&, const Growth&) = default;

 private:
  static constexpr std::size_t kMostTerms = 16;
  static constexpr std::uint32_t kMostDegree = 4096;
  template <class Op>
  static Growth joined(const Growth& a, const Growth& b, const Magnitude& most, Op op);
  Growth closed(const Magnitude& most) const { return constant(at(most)); }
  void add(std::uint32_t degree, const Magnitude& coefficient);
  Growth settled() &&;

  std::vector<Term> terms_;
  Session session_ = 0;
  bool known_ = false;
};

/// Bounds on all values of a tensor, padding slots included.
struct Bounds {
  Magnitude vouched = Magnitude::none();  // trusted and secret, because it follows from values that this process encrypted
  Growth assumed;

  Bounds times(const Magnitude& factor) const { return {vouched * factor, assumed.times(factor)}; }
  Bounds plus(const Magnitude& summand) const { return {vouched + summand, assumed.plus(summand)}; }
  static Bounds sum(const Bounds& a, const Bounds& b, const Magnitude& most) {
    return {a.vouched + b.vouched, Growth::sum(a.assumed, b.assumed, most)};
  }
  static Bounds product(const Bounds& a, const Bounds& b, const Magnitude& most) {
    return {a.vouched * b.vouched, Growth::product(a.assumed, b.assumed, most)};
  }
  static Bounds larger(const Bounds& a, const Bounds& b, const Magnitude& most) {
    return {exact::larger(a.vouched, b.vouched), Growth::larger(a.assumed, b.assumed, most)};
  }
};

}  // namespace heliograph::exact
