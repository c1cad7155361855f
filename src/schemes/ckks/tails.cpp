// Padding slots of a tensor (schemes/tail.h).
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/progress.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

/// Scaled magnitudes below this do not overflow in the embedding's sums.
constexpr double kLargestEncoded = 0x1p900;

/// Returns the polynomials of the numbers in the padding slots, which start at `width` in each period.
Values behind(const Context& c, std::size_t width, const Tail& tail, std::size_t first, std::size_t count) {
  Values values{{}, {count}, c.period(), true};
  values.data.resize(checked_mul(count, values.width));
  for (std::size_t i = 0; i < count; ++i)
    std::fill_n(values.data.begin() + static_cast<std::ptrdiff_t>(i * values.width + width), values.width - width,
                tail.at(first + i));
  return values;
}

}  // namespace

rlwe::Figure tail_noise(const CiphertextData& x) { return x.peak() + (std::log2(x.scale) - 48); }

Ciphertext cleared(const Ciphertext& a) {
  const CiphertextData& x = a.data();
  if (!x.tail.is_number()) return a;
  Context& c = *x.context;
  CiphertextData r = derived(x);
  r.noise = both(both(x.noise, c.random(c.noise().rounding())), tail_noise(x));
  r.tail = {};
  const auto subtracted = [&](const RnsTensor& from, std::size_t first, std::size_t count) {
    const Values numbers = behind(c, x.width, x.tail, first, count);
    // Numbers that exceed the room are subtracted modulo the primes, just as they were added.
    if (!(largest_of(numbers) * x.scale < kLargestEncoded))
      throw PlaintextRangeError("the padding slots hold a number of magnitude " + std::to_string(largest_of(numbers)) +
                                ", which is too large to be removed");
    const RnsTensor coefficients =
        upload_polynomials(c, rounded_polynomials(c, numbers, x.scale, 0, count), x.tensor.primes());
    const RnsTensor words = ring::to_domain(coefficients, Domain::ntt);
    return ring::subtract(from, count == 1 ? words.drop_axis(0, 0) : words);
  };
  if (x.tail.numbers().size() == 1) {
    r.tensor = subtracted(x.tensor, 0, 1);
    return finish(std::move(r));
  }
  const std::size_t items = x.tensor.items(), stretch = encoding_stretch(c, x.tensor.primes().size());
  const RnsTensor flat = x.tensor.reshape({items});
  std::vector<RnsTensor> parts;
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    parts.push_back(subtracted(flat.slice(0, first, 1, count), first, count));
  }
  r.tensor = (parts.size() == 1 ? parts.front() : ring::concatenate(parts, 0)).reshape(x.shape());
  return finish(std::move(r));
}

Ciphertext masked(const Ciphertext& a) {
  const CiphertextData& x = a.data();
  const Context& c = *x.context;
  if (x.tail.is_zero()) return a;
  const auto refuse = [&](const char* why) {
    throw LevelError(
        "the contents of the padding slots behind the " + std::to_string(x.width) +
        " values of this tensor are unknown here: they are secret, or a file does not state them. Masking them takes a "
        "level, " +
        why);
  };
  if (x.level == 1)
    refuse("but level 1 is the lowest; choose parameters of greater depth, or multiply by an array of ones earlier");
  const double ratio = c.ratio(x.level);
  const double scale = x.scale > 2 * c.scale(x.level) ? ratio : ratio * (c.scale(x.level - 1) / x.scale);
  if (std::log2(x.scale * scale) + 1 > c.log_modulus(x.level))
    refuse("but the modulus has no room for that product; rescale first");
  const Values ones{std::vector<std::complex<double>>(x.width, 1), {}, x.width, false};
  const Unreported preparation;
  return rescale(multiply(a, encode(a.parameters(), ones, x.level, scale)));
}

Ciphertext of_width(const Ciphertext& a, std::size_t width) {
  const CiphertextData& x = a.data();
  if (x.width >= width || x.tail.kind() == Tail::Kind::even) return a;
  return x.tail.kind() == Tail::Kind::known ? cleared(a) : masked(a);
}

Ciphertext own(const Ciphertext& a) { return a.data().tail.kind() == Tail::Kind::unknown ? masked(a) : cleared(a); }

}  // namespace heliograph::ckks
