// Decryption whose results may be published: noise flooding.
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>

#include "schemes/ckks/decrypt.h"

namespace heliograph::ckks {

namespace {

/// Whole numbers near a Gaussian, from a ChaCha20 stream nobody else reads. Box and Muller's, which needs no table.
class Gaussian {
 public:
  Gaussian(const Key256& key, double sigma) : key_(key), sigma_(sigma) {}

  double operator()() {
    if (!std::isnan(second_)) return std::exchange(second_, std::nan(""));
    const double radius = sigma_ * std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
    second_ = std::rint(radius * std::sin(angle));
    return std::rint(radius * std::cos(angle));
  }

 private:
  /// In (0, 1], a multiple of 2^-53.
  double uniform() {
    if (left_ == 0) {
      block_ = math::chacha20_block(key_, static_cast<math::u32>(blocks_), {static_cast<math::u32>(blocks_ >> 32), 0, 0});
      ++blocks_, left_ = sizeof(block_) / sizeof(u64);
    }
    u64 word;
    std::memcpy(&word, reinterpret_cast<const std::byte*>(block_.data()) + --left_ * sizeof(u64), sizeof(u64));
    return std::ldexp(static_cast<double>((word >> 11) + 1), -53);
  }

  Key256 key_;
  double sigma_, second_ = std::nan("");
  u64 blocks_ = 0;
  std::size_t left_ = 0;
  decltype(math::chacha20_block({}, 0, {0, 0, 0})) block_{};
};

}  // namespace

Values SecretKey::decrypt_for_publication(const Ciphertext& ciphertext, double noise_bits, double precision,
                                          const Progress& progress, Checked checked) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  require<ParameterError>(noise_bits >= 0 && noise_bits <= 128, "the noise for publication has 0 to 128 bits");
  require_room_for_values(x, checked);
  const double given = std::log2(x.scale) - precision;  // NaN where nothing was given
  const double known = x.noise.vouched;                 // never what a file says
  const double bound = std::isnan(known) || given > known ? given : known;
  if (std::isnan(bound))
    throw NoiseError(
        "the noise of this ciphertext is not known, so no noise is known to hide it: say what precision the same "
        "computation has where it is made from fresh encryptions");
  // The bound on the canonical norm also bounds the Euclidean norm of the coefficients: the width against which a
  // Gaussian mechanism is measured.
  const double log_sigma = bound + noise_bits;
  const double after = data_->context->noise().random(2 * log_sigma);
  if (after >= std::log2(x.scale))
    throw NoiseError("noise of 2^" + std::to_string(static_cast<int>(std::ceil(std::min(after - std::log2(x.scale), 1e6)))) +
                     " would be added to each value: nothing would be left. Ask for fewer bits, or take a larger scale");
  std::optional<Gaussian> gaussian;  // drawn and made in the keeper
  return decrypted(*data_, x, progress, checked, [&](std::vector<double>& polynomials) {
    if (!gaussian) gaussian.emplace(data_->entropy->next(), std::exp2(log_sigma));
    for (double& v : polynomials) v += (*gaussian)();
  });
}

}  // namespace heliograph::ckks
