#include "schemes/exact/bound.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace heliograph::exact {

namespace {

using u64 = std::uint64_t;
using u128 = unsigned __int128;

}  // namespace

Magnitude Magnitude::none() {
  Magnitude m;
  m.known_ = false;
  return m;
}

Magnitude Magnitude::trimmed() && {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
  if (words_.size() > kMostWords) return none();
  return std::move(*this);
}

std::optional<Magnitude> Magnitude::from(const std::string& hex) {
  if (hex.empty() || hex.size() > 16 * kMostWords || (hex[0] == '0' && hex.size() > 1)) return std::nullopt;
  Magnitude m;
  m.words_.resize((hex.size() + 15) / 16);
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[hex.size() - 1 - i];
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
    m.words_[i / 16] |= static_cast<u64>(c <= '9' ? c - '0' : c - 'a' + 10) << (4 * (i % 16));
  }
  return std::move(m).trimmed();
}

std::string Magnitude::hex() const {
  if (words_.empty()) return "0";
  std::string text;
  for (int digit = (bits() + 3) / 4; digit-- > 0;)
    text += "0123456789abcdef"[words_[static_cast<std::size_t>(digit) / 16] >> (4 * (digit % 16)) & 15];
  return text;
}

Magnitude Magnitude::of_words(std::vector<u64> words) {
  Magnitude m;
  m.words_ = std::move(words);
  return std::move(m).trimmed();
}

Magnitude Magnitude::product_of(const std::vector<u64>& factors) {
  Magnitude m = 1;
  for (const u64 f : factors) m = m * f;
  return m;
}

int Magnitude::bits() const {
  return words_.empty() ? 0 : static_cast<int>(64 * words_.size()) - std::countl_zero(words_.back());
}

double Magnitude::log2() const {
  if (words_.empty()) return 0;
  const std::size_t k = words_.size() - 1;
  const double low = k > 0 ? std::ldexp(static_cast<double>(words_[k - 1]), -64) : 0;
  return std::log2(static_cast<double>(words_[k]) + low) + 64.0 * static_cast<double>(k);
}

Magnitude Magnitude::half() const {
  Magnitude m = *this;
  for (std::size_t k = 0; k < m.words_.size(); ++k)
    m.words_[k] = m.words_[k] >> 1 | (k + 1 < m.words_.size() ? m.words_[k + 1] << 63 : 0);
  return std::move(m).trimmed();
}

Magnitude Magnitude::rounded_up(int digits) const {
  const int dropped = bits() - digits;
  if (!known_ || dropped <= 0) return *this;
  u64 top = 0;
  bool rest = false;
  for (int bit = bits(); bit-- > 0;) {
    const u64 one = words_[static_cast<std::size_t>(bit) / 64] >> (bit % 64) & 1;
    if (bit >= dropped)
      top = 2 * top + one;
    else
      rest = rest || one;
  }
  return Magnitude(top + rest) * power(2, static_cast<std::size_t>(dropped));
}

Magnitude operator+(const Magnitude& a, const Magnitude& b) {
  if (!a.known_ || !b.known_) return Magnitude::none();
  const auto &longer = a.words_.size() < b.words_.size() ? b.words_ : a.words_,
             &shorter = a.words_.size() < b.words_.size() ? a.words_ : b.words_;
  Magnitude m;
  m.words_ = longer;
  u128 carry = 0;
  for (std::size_t k = 0; k < longer.size(); ++k) {
    carry += u128{longer[k]} + (k < shorter.size() ? shorter[k] : 0);
    m.words_[k] = static_cast<u64>(carry);
    carry >>= 64;
  }
  if (carry) m.words_.push_back(static_cast<u64>(carry));
  return std::move(m).trimmed();
}

Magnitude operator*(const Magnitude& a, const Magnitude& b) {
  if (!a.known_ || !b.known_) return Magnitude::none();
  Magnitude m;
  m.words_.resize(a.words_.size() + b.words_.size());
  for (std::size_t i = 0; i < a.words_.size(); ++i) {
    u128 carry = 0;
    for (std::size_t k = 0; k < b.words_.size(); ++k) {
      carry += u128{a.words_[i]} * b.words_[k] + m.words_[i + k];
      m.words_[i + k] = static_cast<u64>(carry);
      carry >>= 64;
    }
    m.words_[i + b.words_.size()] = static_cast<u64>(carry);
  }
  return std::move(m).trimmed();
}

Magnitude operator-(const Magnitude& a, const Magnitude& b) {
  Magnitude m = a;
  u64 borrow = 0;
  for (std::size_t k = 0; k < m.words_.size(); ++k) {
    const u128 t = u128{m.words_[k]} - (k < b.words_.size() ? b.words_[k] : 0) - borrow;
    m.words_[k] = static_cast<u64>(t);
    borrow = static_cast<u64>(t >> 64) & 1;
  }
  return std::move(m).trimmed();
}

bool operator<=(const Magnitude& a, const Magnitude& b) {
  if (!a.known_ || !b.known_) return false;
  if (a.words_.size() != b.words_.size()) return a.words_.size() < b.words_.size();
  return !std::lexicographical_compare(b.words_.rbegin(), b.words_.rend(), a.words_.rbegin(), a.words_.rend());
}

Magnitude larger(const Magnitude& a, const Magnitude& b) {
  if (!a.known() || !b.known()) return Magnitude::none();
  return a <= b ? b : a;
}

Magnitude power(const Magnitude& base, std::size_t exponent) {
  Magnitude result = 1, square = base;
  for (std::size_t left = exponent; left > 0; left /= 2) {
    if (left % 2) result = result * square;
    if (left > 1) square = square * square;
  }
  return result;
}

Growth Growth::constant(Magnitude bound) {
  Growth g;
  if (!bound.known()) return g;
  g.known_ = true;
  g.add(0, bound);
  return g;
}

Growth Growth::own(Session session) {
  Growth g;
  g.known_ = true, g.session_ = session;
  g.add(1, 1);
  return g;
}

Growth Growth::in(Session session) const {
  Growth g = *this;
  if (g.open()) g.session_ = session;
  return g;
}

std::optional<Growth> Growth::from(std::vector<Term> terms, Session session) {
  Growth g;
  g.known_ = true;
  for (const Term& t : terms) {
    if (!g.terms_.empty() && t.degree <= g.terms_.back().degree) return std::nullopt;
    if (!t.coefficient.known() || t.coefficient.is_zero() || t.degree > kMostDegree) return std::nullopt;
    g.terms_.push_back(t);
  }
  if (g.terms_.size() > kMostTerms || (session != 0 && !g.open())) return std::nullopt;
  g.session_ = session;
  return g;
}

Magnitude Growth::at(const Magnitude& d) const {
  if (!known_) return Magnitude::none();
  Magnitude sum;
  const Magnitude least = exact::larger(d, 1);
  for (const Term& t : terms_) sum = sum + t.coefficient * power(least, t.degree);
  return sum;
}

bool Growth::below(const Growth& other) const {
  if (!known_ || !other.known_) return false;
  auto theirs = other.terms_.begin();
  for (const Term& t : terms_) {
    while (theirs != other.terms_.end() && theirs->degree < t.degree) ++theirs;
    if (theirs == other.terms_.end() || theirs->degree != t.degree || !(t.coefficient <= theirs->coefficient)) return false;
  }
  return true;
}

void Growth::add(std::uint32_t degree, const Magnitude& coefficient) {
  if (coefficient.is_zero()) return;
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), degree, [](const Term& t, std::uint32_t d) { return t.degree < d; });
  if (at != terms_.end() && at->degree == degree)
    at->coefficient = at->coefficient + coefficient;
  else
    terms_.insert(at, {degree, coefficient});
}

/// Limits the number of terms: the lowest degree is merged into the next one, which increases the bound because D >= 1.
/// The result is unknown if a number is too large.
Growth Growth::settled() && {
  for (const Term& t : terms_)
    if (!t.coefficient.known() || t.degree > kMostDegree) return {};
  while (terms_.size() > kMostTerms) {
    terms_[1].coefficient = terms_[1].coefficient + terms_[0].coefficient;
    if (!terms_[1].coefficient.known()) return {};
    terms_.erase(terms_.begin());
  }
  if (!open()) session_ = 0;
  return std::move(*this);
}

template <class Op>
Growth Growth::joined(const Growth& a, const Growth& b, const Magnitude& most, Op op) {
  if (!a.known_ || !b.known_) return {};
  if (a.open() && b.open() && a.session_ != b.session_) return joined(a.closed(most), b.closed(most), most, op);
  Growth r;
  r.known_ = true, r.session_ = a.open() ? a.session_ : b.session_;
  op(r, a, b);
  return std::move(r).settled();
}

Growth Growth::sum(const Growth& a, const Growth& b, const Magnitude& most) {
  return joined(a, b, most, [](Growth& r, const Growth& p, const Growth& q) {
    for (const Term& t : p.terms_) r.add(t.degree, t.coefficient);
    for (const Term& t : q.terms_) r.add(t.degree, t.coefficient);
  });
}

Growth Growth::product(const Growth& a, const Growth& b, const Magnitude& most) {
  return joined(a, b, most, [](Growth& r, const Growth& p, const Growth& q) {
    for (const Term& t : p.terms_)
      for (const Term& u : q.terms_) r.add(t.degree + u.degree, t.coefficient * u.coefficient);
  });
}

Growth Growth::larger(const Growth& a, const Growth& b, const Magnitude& most) {
  return joined(a, b, most, [](Growth& r, const Growth& p, const Growth& q) {
    r.terms_ = p.terms_;
    for (const Term& t : q.terms_) {
      const auto same = std::find_if(r.terms_.begin(), r.terms_.end(), [&](const Term& u) { return u.degree == t.degree; });
      if (same == r.terms_.end())
        r.add(t.degree, t.coefficient);
      else
        same->coefficient = exact::larger(same->coefficient, t.coefficient);
    }
  });
}

Growth Growth::times(const Magnitude& factor) const { return product(*this, constant(factor), 0); }
Growth Growth::plus(const Magnitude& summand) const { return sum(*this, constant(summand), 0); }

}  // namespace heliograph::exact
