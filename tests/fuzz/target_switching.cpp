// Fuzz target for saved keys that switch between CKKS and TFHE.
#include "heliograph/switching.h"

#include "scheme.h"
#include "tfhe_rig.h"

namespace heliograph::fuzz {

namespace {

/// Small secret keys of both schemes with their public objects.
struct Party {
  static constexpr std::size_t kUses = 128, kRoundTrips = 4;  // shares of the inputs for which slow operations run

  static ckks::Spec spec() {
    ckks::Spec s = ckks::make_bootstrapping_spec(2048, 6, 39, 49.9, 3, 64, true);
    s.slots = 2;
    return s;
  }
  ckks::Parameters parameters{spec()};
  tfhe::Parameters digits{test::small_tfhe(2)};
  ckks::SecretKey secret = ckks::SecretKey::generate_for_test(parameters, std::string(32, 's'));
  tfhe::SecretKey tfhe_secret = tfhe::SecretKey::generate_for_test(digits, std::string(32, 't'));
  ckks::EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
  tfhe::EvaluationKeys tfhe_keys = tfhe_secret.evaluation_keys();
  switching::Keys switching = switching::Keys::make(secret, tfhe_secret);
  ckks::Ciphertext x = secret.encrypt({.data = {0.5, -0.25}, .shape = {}, .width = 2}, 0, {-1, 1});
  tfhe::Ciphertext bits = tfhe_secret.encrypt({1, 0}, {2}, {});
};

const Party& party() {
  static const Party made;
  return made;
}

void run_keys(std::span<const std::byte> input) {
  const Party& p = party();
  switching::Keys read;
  if (!attempt([&] { read = switching::Keys::from_bytes(input); })) return;
  attempt([&] { read.ckks_parameters().hash(), read.tfhe_parameters().hash(), read.bytes(); });
  attempt([&] { read.ckks_key_id(), read.tfhe_key_id(), switching::log2_failure(read, 4); });
  if (choice(input, Party::kRoundTrips) == 0) {
    const Bytes once = read.to_bytes();
    expect(switching::Keys::from_bytes(once).to_bytes() == once, "switching keys that were read are written differently");
  }
  use_one({
              [&] { switching::to_tfhe(p.x, 4, 0, read, p.keys, p.tfhe_keys); },
              [&] { switching::to_ckks(p.bits, 1, read, p.keys); },
          },
          choice(input, Party::kUses));
}

const std::vector<Bytes>& bases() {
  static const std::vector<Bytes> made = {party().switching.to_bytes()};
  return made;
}

}  // namespace

std::vector<Target> switching_targets() { return {{"switching-keys", run_keys, bases, true}}; }

}  // namespace heliograph::fuzz
