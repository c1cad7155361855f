// Bounds on values. A result is the integer that was to be computed while that integer lies within half the plaintext modulus; beyond,
// it is another one modulo t, and nothing in a ciphertext tells. Bounds are integers, exact: t/2 + 1 is not t/2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heliograph::exact {

/// A bound on magnitudes: an integer below 2^4096, or none at all, which makes none of all it meets.
class Magnitude {
 public:
  Magnitude() = default;            // 0
  Magnitude(std::uint64_t value) {  // NOLINT(google-explicit-constructor): a number is a bound
    if (value) words_ = {value};
  }
  static Magnitude none();
  /// Of lower-case hexadecimal digits without leading zeros; nothing where they are not that.
  static std::optional<Magnitude> from(const std::string& hex);
  /// Of words, the lowest first.
  static Magnitude of_words(std::vector<std::uint64_t> words);
  static Magnitude product_of(const std::vector<std::uint64_t>& factors);

  bool known() const { return known_; }
  bool is_zero() const { return known_ && words_.empty(); }
  int bits() const;  // of a known one: the least b with value < 2^b
  std::string hex() const;
  double log2() const;
  const std::vector<std::uint64_t>& words() const { return words_; }
  /// Half of it, rounded down.
  Magnitude half() const;
  /// To so many leading binary digits, at most 32, upwards.
  Magnitude rounded_up(int digits) const;

  friend Magnitude operator+(const Magnitude& a, const Magnitude& b);
  friend Magnitude operator*(const Magnitude& a, const Magnitude& b);
  /// a - b for known a >= b.
  friend Magnitude operator-(const Magnitude& a, const Magnitude& b);
  /// Known, and no larger than a known one.
  friend bool operator<=(const Magnitude& a, const Magnitude& b);
  friend bool operator==(const Magnitude&, const Magnitude&) = default;

 private:
  static constexpr std::size_t kMostWords = 64;
  Magnitude trimmed() &&;

  std::vector<std::uint64_t> words_;  // from the lowest on, the last one not 0
  bool known_ = true;
};
Magnitude larger(const Magnitude& a, const Magnitude& b);
inline std::uint64_t magnitude_of(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}
Magnitude power(const Magnitude& base, std::size_t exponent);

/// What values are at most if files are what they say: sum c_i D^i, D >= 1. D bounds what one key encrypted in one process where no
/// bound was said, and is its secret; the coefficients follow from public numbers alone.
class Growth {
 public:
  /// Which process: 0 is the one that made the key. Others have drawn numbers.
  using Session = std::uint64_t;

  Growth() = default;  // nothing is known
  static Growth constant(Magnitude bound);
  /// D of a session.
  static Growth own(Session session);

  struct Term {
    std::uint32_t degree;
    Magnitude coefficient;
    friend bool operator==(const Term&, const Term&) = default;
  };
  bool known() const { return known_; }
  const std::vector<Term>& terms() const { return terms_; }
  /// Whether D is in it.
  bool open() const { return known_ && !terms_.empty() && terms_.back().degree > 0; }
  Session session() const { return session_; }
  Growth in(Session session) const;
  /// Terms in ascending order of their degrees; nothing where they are not that.
  static std::optional<Growth> from(std::vector<Term> terms, Session session);

  /// With D.
  Magnitude at(const Magnitude& d) const;
  /// Whether it is no larger than another, whatever D: coefficient by coefficient.
  bool below(const Growth& other) const;

  // Where two sessions meet, both are taken at `most`, the largest value that a set encrypts.
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

/// Of one tensor: of all its values, and of what stands behind them.
struct Bounds {
  Magnitude vouched = Magnitude::none();  // from the values encrypted in this process: secret, and no promise of a file's
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
