// Fuzz targets for saved ciphertexts and keys of CKKS.
#include <cmath>

#include "heliograph/ckks.h"
#include "scheme.h"

namespace heliograph::fuzz {

namespace {

using ckks::Ciphertext;
using ckks::EvaluationKeys;
using ckks::PublicKey;
using ckks::SecretKey;

ckks::Values values(const Shape& shape, std::size_t width = 4) {
  ckks::Values v{.shape = shape, .width = width};
  for (std::size_t i = 0; i < width * items_of(shape); ++i) v.data.emplace_back(std::sin(static_cast<double>(i)), 0);
  return v;
}

/// A small secret key with its public objects.
struct Party {
  using Scheme = ckks::Scheme;
  static constexpr std::size_t kChoices = 32;

  ckks::Parameters parameters{ckks::make_spec(1024, 2, 26, 29, 1, 32, 4, true)};
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
  EvaluationKeys keys = secret.evaluation_keys(true, {1}, true);
  Ciphertext own = secret.encrypt(values({2}));

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = ckks::index(own, 0, 0);
    return {own.to_bytes(), ckks::add(one, one).to_bytes(), ckks::rescale(ckks::multiply(one, one)).to_bytes(),
            ckks::lower(one, 1).to_bytes(), ckks::slice(own, 0, 0, 1, 0).to_bytes()};
  }
  std::vector<Bytes> evaluation_keys() const {
    return {keys.to_bytes(), secret.evaluation_keys(false, {}, false).to_bytes()};
  }

  void use_alone(const Ciphertext& x) const {
    attempt([&] { x.key_id(), x.degree(), x.level(), x.scale(), x.slots(), x.complex(), x.bytes(), x.precision(); });
    use_bytes(x);
    use_shapes(x);
    if (!is_small(x.shape())) return;
    for (std::size_t axis = 0; axis <= x.shape().size(); ++axis) attempt([&] { ckks::sum(x, axis).bytes(); });
    attempt([&] { ckks::add(x, ckks::negate(x)); });
    attempt([&] { ckks::multiply_i(x); });
  }

  void use_together(const Ciphertext& x, std::size_t choice) const {
    attempt([&] { ckks::subtract(x, own); });
    const std::vector<std::function<void()>> uses = {
        [&] {
          attempt([&] { ckks::multiply_rescale(x, own, keys); });
          attempt([&] { ckks::multiply(x, x); });
        },
        [&] {
          attempt([&] { ckks::relinearize(x, keys); });
          attempt([&] { ckks::relinearize_rescale(x, keys); });
        },
        [&] { ckks::rotate(x, {1}, keys); },
        [&] { ckks::conjugate(x, keys); },
        [&] { secret.decrypt(x); },
        [&] { secret.decrypt_for_publication(x, 4, 8); },
        [&] {
          attempt([&] { ckks::lower(x, 1); });
          attempt([&] { ckks::rescale(x); });
        },
        [&] {
          attempt([&] { ckks::multiply_constants(x, values({}, 1)); });
          attempt([&] { ckks::add_constants(x, values({2}, 1)); });
        },
        [&] { ckks::multiply(x, ckks::encode(x.parameters(), values({2}), x.level(), x.scale())); },
        [&] { ckks::inner_product(x, x, 0, 2, keys); },
    };
    use_one(uses, choice);
  }

  void use(const PublicKey& key) const {
    attempt([&] { secret.decrypt(key.encrypt(values({2}), 1)); });
  }
  void look_at(const EvaluationKeys& read) const {
    read.has_conjugation(), read.has_relinearization(), read.rotations(), read.bytes();
  }
  void use(const EvaluationKeys& read) const {
    attempt([&] { ckks::multiply_rescale(own, own, read); });
    attempt([&] { ckks::rotate(own, read.rotations(), read); });
    attempt([&] { ckks::conjugate(own, read); });
    attempt([&] { ckks::sum_slots(own, 2, read); });
  }
  void use(const SecretKey& read) const {
    attempt([&] { read.decrypt(own); });
    attempt([&] { read.decrypt(read.public_key().encrypt(values({1}))); });
    attempt([&] { read.evaluation_keys(true, {1}, true).to_bytes(); });
  }
};

}  // namespace

std::vector<Target> ckks_targets() { return SchemeTargets<Party>::all("ckks"); }

}  // namespace heliograph::fuzz
