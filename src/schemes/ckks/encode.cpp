#include "schemes/ckks/encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "math/reducer.h"

namespace heliograph::ckks {

namespace {

using math::i128;
using math::i64;

constexpr double kWord = 0x1p63;

template <class T>
void write_residues(const double* x, std::size_t n, u64 q, T* out) {
  const auto modulus = static_cast<i64>(q);
  const double inverse = 1 / static_cast<double>(q);
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(x[i]) < 0x1p62) {  // the estimated quotient is off by at most one
      i64 rest = static_cast<i64>(x[i]) - static_cast<i64>(x[i] * inverse) * modulus;
      rest += modulus & -static_cast<i64>(rest < 0);
      rest -= modulus & -static_cast<i64>(rest >= modulus);
      out[i] = static_cast<T>(rest);
    } else {
      out[i] = static_cast<T>(residue_of(x[i], q));
    }
  }
}

/// Returns the nearest double of |x| < 2^126 in constant time; static_cast<double>(x) branches on x.
double nearest_double(i128 x) {
  constexpr u64 low53 = (u64{1} << 53) - 1;
  const auto sign = static_cast<u64>(x >> 127);  // all ones for a negative value
  const i128 signs = static_cast<i64>(sign);
  const auto a = static_cast<math::u128>((x ^ signs) - signs);
  const auto piece = [&](int from) { return static_cast<double>(static_cast<i64>(static_cast<u64>(a >> from) & low53)); };
  // Two pieces of 53 bits are exact, and their sum is rounded once. For a larger value, a sticky bit replaces the bits
  // below its pieces. The sticky bit lies below the bits that the rounding examines.
  const double small = piece(53) * 0x1p53 + piece(0);
  const u64 rest = (static_cast<u64>(a >> 21) & low53) | static_cast<u64>((static_cast<u64>(a) & ((u64{1} << 21) - 1)) != 0);
  const double large = piece(74) * 0x1p74 + static_cast<double>(static_cast<i64>(rest)) * 0x1p21;
  const u64 is_large = math::mask_of(static_cast<u64>(a >> 106) != 0);
  const u64 bits = (std::bit_cast<u64>(large) & is_large) | (std::bit_cast<u64>(small) & ~is_large);
  return std::bit_cast<double>(bits | (sign & (u64{1} << 63)));
}

/// Balanced mixed radix (Garner): x = d_0 + d_1 q_0 + d_2 q_0 q_1 + ..., |d_i| < q_i / 2.
class MixedRadix {
 public:
  explicit MixedRadix(const std::vector<u64>& moduli) : q_(moduli.begin(), moduli.end()), inverse_(q_.size()) {
    double bits = 0;
    for (std::size_t i = 0; i < q_.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k)
        inverse_[i].push_back(q_[i].factor(math::inverse_mod(moduli[k] % moduli[i], moduli[i])));
      bits += std::log2(static_cast<double>(moduli[i]));
      if (bits < 126) exact_ = i + 1;
    }
  }

  /// overwrites `residues`
  double operator()(std::span<u64> residues) const {
    const std::span<u64> d = residues;
    u64 beyond = 0;  // nonzero if a digit exceeds 128 bits
    for (std::size_t i = 0; i < q_.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k)
        d[i] = q_[i].multiply(q_[i].subtract(d[i], q_[i].of_signed(centered(d[k], k))), inverse_[i][k]);
      beyond |= d[i] & math::mask_of(i >= exact_);
    }
    i128 whole = 0;
    for (std::size_t i = exact_; i-- > 0;) whole = whole * static_cast<i128>(q_[i].modulus()) + centered(d[i], i);
    const double exact = nearest_double(whole);
    if (exact_ == q_.size()) return exact;
    double sum = 0;
    for (std::size_t i = q_.size(); i-- > 0;)
      sum = sum * static_cast<double>(q_[i].modulus()) + static_cast<double>(centered(d[i], i));
    const u64 outside = math::mask_of(beyond != 0);
    return std::bit_cast<double>((std::bit_cast<u64>(sum) & outside) | (std::bit_cast<u64>(exact) & ~outside));
  }

 private:
  i64 centered(u64 digit, std::size_t i) const { return math::centered(digit, q_[i].modulus()); }

  std::vector<math::Reducer> q_;
  std::vector<std::vector<math::Reducer::Factor>> inverse_;
  std::size_t exact_ = 0;  // number of digits that fit 128 bits
};

template <class T>
void read_integers(std::span<const std::byte> bytes, std::size_t items, std::size_t n, const std::vector<u64>& moduli,
                   std::span<double> out) {
  const MixedRadix radix(moduli);
  const std::size_t limbs = moduli.size(), piece = std::min<std::size_t>(n, 1024);
  parallel_for(items * n / piece, items * n * limbs * limbs, [&](std::size_t job) {
    std::array<u64, device::kMaxLimbs> residues;
    const WipeAtEnd end(residues);
    const std::size_t item = job / (n / piece), start = job % (n / piece) * piece;
    const std::byte* const words = bytes.data() + item * limbs * n * sizeof(T);
    for (std::size_t k = start; k < start + piece; ++k) {
      for (std::size_t l = 0; l < limbs; ++l) {
        T word;
        std::memcpy(&word, words + (l * n + k) * sizeof(T), sizeof(T));
        residues[l] = word;
      }
      out[item * n + k] = radix(std::span(residues).first(limbs));
    }
  });
}

}  // namespace

double largest_of(const Values& values) {
  double largest = 0;
  for (const std::complex<double>& v : values.data) {
    if (!std::isfinite(v.real()) || !std::isfinite(v.imag()))
      throw PlaintextRangeError("a value is not finite; CKKS can encode finite numbers only");
    largest = std::max(largest, std::abs(v));
  }
  return largest;
}

Ranges ranges_of(const Values& values, std::size_t period) {
  const std::size_t items = ring::element_count(values.shape), n = values.width;
  std::vector<RangePair> list;
  Range whole;
  for (std::size_t i = 0; i < items; ++i) {
    const Range r = Range::of_values(std::span(values.data).subspan(i * n, n), values.complex, period);
    whole = i == 0 ? r : merged(whole, r);
    if (items <= Ranges::kMost) list.push_back({r, r});
  }
  return list.empty() ? Ranges(whole) : Ranges::of(std::move(list));
}

Ranges ranges_of_numbers(const std::vector<std::complex<double>>& numbers) {
  std::vector<RangePair> list;
  for (const std::complex<double>& v : numbers) {
    const Range r = shifted(Range{}, v);
    list.push_back({r, r});
  }
  return list.empty() ? Ranges(Range{}) : Ranges::of(std::move(list));
}

void check_values(const Context& c, const Values& values, std::size_t level, double scale, std::size_t most) {
  if (most == 0) most = c.slots();
  if (values.width > most) {
    throw ShapeError(std::to_string(values.width) + " values do not fit " + std::to_string(most) + " slots");
  }
  require<ShapeError>(values.data.size() == ring::element_count(values.shape) * values.width,
                      "the number of values must be the product of shape and width");
  require<ScaleError>(std::isfinite(scale) && scale >= 1, "a scale must be a finite number of at least 1");
  const double largest = largest_of(values);
  if (largest > 0 && std::log2(largest) + std::log2(scale) > c.log_modulus(level) - 1) {
    throw PlaintextRangeError("a value of magnitude " + std::to_string(largest) + " does not fit level " +
                              std::to_string(level) + ": at this scale it holds values below 2^" +
                              std::to_string(static_cast<int>(std::floor(c.log_modulus(level) - 1 - std::log2(scale)))));
  }
}

std::vector<double> rounded_polynomials(const Context& c, const Values& values, double scale, std::size_t first,
                                        std::size_t count) {
  const std::size_t n = c.spec().n, width = values.width, period = std::max(c.period(), width);
  std::vector<double> out(count * n);
  parallel_for(count, count * n * 16, [&](std::size_t i) {
    const std::complex<double>* const from = values.data.data() + (first + i) * width;
    double* const to = out.data() + i * n;
    std::vector<std::complex<double>> slots(n / 2);
    for (std::size_t s = 0; s < n / 2; s += period) std::copy_n(from, width, slots.begin() + static_cast<std::ptrdiff_t>(s));
    c.embedding().to_polynomial(slots.data(), scale, to);
    for (std::size_t k = 0; k < n; ++k) to[k] = std::rint(to[k]);
  });
  return out;
}

std::vector<double> repeated_polynomials(const Values& values, double scale) {
  // Slot s is the value at exp(i pi 5^s / N), so a polynomial in Y = X^(N / n) has the slots of the ring of degree n.
  const std::size_t width = values.width, n = 2 * width, count = values.data.size() / width;
  const Embedding embedding(n);
  std::vector<double> out(count * n);
  parallel_for(count, count * n * 16, [&](std::size_t i) {
    double* const to = out.data() + i * n;
    embedding.to_polynomial(values.data.data() + i * width, scale, to);
    for (std::size_t k = 0; k < n; ++k) to[k] = std::rint(to[k]);
  });
  return out;
}

u64 residue_of(double whole, u64 q) {
  if (std::abs(whole) < kWord) return math::signed_mod(static_cast<i64>(whole), q);
  int exponent = 0;
  const double mantissa = std::ldexp(std::frexp(whole, &exponent), 53);
  return math::mul_mod(math::signed_mod(static_cast<i64>(mantissa), q), math::pow_mod(2, static_cast<u64>(exponent - 53), q),
                       q);
}

device::LimbConstants constants_of(double whole, const std::vector<u64>& moduli) {
  device::LimbConstants constants{};
  for (std::size_t l = 0; l < moduli.size(); ++l) constants[l] = residue_of(whole, moduli[l]);
  return constants;
}

RnsTensor upload_polynomials(Context& c, const std::vector<double>& polynomials, const device::PrimeList& primes,
                             ring::Secrecy secrecy, bool components) {
  const std::size_t n = c.spec().n, items = polynomials.size() / n, limbs = primes.size();
  const Shape shape = components ? Shape{} : Shape{items};
  RnsTensor out(c.rlwe().engine(), shape, components ? items : 1, primes, Domain::coefficient, secrecy);
  const std::vector<u64> moduli = c.rlwe().moduli(primes);
  const auto fill = [&](auto zero) {
    std::vector<decltype(zero)> words(items * limbs * n);
    parallel_for(items * limbs, words.size() * 2, [&](std::size_t job) {
      write_residues(polynomials.data() + job / limbs * n, n, moduli[job % limbs], words.data() + job * n);
    });
    ring::upload(out, std::as_bytes(std::span(words)));
  };
  out.view().word == math::Word::w64 ? fill(u64{0}) : fill(math::u32{0});
  return out;
}

std::size_t distinct_words(const std::vector<double>& polynomials, std::size_t n) {
  std::size_t places = 0;  // bitwise or of the indices of nonzero coefficients
  for (std::size_t i = 0; i < polynomials.size() && places % 2 == 0; ++i) places |= polynomials[i] != 0 ? i % n : 0;
  return places == 0 ? 1 : n >> std::countr_zero(places);
}

void upload_transforms(Context& c, const std::vector<double>& polynomials, std::size_t size, const RnsTensor& to) {
  const device::PrimeList& primes = to.primes();
  const math::Ring& ring = to.engine()->ring();
  const std::size_t words = to.view().n, run = c.spec().n / words, count = to.components(), limbs = primes.size();
  require<InternalError>(polynomials.size() == count * size && distinct_words(polynomials, size) <= words,
                         "transforms must have one word for each run of equal words");
  // The polynomial is one in Y = X^run. The polynomial's transform of degree n' with the root of unity psi^run gives one
  // word per run, in the order of the runs (math/ring.h).
  const auto fill = [&](auto zero) {
    std::vector<decltype(zero)> all(count * limbs * words);
    parallel_for(limbs, all.size() * 16, [&](std::size_t l) {
      const u64 q = ring.prime(primes[l]);
      const math::Reducer modulo(q);
      std::vector<math::Reducer::Factor> twiddles;
      if (words > 1) {
        for (const u64 w : math::forward_twiddles(words, math::pow_mod(ring.root(primes[l]), run, q), q))
          twiddles.push_back(modulo.factor(w));
      }
      std::vector<double> whole(words);
      std::vector<u64> x(words);
      for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t i = 0; i < words; ++i) whole[i] = polynomials[k * size + i * (size / words)];
        write_residues(whole.data(), words, q, x.data());
        for (std::size_t m = 1, t = words / 2; m < words; m *= 2, t /= 2) {
          for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 2 * i * t; j < (2 * i + 1) * t; ++j) {
              const u64 u = x[j], v = modulo.multiply(x[j + t], twiddles[m + i]);
              x[j] = math::add_mod(u, v, q), x[j + t] = math::sub_mod(u, v, q);
            }
          }
        }
        std::copy(x.begin(), x.end(), all.begin() + static_cast<std::ptrdiff_t>((k * limbs + l) * words));
      }
    });
    ring::upload(to, std::as_bytes(std::span(all)));
  };
  to.view().word == math::Word::w64 ? fill(u64{0}) : fill(math::u32{0});
}

SecretVector<double> download_polynomials(Context& c, const RnsTensor& phase) {
  const std::size_t n = c.spec().n, items = phase.items();
  const std::vector<u64> moduli = c.rlwe().moduli(phase.primes());
  const SecretVector<std::byte> bytes = ring::download_secret(phase);
  SecretVector<double> out(items * n);
  phase.view().word == math::Word::w64 ? read_integers<u64>(bytes, items, n, moduli, out)
                                       : read_integers<math::u32>(bytes, items, n, moduli, out);
  return out;
}

std::size_t encoding_stretch(const Context& c, std::size_t limbs) {
  constexpr std::size_t room = std::size_t{1} << 26;  // bytes on the host per item
  return std::max<std::size_t>(1, room / (c.spec().n * limbs * sizeof(u64)));
}

void read_slots(const Context& c, std::span<const double> polynomials, double scale, std::size_t width, bool complex,
                std::complex<double>* out, const Look& look) {
  const std::size_t n = c.spec().n, items = polynomials.size() / n;
  parallel_for(items, items * n * 16, [&](std::size_t i) {
    std::vector<std::complex<double>> places(n / 2);
    c.embedding().to_slots(polynomials.data() + i * n, scale, places.data());
    for (std::size_t k = 0; k < width; ++k) out[i * width + k] = complex ? places[k] : places[k].real();
    if (look) look(i, polynomials.subspan(i * n, n), places);
  });
}

std::vector<double> encode_polynomial(const Parameters& parameters, const Values& values, double scale) {
  const Context& c = *parameters.context();
  check_values(c, values, c.top_level(), scale);
  return rounded_polynomials(c, values, scale, 0, ring::element_count(values.shape));
}

Values decode_polynomial(const Parameters& parameters, const std::vector<double>& polynomial, const Shape& shape,
                         std::size_t width, double scale) {
  const Context& c = *parameters.context();
  require<ShapeError>(polynomial.size() == ring::element_count(shape) * c.spec().n,
                      "the number of coefficients must be the product of shape and N");
  require<ShapeError>(width <= c.spec().n / 2, "width must be at most N/2");
  Values v{.shape = shape, .width = width, .complex = true};
  v.data.resize(ring::element_count(shape) * width);
  read_slots(c, polynomial, scale, width, true, v.data.data());
  return v;
}

Plaintext encode(const Parameters& parameters, const Values& values, std::size_t level, double scale) {
  const std::shared_ptr<Context>& c = parameters.context();
  level = c->require_level(level);
  if (scale == 0) scale = c->scale(level);
  check_values(*c, values, level, scale, c->period());
  const std::size_t items = ring::element_count(values.shape);
  auto data = std::make_shared<PlaintextData>();
  data->context = c, data->shape = values.shape, data->level = level, data->width = values.width, data->scale = scale;
  data->complex = values.complex;
  data->bound = std::log2(std::max(largest_of(values), 0x1p-60));
  data->ranges = ranges_of(values, std::max(c->period(), values.width));
  const device::PrimeList primes = c->primes_up_to(level);
  RnsTensor all(c->rlwe().engine(), {items}, 1, primes, Domain::ntt);
  ring::Engine& e = c->engine();
  const std::size_t stretch = encoding_stretch(*c, primes.size());
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    const RnsTensor part = upload_polynomials(*c, rounded_polynomials(*c, values, scale, first, count), primes);
    e.enqueue(device::ForwardNtt{e.prepared(), primes, part.view(), all.slice(0, first, 1, count).view()});
  }
  data->tensor = all.reshape(values.shape);
  return Plaintext(std::move(data));
}

}  // namespace heliograph::ckks
