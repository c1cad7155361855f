// Objects of TFHE: what is read is used, by itself and with the keys it should belong to.
#include "heliograph/files.h"
#include "heliograph/tfhe.h"
#include "shapes.h"
#include "tfhe_rig.h"

namespace heliograph::fuzz {

namespace {

using tfhe::Ciphertext;
using tfhe::EvaluationKeys;
using tfhe::Parameters;
using tfhe::SecretKey;

/// A bootstrap of it takes less than a file's reading.
tfhe::Spec smallest() {
  tfhe::Spec s = test::small_tfhe();
  s.name.clear();
  s.n = 4, s.message_bits = s.carry_bits = 1, s.norm = 5;
  return s;
}

/// A small key with all that belongs to it.
struct Party {
  Parameters parameters{smallest()};
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
  EvaluationKeys keys = secret.evaluation_keys();
  Ciphertext bits = secret.encrypt({1, 0}, {2}, {});
  Ciphertext bytes = secret.encrypt({200, 7}, {2}, tfhe::type_of("uint8"));

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = tfhe::index(bits, 0, 0);
    return {bits.to_bytes(), bytes.to_bytes(), tfhe::compute(keys, {.name = "not"}, {one}).at(0).to_bytes(),
            tfhe::trivial(keys, {1}, {}, {}).to_bytes(), tfhe::slice(bits, 0, 0, 1, 0).to_bytes()};
  }
};

const Party& party() {
  static const Party made;
  return made;
}

void use_alone(const Ciphertext& x) {
  attempt([&] { x.key_id(), x.type().text(), x.wires(), x.seeded(), x.bytes(), x.parameters().hash(); });
  use_bytes(x);
  use_shapes(x);
}

void use_together(const Ciphertext& x, const Party& p, std::size_t choice) {
  if (!is_small(x.shape())) return;
  const auto compute = [&](const char* name, const std::vector<Ciphertext>& operands) {
    attempt([&] { tfhe::compute(p.keys, {.name = name}, operands); });
  };
  const Ciphertext& like = x.type().boolean ? p.bits : p.bytes;
  switch (choice) {
    case 0:
      compute("add", {x, like});
      break;
    case 1:
      compute("xor", {x, like}), compute("not", {x});
      break;
    case 2:
      compute("less", {like, x});
      break;
    case 3:
      compute("select", {p.bits, x, like});
      break;
    case 4:
      attempt([&] { p.secret.decrypt(x); });
      attempt([&] { p.secret.errors(x); });
      break;
    case 5:
      attempt([&] { tfhe::sum(p.keys, x, 0, x.type()); });
      break;
    case 6:
      compute("multiply", {x, like});
      break;
    case 7:
      attempt([&] { tfhe::matmul(p.keys, x, x); });
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
  use_together(x, p, choice(input, 64));
}

void run_evaluation_keys(std::span<const std::byte> input) {
  const Party& p = party();
  attempt([&] {
    const EvaluationKeys keys = EvaluationKeys::from_bytes(Bytes(input.begin(), input.end()));
    expect(EvaluationKeys::from_bytes(keys.to_bytes()).to_bytes() == keys.to_bytes(),
           "evaluation keys are written otherwise");
    if (choice(input, 16) != 0) return;
    attempt([&] { tfhe::compute(keys, {.name = "and"}, {p.bits, p.bits}); });
    attempt([&] {
      const Ciphertext clear = tfhe::trivial(keys, {1, 0}, {2}, {});
      tfhe::compute(keys, {.name = "xor"}, {clear, tfhe::slice(clear, 0, 1, -1, 2)});
    });
  });
}

void run_secret_key(std::span<const std::byte> input) {
  const Party& p = party();
  const MemoryFile file(input);
  attempt([&] { inspect(file.path()); });
  attempt([&] {
    const SecretKey key = SecretKey::load(file.path());
    if (choice(input, 16) != 0) return;
    attempt([&] { key.decrypt(p.bits); });
    attempt([&] { key.decrypt(key.encrypt({1}, {}, {})); });
    attempt([&] { key.evaluation_keys().to_bytes(); });
  });
}

const std::vector<Bytes>& ciphertexts() {
  static const std::vector<Bytes> all = party().ciphertexts();
  return all;
}
const std::vector<Bytes>& evaluation_keys() {
  static const std::vector<Bytes> all = {party().keys.to_bytes()};
  return all;
}
const std::vector<Bytes>& secret_keys() {
  static const std::vector<Bytes> all = {saved([](const std::string& path) { party().secret.save(path); })};
  return all;
}

}  // namespace

std::vector<Target> tfhe_targets() {
  return {{"tfhe-ciphertext", run_ciphertext, ciphertexts, true},
          {"tfhe-evaluation-keys", run_evaluation_keys, evaluation_keys, true},
          {"tfhe-secret-key", run_secret_key, secret_keys, true}};
}

}  // namespace heliograph::fuzz
