#include "schemes/bfv/context.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "math/primes.h"
#include "mesh/mesh.h"
#include "schemes/bfv/spec_text.h"

namespace heliograph::bfv {

namespace {

rlwe::RingParameters ring_parameters(const Spec& s) {
  if (s.edition != "w64" && s.edition != "w32")
    throw ParameterError("there is no edition \"" + s.edition + "\"; there are w64 and w32");
  return {.n = s.n,
          .word = s.edition == "w32" ? math::Word::w32 : math::Word::w64,
          .chain = s.chain,
          .special = s.special,
          .auxiliary = s.auxiliary,
          .digits = s.digits};
}

void check_security(const Spec& s, const rlwe::RingParameters& r) {
  if (rlwe::is_secure(r) || s.insecure) return;
  const int bound = rlwe::largest_secure_log_qp(s.n);
  throw SecurityError("log QP = " + std::to_string(static_cast<int>(std::ceil(r.log_qp()))) +
                      " at N = " + std::to_string(s.n) + " is below 128 bits of security (" +
                      (bound ? "at most " + std::to_string(bound) : std::string("N must be 2^10 to 2^17")) +
                      "); say insecure=True to use it all the same");
}

void check_plain_moduli(const Spec& s) {
  require<ParameterError>(!s.plain_moduli.empty() && s.plain_moduli.size() <= 64, "a BFV set has 1 to 64 plaintext moduli");
  for (std::size_t i = 0; i < s.plain_moduli.size(); ++i) {
    const u64 t = s.plain_moduli[i];
    require<ParameterError>(t >= 2 && t < (u64{1} << 60), "a plaintext modulus lies between 2 and 2^60");
    for (const auto* list : {&s.chain, &s.auxiliary}) {
      for (u64 q : *list)
        require<ParameterError>(std::gcd(q, t) == 1, "a plaintext modulus must be coprime to the ciphertext primes");
    }
    for (std::size_t k = 0; k < i; ++k) {
      require<ParameterError>(std::gcd(s.plain_moduli[k], t) == 1, "plaintext moduli must be coprime");
    }
  }
}

}  // namespace

Context::Context(Spec spec, std::shared_ptr<device::Device> own_device)
    : spec_(std::move(spec)), hash_(hash_of(spec_)), own_device_(std::move(own_device)), noise_(spec_.n) {
  const rlwe::RingParameters r = ring_parameters(spec_);
  require<ParameterError>(spec_.n >= 1024, "N must be at least 2^10");
  require<ParameterError>(spec_.slots <= spec_.n, "there are at most N slots");
  check_plain_moduli(spec_);
  check_security(spec_, r);
  rlwe_ = std::make_shared<rlwe::Context>(own_device_ ? *own_device_ : mesh::default_device(), r);
  const std::size_t n = spec_.n;
  bool slots = true;
  for (u64 t : spec_.plain_moduli) slots = slots && t % (2 * n) == 1 && math::is_prime(t);
  for (u64 t : spec_.plain_moduli) {
    PlainModulus p{.t = t};
    if (slots) p.ring = engine().kernels().prepare(std::make_shared<math::Ring>(n, math::Word::w64, std::vector<u64>{t}));
    plain_.push_back(p);
  }
  if (!slots) return;
  slot_positions_.resize(n);
  const int bits = std::countr_zero(n);
  for (u64 c = 0, power = 1; c < n / 2; ++c, power = power * 3 % (2 * n)) {
    slot_positions_[c] = static_cast<math::u32>(math::reverse_bits((power - 1) / 2, bits));
    slot_positions_[n / 2 + c] = static_cast<math::u32>(math::reverse_bits((2 * n - power - 1) / 2, bits));
  }
}

std::shared_ptr<const device::PreparedConversion>& Context::cached(int kind, std::size_t level, std::size_t part) {
  return conversions_[{kind, level, part}];
}

const device::MultiplyPlan& Context::multiply_plan(std::size_t level, std::size_t part) {
  const std::lock_guard lock(mutex_);
  const auto found = multiply_plans_.find({level, part});
  if (found != multiply_plans_.end()) return found->second;
  // The scaled product is below t N Q / 2 and must fit R, centred, with a bit to spare.
  const double need =
      log_modulus(level) + std::log2(static_cast<double>(plain_[part].t)) + std::log2(static_cast<double>(spec_.n)) + 1;
  std::size_t count = 0;
  double have = 0;
  while (have < need && count < spec_.auxiliary.size()) have += std::log2(static_cast<double>(spec_.auxiliary[count++]));
  require<ParameterError>(have >= need, "the set has too few auxiliary primes to multiply");
  rlwe::Context& c = *rlwe_;
  device::MultiplyPlan plan{.ring = engine().prepared_shared(), .chain = c.chain(level), .auxiliary = c.auxiliary(count)};
  plan.extended = plan.chain;
  plan.extended.append(plan.auxiliary);
  const std::vector<u64> q = c.moduli(plan.chain), r = c.moduli(plan.auxiliary);
  plan.lift = engine().kernels().prepare(math::extend_base(q, r));
  plan.scale = engine().kernels().prepare(math::divide_and_round(q, r, plain_[part].t));
  plan.lower = engine().kernels().prepare(math::extend_base(r, q));
  return multiply_plans_.emplace(std::pair{level, part}, std::move(plan)).first->second;
}

const device::PreparedConversion& Context::scale_up(std::size_t level, std::size_t part) {
  const std::lock_guard lock(mutex_);
  auto& plan = cached(0, level, part);
  if (!plan) plan = engine().kernels().prepare(math::scale_from_plain(plain_[part].t, rlwe_->moduli(rlwe_->chain(level))));
  return *plan;
}

const device::PreparedConversion& Context::scale_down(std::size_t level, std::size_t part) {
  const std::lock_guard lock(mutex_);
  auto& plan = cached(1, level, part);
  if (!plan) plan = engine().kernels().prepare(math::scale_to_plain(rlwe_->moduli(rlwe_->chain(level)), plain_[part].t));
  return *plan;
}

const device::PreparedConversion& Context::lift(std::size_t part) {
  const std::lock_guard lock(mutex_);
  auto& plan = cached(2, 0, part);
  if (!plan)
    plan = engine().kernels().prepare(math::extend_base({plain_[part].t}, rlwe_->moduli(rlwe_->chain(rlwe_->top_level()))));
  return *plan;
}

double Context::log_modulus(std::size_t level) const {
  return rlwe::log2_product(std::vector<u64>(spec_.chain.begin(), spec_.chain.begin() + static_cast<std::ptrdiff_t>(level)));
}

double Context::noise_limit(std::size_t level, std::size_t part) const {
  return log_modulus(level) - 1 - std::log2(static_cast<double>(plain_[part].t)) - rlwe::kRoundingSlack;
}

double Context::multiply_noise(double a, double b, std::size_t part) const {
  // (t/Q) c(s) multiplies the other operand's noise; the rounding falls on three components.
  const double k = std::log2(static_cast<double>(plain_[part].t)) + noise_.phase_over_modulus();
  return rlwe::log2_sum(rlwe::log2_sum(a, b) + k, noise_.rounding_times_secret(3));
}

double Context::key_switch_noise(std::size_t level) const {
  std::vector<double> digits;
  std::size_t first = 0;
  for (std::size_t size : spec_.digits) {
    if (first >= level) break;
    double bits = 0;
    for (std::size_t l = first; l < std::min(first + size, level); ++l)
      bits += std::log2(static_cast<double>(spec_.chain[l]));
    digits.push_back(bits);
    first += size;
  }
  return noise_.key_switch(digits, rlwe::log2_product(spec_.special));
}

u64 Context::row_galois(std::int64_t steps) const {
  const std::int64_t row = static_cast<std::int64_t>(spec_.n / 2);
  return math::pow_mod(3, static_cast<u64>(((steps % row) + row) % row), 2 * spec_.n);
}

void require_same(const CiphertextData& a, const std::shared_ptr<Context>& context, const rlwe::KeyId& key,
                  const char* what) {
  if (a.context != context) {
    if (a.context->spec().edition != context->spec().edition) {
      throw MismatchError(std::string("the ciphertext and ") + what +
                          " are of different editions: " + a.context->spec().edition + " and " + context->spec().edition);
    }
    throw MismatchError(std::string("the ciphertext and ") + what + " are of different parameters: " +
                        short_text(a.context->spec()) + " and " + short_text(context->spec()));
  }
  if (a.key != key) {
    throw WrongKeyError(std::string("the ciphertext is of key ") + rlwe::to_string(a.key).substr(0, 8) + ", " + what +
                        " of key " + rlwe::to_string(key).substr(0, 8));
  }
}

bool CiphertextData::whole() const { return parts.size() == context->parts(); }

namespace {

std::string moduli_text(const CiphertextData& x) {
  const std::string all = " of " + std::to_string(x.context->parts()) + " plaintext moduli";
  if (x.whole()) return "all" + all;
  if (x.parts.size() == 1) return "number " + std::to_string(x.first_part + 1) + all;
  return "numbers " + std::to_string(x.first_part + 1) + " to " + std::to_string(x.first_part + x.parts.size()) + all;
}

}  // namespace

void require_same_moduli(const CiphertextData& a, const CiphertextData& b) {
  if (a.first_part == b.first_part && a.parts.size() == b.parts.size()) return;
  throw MismatchError("one tensor holds " + moduli_text(a) + ", the other " + moduli_text(b));
}

void require_whole(const CiphertextData& a, const char* purpose) {
  if (!a.whole()) throw MismatchError("this tensor holds " + moduli_text(a) + ": join them before " + purpose);
}

std::shared_ptr<Context> open_context(const Spec& spec) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Context>> open;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Context>& slot = open[text_of(spec)];
  std::shared_ptr<Context> context = slot.lock();
  if (!context) slot = context = std::make_shared<Context>(spec, nullptr);
  return context;
}

}  // namespace heliograph::bfv
