#include "schemes/lookup/parameters.h"

#include <cmath>
#include <cstring>

#include "lwe/sampling.h"
#include "math/primes.h"
#include "mesh/mesh.h"
#include "ring/key_holder.h"
#include "rlwe/keys.h"

namespace heliograph::lookup {

const std::shared_ptr<const math::Ring>& packing_ring() {
  static const auto ring =
      std::make_shared<const math::Ring>(kDegree, math::Word::w64, math::largest_primes(50, 1, 2 * kDegree));
  return ring;
}

const std::shared_ptr<const math::Ring>& exact_ring() {
  static const auto ring =
      std::make_shared<const math::Ring>(kDegree, math::Word::w32, math::largest_primes(30, 2, 2 * kDegree));
  return ring;
}

void check(const Size& size) {
  const auto fits = [](std::size_t n, std::size_t most) { return n > 0 && n % kStep == 0 && n <= most; };
  if (fits(size.rows, kMostRows) && fits(size.columns, kMostColumns)) return;
  throw ParameterError(
      "a table of " + std::to_string(size.rows) + " x " + std::to_string(size.columns) +
      " bytes is not possible: rows must be a multiple of 2,048 up to 1,048,576, columns a multiple of 2,048 up to 131,072");
}

std::uint64_t key_modulus() { return packing_ring()->prime(0); }

/// Variances are squared fractions of a turn, for the bytes with the largest noise. A coefficient counts as a failure if
/// its error exceeds 3/4 of half a byte's unit. Sums of many independent bounded or Gaussian terms are modelled as
/// Gaussian.
double log2_failure(const Size& size) {
  check(size);
  const double n = kDegree, error = math::kSigma * math::kSigma, q = static_cast<double>(packing_ring()->prime(0)),
               digit = std::exp2(49 - kDigitShift), part = std::exp2(kDigitShift) / q;
  const double product = static_cast<double>(size.rows) * 128 * 128 * error * std::exp2(-64);
  const double keys = n * n * digit * digit * error / q / q;
  const double dropped = n * n * part * part / 12;
  const double lowered = n / 12 * std::exp2(-2.0 * kMaskBits) + n / 12 / q / q;
  const double bound = 0.75 * std::exp2(-9) - std::exp2(-1.0 - kBodyBits);
  const double exponent = bound * bound / (2 * (product + keys + dropped + lowered));
  return std::log2(2.0 * static_cast<double>(size.columns)) - exponent / std::log(2.0);
}

Key256 seed_of(const std::string& text) {
  Key256 seed{};
  require<ParameterError>(text.size() == seed.size(), "the seed of a table must be 32 bytes");
  std::memcpy(seed.data(), text.data(), seed.size());
  return seed;
}

std::shared_ptr<device::Device> device_of(const std::string& name) {
  ring::require_own_process();
  std::shared_ptr<device::Device> device;
  if (name.empty())
    device = {std::shared_ptr<void>(), &mesh::default_device()};
  else
    device = mesh::open_device(name);
  require<DeviceError>(ring::is_whole(*device), "private look-up does not work over several processes; use one process");
  return device;
}

std::vector<u32> mask_words(const Key256& seed, std::size_t part) {
  std::vector<u32> words(kDegree);
  lwe::fill_uniform(seed, {.purpose = lwe::kLookupMask, .object = static_cast<u32>(part)}, words);
  return words;
}

RnsTensor question_masks(const std::shared_ptr<Engine>& exact, const Size& size, const Key256& seed) {
  const std::size_t parts = size.rows / kDegree;
  const RnsTensor masks(exact, {}, parts, kExact, Domain::ntt);
  std::vector<u32> residues(parts * 2 * kDegree);
  auto out = residues.begin();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::vector<u32> words = mask_words(seed, part);
    for (const u64 p : exact_ring()->primes()) {
      for (const u32 w : words) *out++ = static_cast<u32>(math::signed_mod(static_cast<std::int32_t>(w), p));
    }
  }
  ring::upload(masks, std::as_bytes(std::span(residues)));
  exact->enqueue(device::ForwardNtt{exact->prepared(), kExact, masks.view(), masks.view()});
  return masks;
}

RnsTensor key_masks(const std::shared_ptr<Engine>& packing, const Key256& seed) {
  const RnsTensor masks(packing, {}, 2, kQ, Domain::ntt);
  const device::Draw draw{.key = seed, .distribution = device::Distribution::uniform, .purpose = rlwe::kKeyMask};
  packing->enqueue(device::Sample{packing->prepared(), kQ, Secret(draw), masks.view()});
  return masks;
}

Joined::Joined()
    : p_(exact_ring()->prime(0)),
      product_(p_ * exact_ring()->prime(1)),
      second_(exact_ring()->prime(1)),
      inverse_(second_.factor(math::inverse_mod(p_, exact_ring()->prime(1)))) {}

}  // namespace heliograph::lookup
