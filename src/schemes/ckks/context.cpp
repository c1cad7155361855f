#include "schemes/ckks/context.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/shared.h"
#include "mesh/mesh.h"
#include "schemes/ckks/spec.h"

namespace heliograph::ckks {

namespace {

void check_levels(const Spec& s) {
  for (const auto& level : s.levels) {
    require<ParameterError>(!level.empty() && level.back() < s.chain.size(),
                            "a level must have at least one prime, all of the chain");
    require<ParameterError>(std::adjacent_find(level.begin(), level.end(), std::greater_equal<>()) == level.end(),
                            "the primes of a level must ascend");
  }
}

const Spec& checked(const Spec& s) {
  require<ParameterError>(std::has_single_bit(s.n) && s.n >= 1024 && s.n <= (1 << 17),
                          "N must be a power of two from 2^10 to 2^17");
  require<ParameterError>(s.slots <= s.n / 2, "slots must be at most N/2");
  require<ParameterError>(s.log_scale >= 10 && s.log_scale <= 200, "log_scale must be 10 to 200");
  require_bound(s.bound);
  require<ParameterError>(!s.special.empty(), "a CKKS set must have at least one special prime");
  require<ParameterError>(!s.chain.empty() && s.chain.size() + s.special.size() <= device::kMaxLimbs,
                          "a set must have 1 to 128 primes");
  check_levels(s);
  if (const Bootstrapping& b = s.bootstrapping; b.levels > 0) {
    const std::size_t all = s.levels.size();  // sets with bootstrapping list the primes of each level
    require<ParameterError>(
        (corrections(b) == 0 || corrections(b) == kCorrectionLevels) && b.levels < all && b.entry >= 1 &&
            b.entry + 1 < all - b.levels,
        "the levels of bootstrapping must be those of its matrices and sine, and leave at least one to ciphertexts");
  }
  return s;
}

}  // namespace

Context::Context(Spec given, std::shared_ptr<device::Device> own_device)
    : RingContext(checked(given), std::move(own_device)),
      noise_(spec().n, rlwe::NoiseModel::Spoils::values),
      embedding_(spec().n) {
  open();
  measure_moduli();
  const std::size_t top = rlwe().top_level();
  scales_[top - 1] = fresh_scale(top == top_level() ? spec().log_scale : top_log_scale(spec().bootstrapping));
  for (std::size_t level = top; level > 1; --level) {
    if (level == sine_level()) scales_[level - 1] = fresh_scale(spec().log_scale);
    scales_[level - 2] = scales_[level - 1] * scales_[level - 1] / ratios_[level - 1];
    require<ParameterError>(ratios_[level - 1] > 2 && scales_[level - 2] > 2 && std::isfinite(scales_[level - 2]),
                            "the ratio of adjacent levels' moduli must be close to the scale");
  }
  require<ParameterError>(room() >= 1, "the modulus of the lowest level is too small for the scale and a value");
  if (spec().bound > 0 && std::log2(spec().bound) > largest_bound()) {
    throw ParameterError("a bound of " + short_number(spec().bound) + " on inputs exceeds the lowest level's room, " +
                         short_number(std::exp2(largest_bound())) +
                         "; use parameters with more integer_bits, or a smaller bound");
  }
}

void Context::measure_moduli() {
  const std::size_t top = rlwe().top_level();
  scales_.resize(top), ratios_.resize(top);
  for (std::size_t level = 1; level <= top; ++level) {
    const std::vector<u64> moduli = rlwe().moduli(rlwe().chain(level));
    log_moduli_.push_back(rlwe::log2_product(moduli));
    if (level > 1) ratios_[level - 1] = modulus_ratio(moduli, rlwe().moduli(rlwe().chain(level - 1)));
  }
}

namespace {

/// Returns whether the primes of a level begin with the first digit and skip no digit.
bool begins_digits(const std::vector<std::uint16_t>& level, const std::vector<std::size_t>& digits) {
  std::size_t at = 0, end = 0;
  for (const std::size_t size : digits) {
    end += size;
    const std::size_t before = at;
    while (at < level.size() && level[at] < end) ++at;
    if (at == before) return at == level.size();
  }
  return at == level.size();
}

/// Returns the set with `level` as top level, below the same levels of bootstrapping; nullopt if that is impossible.
std::optional<Spec> lowered_spec(Spec s, std::size_t level) {
  using Primes = std::vector<std::uint16_t>;
  const std::vector<Primes> all = std::move(s.levels);
  const std::size_t top = all.size() - s.bootstrapping.levels;
  const Primes &base = all[level - 1], &below = all[top - 1];
  s.levels.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(level));
  for (std::size_t l = top; l < all.size(); ++l) {
    if (!std::includes(all[l].begin(), all[l].end(), below.begin(), below.end())) return std::nullopt;
    Primes own, joined;
    std::set_difference(all[l].begin(), all[l].end(), below.begin(), below.end(), std::back_inserter(own));
    std::set_union(base.begin(), base.end(), own.begin(), own.end(), std::back_inserter(joined));
    if (joined.size() != base.size() + own.size() || !begins_digits(joined, s.digits)) return std::nullopt;
    s.levels.push_back(std::move(joined));
  }
  return s;
}

}  // namespace

Context::Context(Context& of, Spec spec)
    : RingContext(std::move(spec), std::shared_ptr<device::Device>(std::shared_ptr<void>(), &of.engine().device())),
      noise_(of.noise_),
      embedding_(of.embedding_) {
  open_beside(of);
  measure_moduli();
  const std::size_t top = top_level(), removed = of.top_level() - top;
  for (std::size_t level = 1; level <= top; ++level) scales_[level - 1] = of.scale(level);
  // Up to the sine's level, scales lead to the scale of the top level; above, they are the same for every top level.
  for (std::size_t level = top + 1; level <= raised_level(); ++level)
    scales_[level - 1] =
        level <= sine_level() ? std::sqrt(scales_[level - 2] * ratios_[level - 1]) : of.scale(level + removed);
}

std::shared_ptr<Context> Context::lowered(std::size_t level) {
  const std::lock_guard lock(mutex_);
  for (; level < top_level(); ++level) {
    std::shared_ptr<Context>& found = lowered_[level];
    if (found) return found;
    if (std::optional<Spec> spec = lowered_spec(this->spec(), level)) {
      const device::Unobserved alone;
      found.reset(new Context(*this, std::move(*spec)));
      return found;
    }
  }
  return nullptr;
}

void Context::require_possible(const Spec& spec) { checked(spec); }

std::size_t Context::require_level(std::size_t level) const {
  if (level == 0) return top_level();
  if (level > top_level())
    throw LevelError("unknown level " + std::to_string(level) + ": these parameters have levels 1 to " +
                     std::to_string(top_level()));
  return level;
}

device::PrimeList Context::primes_up_to(std::size_t level) const {
  if (spec().levels.empty()) return rlwe().chain(level);
  std::vector<bool> wanted(spec().chain.size());
  for (std::size_t l = 0; l < level; ++l) {
    for (std::size_t p : spec().levels[l]) wanted[p] = true;
  }
  device::PrimeList primes;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    if (wanted[p]) primes.push_back(static_cast<math::PrimeIndex>(p));
  }
  return primes;
}

device::PrimeList Context::decoding_primes(std::size_t level, double scale) const {
  const double need = std::log2(scale) + 65;
  double have = 0;
  device::PrimeList some;
  for (const math::PrimeIndex p : rlwe().chain(level)) {
    if (have >= need) break;
    some.push_back(p);
    have += std::log2(static_cast<double>(spec().chain[p]));
  }
  return some;
}

double Context::decoding_room(std::size_t level, double scale) const {
  return rlwe::log2_product(rlwe().moduli(decoding_primes(level, scale)));
}

std::size_t Context::period() const { return spec().repeat && std::has_single_bit(slots()) ? slots() : spec().n / 2; }

double Context::input_bound() const {
  if (spec().bound > 0) return std::log2(spec().bound);
  return std::min(std::clamp(std::floor(room() - kEmptyBits), 10.0, 20.0), largest_bound());
}

double Context::rounding_noise(std::size_t components) const {
  const double linear = noise_.rounding_times_secret(2), secret = noise_.random(std::log2(2.0 / 3));
  return components > 2 ? rlwe::log2_sum(linear, noise_.rounding() + 2 * secret) : linear;
}

namespace {

/// Returns log2 of the product of a level's primes below each end, without those below the end before; stops at the first
/// digit without primes.
std::vector<double> digits_of(const rlwe::Context& c, std::size_t level, const std::vector<std::size_t>& ends) {
  const device::PrimeList chain = c.chain(level);
  std::vector<double> digits;
  std::size_t at = 0;
  for (const std::size_t end : ends) {
    double bits = 0;
    for (; at < chain.size() && chain[at] < end; ++at)
      bits += std::log2(static_cast<double>(c.parameters().chain[chain[at]]));
    if (bits == 0) break;
    digits.push_back(bits);
  }
  if (at < chain.size()) digits.clear();  // a digit was skipped
  return digits;
}

std::vector<std::size_t> ends_of(const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> ends(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return ends;
}

}  // namespace

rlwe::Gadget Context::gadget(std::size_t level) const {
  constexpr double margin = 3.5;  // the noise of a digit times the errors of the keys then stays below the rounding noise
  const device::PrimeList chain = primes_up_to(level), special = rlwe().special();
  const std::size_t most = spec().digits.size();
  for (std::size_t count = 1; count <= std::min(most, chain.size()); ++count) {
    rlwe::Gadget gadget{.chain = chain, .special = {}, .ends = {}};
    for (std::size_t j = 1; j <= count; ++j) gadget.ends.push_back(chain[chain.size() * j / count - 1] + std::size_t{1});
    double largest = 0;
    for (std::size_t l = 1; l <= level; ++l) {
      const std::vector<double> digits = digits_of(rlwe(), l, gadget.ends);
      largest = std::max(largest, digits.empty() ? 1e9 : *std::max_element(digits.begin(), digits.end()));
    }
    for (std::size_t i = 0; i < special.size(); ++i) {
      gadget.special.push_back(special[i]);
      if (rlwe::log2_product(rlwe().moduli(gadget.special)) >= largest + margin) return gadget;
    }
  }
  rlwe::Gadget own{.chain = chain, .special = special, .ends = {}};
  for (const std::size_t end : ends_of(spec().digits)) {
    own.ends.push_back(end);
    if (end > chain[chain.size() - 1]) break;
  }
  return own;
}

std::shared_ptr<const device::KeySwitchPlan> Context::switch_plan(std::size_t key_level, std::size_t level,
                                                                  std::size_t to_level) {
  if (key_level == 0) return rlwe().ntt_switch_plan(level, to_level);
  const std::lock_guard lock(mutex_);
  auto& plan = level_plans_[{key_level, level, to_level}];
  if (!plan) plan = rlwe().gadget_plan(gadget(key_level), rlwe().chain(level), rlwe().chain(to_level));
  return plan;
}

std::shared_ptr<const device::ConversionConstant> Context::mod_down(std::size_t key_level, std::size_t level) {
  return key_level == 0 ? rlwe().key_switch_plan(level)->mod_down : switch_plan(key_level, level, level)->mod_down;
}

double Context::key_product_noise(std::size_t level, std::size_t key_level) const {
  const std::optional<rlwe::Gadget> keys = key_level > 0 ? std::optional(gadget(key_level)) : std::nullopt;
  double log_variance = -1e9;
  for (const double d : digits_of(rlwe(), level, keys ? keys->ends : ends_of(spec().digits)))
    log_variance = rlwe::log2_sum(log_variance, 2 * d);
  const double special = keys ? rlwe::log2_product(rlwe().moduli(keys->special)) : rlwe::log2_product(spec().special);
  return noise_.key_switch({log_variance / 2}, 0) - special;
}

double Context::key_switch_noise(std::size_t level, std::size_t key_level) const {
  return rlwe::log2_sum(key_product_noise(level, key_level), rounding_noise(2));
}

u64 Context::galois(std::int64_t steps, std::size_t places) const {
  const auto row = static_cast<std::int64_t>(places ? places : period());
  return math::pow_mod(5, static_cast<u64>(((steps % row) + row) % row), 2 * spec().n);
}

RnsTensor Context::imaginary_unit() {
  const std::lock_guard lock(mutex_);
  if (imaginary_unit_.empty()) {
    const device::Unobserved alone;
    const device::PrimeList all = device::PrimeList::range(0, spec().chain.size());
    RnsTensor unit(rlwe().engine(), {}, 1, all, Domain::coefficient);
    std::vector<std::byte> words(unit.bytes());
    const std::size_t size = unit.view().word_size();
    for (std::size_t l = 0; l < all.size(); ++l) words[(l * spec().n + spec().n / 2) * size] = std::byte{1};
    ring::upload(unit, words);
    imaginary_unit_ = ring::to_domain(unit, Domain::ntt);
  }
  return imaginary_unit_;
}

Spec Context::canonical(const Spec& given) {
  Spec s = schemes::honest(given);
  if (!std::has_single_bit(s.slots) || s.slots >= s.n / 2) s.repeat = true;  // values cannot repeat
  if (const std::string name = known_name(s); !name.empty()) s.name = name;
  return s;
}

CiphertextData derived(const CiphertextData& a) {
  CiphertextData r = a;
  r.tensor = RnsTensor();
  r.seed.reset();
  r.fresh = false;
  r.tail = Tail::unknown();
  return r;
}

bool outgrown(double bound, double noise, double scale, double log_modulus) {
  return !(rlwe::log2_sum(bound + std::log2(scale), noise) <= log_modulus - 1);
}

namespace {

Fits fits_of(const CiphertextData& x, const RangePair& r) {
  const double scale = x.scale, modulus = x.context->decoding_room(x.level, scale);
  const auto log2_of = [](double v) { return std::isfinite(v) ? std::log2(std::max(v, 0x1p-1000)) : std::nan(""); };
  // Bounds are sums of doubles; a relative margin of 2^-30 covers their roundings.
  const double vouched = log2_of(r.vouched.rms * (1 + 0x1p-30)), assumed = log2_of(r.assumed.rms * (1 + 0x1p-30));
  Fits f;
  f.vouched = !r.vouched.declared && !outgrown(vouched, x.noise.vouched, scale, modulus);
  // Results of instruction programs have no noise estimate. A bound that the caller declared (within) is then compared
  // without noise.
  const double noise = std::isnan(x.noise.assumed) && r.assumed.declared ? 0 : x.noise.assumed;
  f.assumed = !outgrown(assumed, noise, scale, modulus);
  f.vouched_out =
      std::isfinite(vouched) && outgrown(vouched, std::isnan(x.noise.vouched) ? 0 : x.noise.vouched, scale, modulus);
  f.assumed_out =
      std::isfinite(assumed) && outgrown(assumed, std::isnan(x.noise.assumed) ? 0 : x.noise.assumed, scale, modulus);
  f.bits = std::fmin(vouched, assumed);
  f.room = modulus - 1 - std::log2(scale);
  return f;
}

}  // namespace

Fits fits(const CiphertextData& x) { return fits_of(x, x.ranges.merged()); }
Fits fits(const CiphertextData& x, std::size_t item) { return fits_of(x, x.ranges.at(item)); }

double known_bound(const CiphertextData& x) {
  const RangePair all = x.ranges.merged();
  const double least = std::min(all.vouched.largest(), all.assumed.largest());
  return std::isfinite(least) ? least : std::nan("");
}

namespace {

/// Throws ScaleError for a scale that is impossible at this level. Every operation, file and program passes this check.
void require_ciphertext_scale(const Context& c, std::size_t level, double scale) {
  const double most = c.log_modulus(level) - 1;
  if (scale >= 1 && std::log2(scale) <= most) return;
  throw ScaleError("cannot make this ciphertext: its scale must lie between 1 and half the modulus of level " +
                   std::to_string(level) + ", 2^" + short_number(most) + ", got 2^" + short_number(std::log2(scale)) +
                   "; rescale as often as there are products");
}

}  // namespace

Ciphertext finish(CiphertextData data) {
  require_ciphertext_scale(*data.context, data.level, data.scale);
  const auto finite = [](const std::complex<double>& v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); };
  if (data.width >= data.context->period())
    data.tail = {};
  else if (!std::all_of(data.tail.numbers().begin(), data.tail.numbers().end(), finite))
    data.tail = Tail::unknown();
  data.ranges = data.ranges.settled(data.packing(), data.tail);
  return Ciphertext(std::make_shared<const CiphertextData>(std::move(data)));
}

rlwe::Figure after_keys(rlwe::Figure noise, const EvaluationKeysData& keys) {
  return keys.vouched ? noise : rlwe::Figure(rlwe::log2_sum(noise.vouched, std::nan("")), noise.assumed);
}
Noise after_keys(const Noise& noise, const EvaluationKeysData& keys) {
  return Noise::of(after_keys(noise.norm(), keys), after_keys(noise.spread, keys));
}

}  // namespace heliograph::ckks
