#include "lwe/keys.h"

#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "base/progress.h"
#include "lwe/products.h"
#include "math/reducer.h"

namespace heliograph::lwe {

namespace {

constexpr std::size_t kStep = 64;  // rows of a key between two calls of progress

template <class F>
void in_steps(std::size_t count, std::size_t words_each, F&& f) {
  ProgressSteps steps(count);
  for (std::size_t first = 0; first < count; first += kStep) {
    const std::size_t step = std::min(kStep, count - first);
    parallel_for(step, step * words_each, [&](std::size_t i) { f(first + i); });
    steps.add(step);
  }
}

std::size_t bootstrap_rows(const device::BootstrapShape& b) { return b.groups() * b.values() * b.rows(); }

void fill_bootstrap_mask(const Key256& seed, std::size_t row, std::size_t component, std::span<u64> out) {
  fill_uniform(
      seed, {.purpose = kBootstrapMask, .item = static_cast<u32>(row), .component = static_cast<unsigned char>(component)},
      out);
}

void fill_switch_mask(const Key256& seed, std::size_t row, std::span<u32> out) {
  fill_uniform(seed, {.purpose = kSwitchMask, .item = static_cast<u32>(row)}, out);
}

}  // namespace

SecretKey SecretKey::generate(const Parameters& p, const Key256& seed) {
  SecretKey s{SecretVector<unsigned char>(p.narrow()), SecretVector<unsigned char>(p.wide())};
  fill_binary(seed, {.purpose = kNarrowSecret}, s.narrow);
  fill_binary(seed, {.purpose = kWideSecret}, s.wide);
  return s;
}

SecretVector<u64> SecretKey::wide_masks() const {
  SecretVector<u64> masks(wide.size());
  std::transform(wide.begin(), wide.end(), masks.begin(), [](unsigned char bit) { return u64{0} - bit; });
  return masks;
}

EvaluationKeys make_evaluation_keys(const Parameters& p, const SecretKey& secret, const Key256& seed,
                                    const Key256& secret_seed) {
  const device::BootstrapShape& b = p.bootstrap;
  const device::KeySwitchShape& s = p.key_switch;
  const std::size_t n = b.degree, row_count = bootstrap_rows(b);
  EvaluationKeys keys{seed, std::vector<u64>(row_count * n), std::vector<u32>(s.from * s.gadget.length)};
  std::vector<BinaryPolynomial> polynomials;
  for (std::size_t c = 0; c < b.k; ++c) polynomials.emplace_back(std::span(secret.wide).subspan(c * n, n));

  const auto fill_bootstrap = [&](std::size_t row) {
    const std::size_t digit = row % b.gadget.length, r = row / b.gadget.length % (b.k + 1);
    const std::size_t value = row / b.rows() % b.values(), group = row / b.rows() / b.values();
    const std::span<u64> body = std::span(keys.bootstrap).subspan(row * n, n);
    fill_errors(secret_seed, {.purpose = kBootstrapError, .item = static_cast<u32>(row)}, p.glwe_noise, body);
    thread_local std::vector<u64> mask;
    mask.resize(n);
    for (std::size_t c = 0; c < b.k; ++c) {
      fill_bootstrap_mask(seed, row, c, mask);
      polynomials[c].multiply_add(mask, body);
    }
    // `here` is all ones if the group's key bits have this value, else 0; computed without a branch.
    std::size_t actual = 0;
    for (std::size_t j = 0; j < b.group; ++j) actual |= std::size_t{secret.narrow[group * b.group + j]} << j;
    const u64 here = math::mask_of(actual == value);
    // For mask r the gadget's term is not added to the mask. Instead -S_r times the term is added to the body, so that the
    // seed alone determines the masks.
    const u64 scale = here & u64{1} << (64 - b.gadget.log_base * (digit + 1));
    if (r == b.k) {
      body[0] += scale;
    } else {
      for (std::size_t i = 0; i < n; ++i) body[i] -= secret.wide[r * n + i] * scale;
    }
  };

  SecretVector<u32> narrow(s.to);
  std::transform(secret.narrow.begin(), secret.narrow.end(), narrow.begin(), [](unsigned char bit) { return u32{0} - bit; });
  const auto fill_switch = [&](std::size_t row) {
    const std::size_t digit = row % s.gadget.length, i = row / s.gadget.length;
    thread_local std::vector<u32> mask;
    mask.resize(s.to);
    fill_switch_mask(seed, row, mask);
    u64 error;
    fill_errors(secret_seed, {.purpose = kSwitchError, .item = static_cast<u32>(row)}, p.lwe_noise, {&error, 1});
    const u64 message = secret.wide[i] * (u64{1} << (64 - s.gadget.log_base * (digit + 1)));
    keys.key_switch[row] = dot(mask, narrow) + static_cast<u32>((message + error + (u64{1} << 31)) >> 32);
  };
  ProgressSteps steps(10);
  steps.part(9, [&] { in_steps(row_count, b.k * n * 64, fill_bootstrap); });
  steps.part(1, [&] { in_steps(keys.key_switch.size(), s.to, fill_switch); });
  return keys;
}

std::vector<u64> expand_bootstrap_key(const Parameters& p, const Key256& seed, std::span<const u64> bodies) {
  const device::BootstrapShape& b = p.bootstrap;
  const std::size_t n = b.degree;
  std::vector<u64> words(b.words());
  parallel_for(bootstrap_rows(b), words.size(), [&](std::size_t row) {
    const std::span<u64> out = std::span(words).subspan(row * (b.k + 1) * n, (b.k + 1) * n);
    for (std::size_t c = 0; c < b.k; ++c) fill_bootstrap_mask(seed, row, c, out.subspan(c * n, n));
    std::copy_n(bodies.data() + row * n, n, out.data() + b.k * n);
  });
  return words;
}

std::vector<u32> expand_switch_key(const Parameters& p, const Key256& seed, std::span<const u32> bodies) {
  const device::KeySwitchShape& s = p.key_switch;
  std::vector<u32> words(s.words());
  parallel_for(s.from * s.gadget.length, words.size(), [&](std::size_t row) {
    u32* const out = words.data() + row * (s.to + 1);
    fill_switch_mask(seed, row, {out, s.to});
    out[s.to] = bodies[row];
  });
  return words;
}

void encrypt(const Parameters& p, std::span<const u64> wide_masks, std::span<const u64> messages, const Key256& seed,
             const Key256& error_seed, u32 first_item, std::span<u64> out) {
  expand(p, messages, seed, first_item, out);
  const std::size_t each = device::lwe_words(p.wide());
  parallel_for(messages.size(), out.size(), [&](std::size_t i) {
    u64 error;
    fill_errors(error_seed, {.purpose = kError, .item = first_item + static_cast<u32>(i)}, p.glwe_noise, {&error, 1});
    u64* const c = out.data() + i * each;
    c[p.wide()] += dot(std::span<const u64>(c, p.wide()), wide_masks) + error;
  });
}

void expand(const Parameters& p, std::span<const u64> bodies, const Key256& seed, u32 first_item, std::span<u64> out) {
  const std::size_t each = device::lwe_words(p.wide());
  require<InternalError>(out.size() == bodies.size() * each, "the words of ciphertexts must match the number of bodies");
  parallel_for(bodies.size(), out.size(), [&](std::size_t i) {
    u64* const c = out.data() + i * each;
    fill_uniform(seed, {.purpose = kMask, .item = first_item + static_cast<u32>(i)}, std::span<u64>(c, p.wide()));
    c[p.wide()] = bodies[i];
    std::fill(c + p.wide() + 1, c + each, 0);
  });
}

SecretVector<u64> phases(const Parameters& p, std::span<const u64> wide_masks, std::span<const u64> ciphertexts) {
  const std::size_t each = device::lwe_words(p.wide());
  SecretVector<u64> out(ciphertexts.size() / each);
  parallel_for(out.size(), ciphertexts.size(), [&](std::size_t i) {
    const u64* const c = ciphertexts.data() + i * each;
    out[i] = c[p.wide()] - dot(std::span<const u64>(c, p.wide()), wide_masks);
  });
  return out;
}

}  // namespace heliograph::lwe
