#include "schemes/ckks/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

#include "base/errors.h"

namespace heliograph::ckks {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Returns a b, with 0 if a is 0 and b is unknown (infinite).
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/// Makes a range unknown if one of its bounds is NaN, as after an overflow.
Range checked(Range a) {
  if (std::isnan(a.low) || std::isnan(a.high) || std::isnan(a.peak) || std::isnan(a.rms) || std::isnan(a.mean)) {
    const Declaration declared = a.declared;
    a = Range::unknown();
    a.declared = declared;
  }
  return a;
}

}  // namespace

Range Range::of(double low, double high, std::size_t n, std::size_t period) {
  const double largest = std::max(std::abs(low), std::abs(high));
  const double share = period == 0 ? 1 : std::sqrt(static_cast<double>(n) / static_cast<double>(period));
  return {.low = low, .high = high, .peak = largest, .rms = largest * std::min(1.0, share), .mean = largest};
}

Range Range::of_values(std::span<const std::complex<double>> values, bool complex, std::size_t period) {
  Range r;
  double squares = 0;
  std::complex<double> total = 0;
  for (const std::complex<double>& v : values) {
    const double size = complex ? std::abs(v) : std::abs(v.real());
    const double low = complex ? -size : v.real(), high = complex ? size : v.real();
    const bool first = &v == values.data();
    r.low = first ? low : std::min(r.low, low), r.high = first ? high : std::max(r.high, high);
    squares += size * size, total += v;
  }
  r.peak = r.largest();
  r.rms = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, period)));
  r.mean = values.empty() ? 0 : std::abs(total) / static_cast<double>(values.size());
  return r;
}

Range Range::unknown() {
  return {.low = -kUnbounded, .high = kUnbounded, .peak = kUnbounded, .rms = kUnbounded, .mean = kUnbounded};
}

bool Range::inside(const Range& o) const {
  return low >= o.low && high <= o.high && peak <= o.peak && rms <= o.rms && mean <= o.mean;
}

Range sum(const Range& a, const Range& b) {
  return checked({a.low + b.low, a.high + b.high, a.peak + b.peak, a.rms + b.rms, a.mean + b.mean, a.declared | b.declared});
}

Range negated(const Range& a) { return {-a.high, -a.low, a.peak, a.rms, a.mean, a.declared}; }

Range scaled(const Range& a, double factor) {
  const double size = std::abs(factor);
  const Range b = factor < 0 ? negated(a) : a;
  return {times(b.low, size), times(b.high, size), times(b.peak, size), times(b.rms, size), times(b.mean, size), a.declared};
}

Range magnitudes(const Range& a) { return {-a.largest(), a.largest(), a.peak, a.rms, a.mean, a.declared}; }

Range shifted(const Range& a, std::complex<double> number) {
  const double size = std::abs(number);
  Range r{a.low + number.real(), a.high + number.real(), a.peak + size, a.rms + size, a.mean + size, a.declared};
  if (number.imag() != 0) r.high = a.largest() + size, r.low = -r.high;
  return checked(r);
}

double mean_square(const Range& a, const Packing& packing) {
  const double n = static_cast<double>(std::max<std::size_t>(1, packing.width));
  const double all = times(times(a.rms, a.rms), static_cast<double>(packing.period) / n);
  return std::min(all, times(a.largest(), a.largest()));
}

Range product(const Range& a, const Range& b, const Packing& packing, bool square) {
  Range r;
  r.declared = a.declared | b.declared;
  if (packing.complex) {
    r.high = times(a.largest(), b.largest()), r.low = -r.high;
  } else {
    const double corners[] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)};
    r.low = *std::min_element(std::begin(corners), std::end(corners));
    r.high = *std::max_element(std::begin(corners), std::end(corners));
    if (square) r.low = std::max(r.low, 0.0);
  }
  r.peak = times(a.peak, b.peak);
  r.rms = std::min(times(a.peak, b.rms), times(a.rms, b.peak));
  r.mean = std::sqrt(mean_square(a, packing)) * std::sqrt(mean_square(b, packing));  // Cauchy-Schwarz inequality
  if (a.largest() == 0 || b.largest() == 0) r.mean = 0;
  return checked(r);
}

Range summed_values(const Range& a, const Packing& packing) {
  const auto n = static_cast<double>(packing.width);
  const double mean = std::min(a.mean, std::sqrt(mean_square(a, packing)));
  Range r{times(n, std::max(a.low, -mean)), times(n, std::min(a.high, mean)), 0, 0, 0, a.declared};
  if (packing.complex) r.high = times(n, std::min(mean, a.largest())), r.low = -r.high;
  r.peak = r.rms = r.mean = r.largest();
  return checked(r);
}

Range moved(const Range& a, const Packing& from, const Tail& tail) {
  if (from.width >= from.period || tail.kind() == Tail::Kind::even) return a;
  Range r = a;
  if (tail.is_zero())
    r.low = std::min(a.low, 0.0), r.high = std::max(a.high, 0.0);
  else
    r.low = -a.peak, r.high = a.peak;
  r.mean = r.largest();
  return r;
}

Range narrowed(const Range& a, const Range& b) {
  Range r{std::max(a.low, b.low), std::min(a.high, b.high), std::min(a.peak, b.peak),
          std::min(a.rms, b.rms), std::min(a.mean, b.mean), a.declared | b.declared};
  if (r.low > r.high) r.low = std::min(a.low, b.low), r.high = std::max(a.high, b.high);  // rounding crossed bounds
  return r;
}

Range merged(const Range& a, const Range& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), std::max(a.peak, b.peak),
          std::max(a.rms, b.rms), std::max(a.mean, b.mean), a.declared | b.declared};
}

namespace {

double value_at(double x, const std::vector<double>& c, Basis basis) {
  double next = 0, after = 0;
  for (std::size_t k = c.size(); k-- > 0;) {
    if (basis == Basis::monomial) {
      next = next * x + c[k];
    } else {  // Clenshaw's recurrence
      const double here = c[k] + (k == 0 ? x : 2 * x) * next - after;
      after = next, next = here;
    }
  }
  return next;
}

}  // namespace

Range polynomial_of(const Range& x, const std::vector<double>& c, Basis basis) {
  Range r = Range::unknown();
  r.declared = x.declared;
  if (!x.known()) return r;
  const auto range_over = [&](double low, double high) {
    // On K > d Chebyshev points, a polynomial of degree d reaches cos(pi d / 2K) of its largest value (Ehlich and Zeller).
    const std::size_t degree = std::max<std::size_t>(1, c.size() - 1), points = 16 * degree;
    const double middle = (high + low) / 2, half = (high - low) / 2;
    double least = kUnbounded, most = -kUnbounded, terms = 0, power = 1;
    for (std::size_t i = 0; i <= points; ++i) {
      const double angle = std::numbers::pi * static_cast<double>(i) / static_cast<double>(points);
      const double y = value_at(std::clamp(middle + half * std::cos(angle), low, high), c, basis);
      least = std::min(least, y), most = std::max(most, y);
    }
    for (const double each : c)
      terms += std::abs(each) * power, power *= basis == Basis::monomial ? std::max(std::abs(low), std::abs(high)) : 1;
    const double reach = 1 / std::cos(std::numbers::pi * static_cast<double>(degree) / (2 * static_cast<double>(points)));
    const double more = (most - least) / 2 * (reach - 1) + 0x1p-44 * terms * static_cast<double>(degree);
    return std::pair(least - more, most + more);
  };
  std::tie(r.low, r.high) = range_over(x.low, x.high);
  // Padding slots have any value within `peak`.
  const auto [least, most] = range_over(-x.peak, x.peak);
  r.peak = std::max({-least, most, r.largest(), std::abs(value_at(0, c, basis))});
  r.rms = r.peak, r.mean = r.largest();
  return checked(r);
}

Ranges Ranges::of(std::vector<RangePair> list) {
  if (list.size() <= kMost) return Ranges(schemes::PerItem<RangePair>::of(std::move(list), {}));
  RangePair all = list.front();
  for (const RangePair& r : list) all = {ckks::merged(all.vouched, r.vouched), ckks::merged(all.assumed, r.assumed)};
  return Ranges(all);
}

RangePair Ranges::merged() const {
  RangePair all = list().front();
  for (const RangePair& r : list()) all = {ckks::merged(all.vouched, r.vouched), ckks::merged(all.assumed, r.assumed)};
  return all;
}

namespace {

double log2_of(double size) { return std::isfinite(size) ? std::log2(std::max(size, 0x1p-1000)) : std::nan(""); }

}  // namespace

rlwe::Figure Ranges::peak() const {
  const RangePair all = merged();
  return {log2_of(all.vouched.peak), log2_of(all.assumed.peak)};
}

rlwe::Figure Ranges::coefficient() const {
  const RangePair all = merged();
  return {log2_of(all.vouched.rms), log2_of(all.assumed.rms)};
}

Ranges Ranges::few(const Shape& to) const {
  return uniform() || device::element_count(to) <= kMost ? *this : Ranges(merged());
}

Ranges Ranges::sliced(const Shape& shape, std::size_t axis, std::size_t start, std::ptrdiff_t step,
                      std::size_t count) const {
  return Ranges(items_.sliced(shape, axis, start, step, count));
}

Ranges Ranges::summed(const Shape& shape, std::size_t axis) const {
  if (uniform()) {
    const auto count = static_cast<double>(shape[axis]);
    return map([&](const Range& r) { return scaled(r, count); });
  }
  const auto add = [](const RangePair& a, const RangePair& b) {
    return RangePair{sum(a.vouched, b.vouched), sum(a.assumed, b.assumed)};
  };
  return Ranges(items_.summed(shape, axis, {}, add));
}

Ranges Ranges::gathered(const std::vector<double>& weights, const device::GatheredProduct& p) const {
  constexpr std::size_t most = std::size_t{1} << 22;  // largest number of terms that are examined one by one
  const auto times = [&](std::size_t weight, const RangePair& r) {
    return RangePair{scaled(r.vouched, weights[weight]), scaled(r.assumed, weights[weight])};
  };
  const auto add = [](const RangePair& a, const RangePair& b) {
    return RangePair{sum(a.vouched, b.vouched), sum(a.assumed, b.assumed)};
  };
  const auto none = [](std::size_t) { return RangePair{}; };
  const std::size_t rows = p.groups * p.outputs;
  // Compute ranges per item only if the result has few entries.
  if (!uniform() && device::element_count({rows, p.positions}) <= kMost &&
      device::element_count({rows, p.positions, p.terms}) <= most)
    return Ranges(schemes::PerItem<RangePair>::gathered(items_, p, none, times, add));
  const RangePair all = merged();
  std::vector<RangePair> list;
  const bool each = device::element_count({rows, p.positions}) <= kMost;
  RangePair most_of_all{};
  for (std::size_t row = 0; row < rows; ++row) {
    RangePair total{};
    for (std::size_t k = 0; k < p.terms; ++k) total = add(total, times(row * p.terms + k, all));
    if (each)
      list.insert(list.end(), p.positions, total);
    else
      most_of_all = row == 0 ? total
                             : RangePair{ckks::merged(most_of_all.vouched, total.vouched),
                                         ckks::merged(most_of_all.assumed, total.assumed)};
  }
  return each ? of(std::move(list)) : Ranges(most_of_all);
}

Ranges Ranges::joined(const Ranges& a, const Shape& of_a, const Ranges& b, const Shape& of_b, std::size_t axis) {
  Shape to = of_a;
  to[axis] += of_b[axis];
  const Ranges p = a.few(to), q = b.few(to);
  if (p.uniform() && q.uniform() && device::element_count(to) > kMost) {
    const RangePair x = p.at(0), y = q.at(0);
    return Ranges(RangePair{ckks::merged(x.vouched, y.vouched), ckks::merged(x.assumed, y.assumed)});
  }
  return Ranges(schemes::PerItem<RangePair>::joined(p.items_, of_a, q.items_, of_b, axis));
}

Ranges Ranges::settled(const Packing& packing, const Tail& tail) const {
  const double share =
      std::sqrt(static_cast<double>(packing.width) / static_cast<double>(std::max<std::size_t>(1, packing.period)));
  const bool known = tail.kind() == Tail::Kind::known, even = tail.kind() == Tail::Kind::even;
  const auto settle = [&](Range r, double behind) {
    if (known || even) r.peak = std::min(r.peak, std::max(r.largest(), even ? 0 : behind));
    r.low = std::max(r.low, -r.peak), r.high = std::min(r.high, r.peak);
    r.rms = std::min(r.rms, r.peak);
    if (known && behind == 0) r.rms = std::min(r.rms, r.largest() * std::min(1.0, share));
    r.mean = std::min(r.mean, r.largest());
    return r;
  };
  const auto each = [&](const RangePair& r, double behind) {
    return RangePair{settle(r.vouched, behind), settle(r.assumed, behind)};
  };
  if (!known || tail.numbers().size() == 1) {
    const double behind = known ? std::abs(tail.at(0)) : 0;
    return Ranges(items_.map([&](const RangePair& r) { return each(r, behind); }));
  }
  if (uniform()) {
    double behind = 0;
    for (const auto& number : tail.numbers()) behind = std::max(behind, std::abs(number));
    return Ranges(each(items_.at(0), behind));
  }
  std::vector<RangePair> list;
  for (std::size_t i = 0; i < items_.list().size(); ++i) list.push_back(each(items_.at(i), std::abs(tail.at(i))));
  return of(std::move(list));
}

Ranges Ranges::unvouched() const {
  return Ranges(items_.map([](const RangePair& r) { return RangePair{Range::unknown(), r.assumed}; }));
}

Ranges Ranges::guarded() const {
  return map([](Range r) {
    r.declared.unguarded = r.declared.strong = false;
    return r;
  });
}

Ranges Ranges::strongly_guarded() const {
  return map([](Range r) {
    r.declared.strong = true;
    return r;
  });
}

bool Ranges::inside(const Ranges& other) const {
  if (other.uniform()) return merged().assumed.inside(other.at(0).assumed);
  if (!uniform() && list().size() != other.list().size()) return false;
  for (std::size_t i = 0; i < other.list().size(); ++i)
    if (!at(i).assumed.inside(other.at(i).assumed)) return false;
  return true;
}

namespace {

/// Rounds a magnitude up or down to one of `steps`. The steps are mantissas in [1/2, 1), the same for every power of two.
double to_grid(double size, std::span<const double> steps, bool up) {
  if (size == 0 || !std::isfinite(size)) return size;
  int exponent = 0;
  const double mantissa = std::frexp(size, &exponent);
  if (up) {
    const auto found = std::lower_bound(steps.begin(), steps.end(), mantissa);
    return found == steps.end() ? std::ldexp(1, exponent) : std::ldexp(*found, exponent);
  }
  return std::ldexp(*std::prev(std::upper_bound(steps.begin(), steps.end(), mantissa)), exponent);
}

/// Rounds a magnitude to 16 significant bits.
double to_bits(double size, bool up) {
  if (size == 0 || !std::isfinite(size)) return size;
  int exponent = 0;
  const double mantissa = std::ldexp(std::frexp(size, &exponent), 16);
  return std::ldexp(up ? std::ceil(mantissa) : std::floor(mantissa), exponent - 16);
}

/// Rounds up; -upward(-v) rounds down.
template <class Round>
double upward(double v, Round round) {
  return v >= 0 ? round(v, true) : -round(-v, false);
}

constexpr double kQuarters[] = {0.5, 0.59460355750136051, 0.70710678118654757, 0.84089641525371461};
constexpr double kHalves[] = {0.5, 0.70710678118654757}, kWhole[] = {0.5};

}  // namespace

Range rounded(const Range& a) {
  Range r = a;
  r.low = -upward(-a.low, to_bits), r.high = upward(a.high, to_bits);
  r.peak = to_bits(a.peak, true), r.rms = to_bits(a.rms, true), r.mean = to_bits(a.mean, true);
  return r;
}

Range coarse(const Range& a) {
  const auto quarters = [](double size, bool up) { return to_grid(size, kQuarters, up); };
  Range r = a;
  r.low = -upward(-a.low, quarters), r.high = upward(a.high, quarters), r.peak = quarters(a.peak, true);
  r.rms = to_grid(a.rms, kHalves, true), r.mean = to_grid(std::max(a.mean, a.rms / 8), kWhole, true);
  return r;
}

namespace {

io::Json stored_range(const Range& exact) {
  const Range r = rounded(exact);
  io::Json list = io::Json::array();
  // Bounds that follow from the interval are omitted.
  std::vector<double> bounds = {r.low, r.high, r.rms, r.mean, r.peak};
  if (!r.declared)
    while (bounds.size() > 2 && bounds.back() == r.largest()) bounds.pop_back();
  for (const double bound : bounds) list.push_back(bound);
  if (r.declared) list.push_back(true);
  return list;
}

Range range_from(const io::Json& json) {
  const io::Json::Array& list = json.as_array("a range", 6);
  require<DamagedFileError>(list.size() >= 2, "a range of values must have at least two bounds");
  std::vector<double> bounds;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, list.size()); ++i) bounds.push_back(list[i].as_double("a range"));
  Range r{.low = bounds[0], .high = bounds[1]};
  r.rms = r.mean = r.peak = r.largest();
  if (bounds.size() > 2) r.rms = bounds[2];
  if (bounds.size() > 3) r.mean = bounds[3];
  if (bounds.size() > 4) r.peak = bounds[4];
  if (list.size() > 5) r.declared = list[5].as_bool("a range");
  require<DamagedFileError>(r.low <= r.high && r.rms >= 0 && r.mean >= 0 && r.peak >= 0,
                            "a range of values must have low <= high and no negative size");
  return r;
}

}  // namespace

std::optional<io::Json> Ranges::stored() const {
  const bool few = list().size() <= 256;  // limits the size of the header
  io::Json all = io::Json::array();
  if (few) {
    for (const RangePair& r : list()) all.push_back(stored_range(r.assumed));
  } else {
    all.push_back(stored_range(merged().assumed));
  }
  for (const RangePair& r : list())
    if (!r.assumed.known()) return std::nullopt;
  return all;
}

Ranges Ranges::from(const io::Json& stored, std::size_t items) {
  const io::Json::Array& all = stored.as_array("ranges", 256);
  require<DamagedFileError>(all.size() == 1 || all.size() == items,
                            "the number of ranges must be 1 or the number of ciphertexts");
  std::vector<RangePair> list;
  for (const io::Json& one : all) list.push_back({Range::unknown(), range_from(one)});
  return of(std::move(list));
}

}  // namespace heliograph::ckks
