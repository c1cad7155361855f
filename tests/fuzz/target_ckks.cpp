// Objects of CKKS: what is read is used, by itself and with the keys it should belong to.
#include <cmath>

#include "heliograph/ckks.h"
#include "heliograph/files.h"
#include "shapes.h"

namespace heliograph::fuzz {

namespace {

using ckks::Ciphertext;
using ckks::EvaluationKeys;
using ckks::Parameters;
using ckks::PublicKey;
using ckks::SecretKey;

ckks::Values values(const Shape& shape, std::size_t width = 4) {
  ckks::Values v{.shape = shape, .width = width};
  for (std::size_t i = 0; i < width * items_of(shape); ++i) v.data.emplace_back(std::sin(static_cast<double>(i)), 0);
  return v;
}

/// A small key with all that belongs to it.
struct Party {
  Parameters parameters{ckks::make_spec(1024, 2, 26, 29, 1, "w32", 4, true)};
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
  EvaluationKeys keys = secret.evaluation_keys(true, {1}, true);
  Ciphertext x = secret.encrypt(values({2}));

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = ckks::index(x, 0, 0);
    return {x.to_bytes(), ckks::add(one, one).to_bytes(), ckks::rescale(ckks::multiply(one, one)).to_bytes(),
            ckks::lower(one, 1).to_bytes(), ckks::slice(x, 0, 0, 1, 0).to_bytes()};
  }
};

const Party& party() {
  static const Party made;
  return made;
}

void use_alone(const Ciphertext& x) {
  attempt([&] { x.key_id(), x.degree(), x.level(), x.scale(), x.slots(), x.complex(), x.bytes(), x.precision(); });
  use_bytes(x);
  use_shapes(x);
  if (!is_small(x.shape())) return;
  for (std::size_t axis = 0; axis <= x.shape().size(); ++axis) attempt([&] { ckks::sum(x, axis).bytes(); });
  attempt([&] { ckks::add(x, ckks::negate(x)); });
  attempt([&] { ckks::multiply_i(x); });
}

void use_together(const Ciphertext& x, const Party& p, std::size_t choice) {
  if (!is_small(x.shape())) return;
  attempt([&] { ckks::subtract(x, p.x); });
  switch (choice) {
    case 0:
      attempt([&] { ckks::multiply_rescale(x, p.x, p.keys); });
      attempt([&] { ckks::multiply(x, x); });
      break;
    case 1:
      attempt([&] { ckks::relinearize(x, p.keys); });
      attempt([&] { ckks::relinearize_rescale(x, p.keys); });
      break;
    case 2:
      attempt([&] { ckks::rotate(x, {1}, p.keys); });
      break;
    case 3:
      attempt([&] { ckks::conjugate(x, p.keys); });
      break;
    case 4:
      attempt([&] { p.secret.decrypt(x); });
      break;
    case 5:
      attempt([&] { p.secret.decrypt_for_publication(x, 4, 8); });
      break;
    case 6:
      attempt([&] { ckks::lower(x, 1); });
      attempt([&] { ckks::rescale(x); });
      break;
    case 7:
      attempt([&] { ckks::multiply_constants(x, values({}, 1)); });
      attempt([&] { ckks::add_constants(x, values({2}, 1)); });
      break;
    case 8:
      attempt([&] { ckks::multiply(x, ckks::encode(x.parameters(), values({2}), x.level(), x.scale())); });
      break;
    case 9:
      attempt([&] { ckks::inner_product(x, x, 0, 2, p.keys); });
      break;
    default:
      break;
  }
}

void run_ciphertext(std::span<const std::byte> input) {
  const Party& p = party();
  Ciphertext x;
  if (!attempt([&] { x = Ciphertext::from_bytes(Bytes(input.begin(), input.end())); })) return;
  use_alone(x);
  use_together(x, p, choice(input, 32));
}

void run_public_key(std::span<const std::byte> input) {
  const Party& p = party();
  attempt([&] {
    const PublicKey key = PublicKey::from_bytes(Bytes(input.begin(), input.end()));
    expect(PublicKey::from_bytes(key.to_bytes()).to_bytes() == key.to_bytes(), "a public key is written otherwise");
    if (choice(input, 16) != 0) return;
    attempt([&] { p.secret.decrypt(key.encrypt(values({2}), 1)); });
  });
}

void run_evaluation_keys(std::span<const std::byte> input) {
  const Party& p = party();
  attempt([&] {
    const EvaluationKeys keys = EvaluationKeys::from_bytes(Bytes(input.begin(), input.end()));
    keys.has_conjugation(), keys.has_relinearization(), keys.bytes();
    const std::vector<std::int64_t> rotations = keys.rotations();
    expect(EvaluationKeys::from_bytes(keys.to_bytes()).to_bytes() == keys.to_bytes(),
           "evaluation keys are written otherwise");
    if (choice(input, 16) != 0) return;
    attempt([&] { ckks::multiply_rescale(p.x, p.x, keys); });
    attempt([&] { ckks::rotate(p.x, rotations, keys); });
    attempt([&] { ckks::conjugate(p.x, keys); });
    attempt([&] { ckks::sum_slots(p.x, 2, keys); });
  });
}

void run_secret_key(std::span<const std::byte> input) {
  const Party& p = party();
  const MemoryFile file(input);
  attempt([&] { inspect(file.path()); });
  attempt([&] {
    const SecretKey key = SecretKey::load(file.path());
    if (choice(input, 16) != 0) return;
    attempt([&] { key.decrypt(p.x); });
    attempt([&] { key.decrypt(key.public_key().encrypt(values({1}))); });
    attempt([&] { key.evaluation_keys(true, {1}, true).to_bytes(); });
  });
}

const std::vector<Bytes>& ciphertexts() {
  static const std::vector<Bytes> all = party().ciphertexts();
  return all;
}
const std::vector<Bytes>& public_keys() {
  static const std::vector<Bytes> all = {party().secret.public_key().to_bytes()};
  return all;
}
const std::vector<Bytes>& evaluation_keys() {
  static const std::vector<Bytes> all = {party().keys.to_bytes(),
                                         party().secret.evaluation_keys(false, {}, false).to_bytes()};
  return all;
}
const std::vector<Bytes>& secret_keys() {
  static const std::vector<Bytes> all = {saved([](const std::string& path) { party().secret.save(path); })};
  return all;
}

}  // namespace

std::vector<Target> ckks_targets() {
  return {{"ckks-ciphertext", run_ciphertext, ciphertexts, true},
          {"ckks-public-key", run_public_key, public_keys, true},
          {"ckks-evaluation-keys", run_evaluation_keys, evaluation_keys, true},
          {"ckks-secret-key", run_secret_key, secret_keys, true}};
}

}  // namespace heliograph::fuzz
