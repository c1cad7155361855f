// OpenFHE's CKKS, measured by benchmarks/peers/openfhe.py. Reads commands, one a line; writes a line of JSON for each:
//   prepare NAME           makes keys and operands of a case, makes a first call and returns the parameters
//   time CALLS             returns the seconds of each call
//   precision CIPHERTEXTS  returns the correct bits of bootstraps over all slots, with new values for each ciphertext
// Cases: multiply, rescaled, rotate and rotate8 with 24 limbs at N=2^16; bootstrap of 2^15 slots with 5 levels left, with the fastest
// parameters found; bootstrap-precise, with the most precise. All sets meet the 128-bit level of OpenFHE's own table.
// OMP_NUM_THREADS sets the number of threads.
#include <malloc.h>
#include <openfhe.h>

#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "openfhe_peer.h"

namespace {

using namespace lbcrypto;
using Context = CryptoContext<DCRTPoly>;
using Text = Ciphertext<DCRTPoly>;

constexpr uint32_t kN = 1 << 16;
constexpr uint32_t kSlots = kN / 2;
constexpr uint32_t kBefore = 1, kAfter = 5;  // levels left before and after a bootstrap

/// Members of a JSON object: "name": value, ...
class Json {
 public:
  template <class T>
  Json& add(const std::string& name, const T& value) {
    out_ << (empty_ ? "" : ", ") << '"' << name << "\": " << value;
    empty_ = false;
    return *this;
  }
  Json& add_text(const std::string& name, const std::string& value) { return add(name, '"' + value + '"'); }
  std::string text() const { return "{" + out_.str() + "}"; }

 private:
  std::ostringstream out_ = [] {
    std::ostringstream out;
    out.precision(9);
    return out;
  }();
  bool empty_ = true;
};

/// Returns values whose real and imaginary parts are uniform in [-1, 1].
std::vector<std::complex<double>> values(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> part(-1, 1);
  std::vector<std::complex<double>> made(kSlots);
  for (auto& value : made) {
    const double real = part(random);
    value = {real, part(random)};
  }
  return made;
}

/// A parameter set with its keys.
struct Party {
  Context context;
  KeyPair<DCRTPoly> keys;
  double log_scale = 0;
  double keys_s = 0;  // seconds that key generation for bootstrapping took

  Text encrypted(const std::vector<std::complex<double>>& clear, uint32_t level = 0) const {
    return context->Encrypt(keys.publicKey, context->MakeCKKSPackedPlaintext(clear, 1, level, nullptr, kSlots));
  }
  uint32_t levels() const { return static_cast<uint32_t>(context->GetElementParams()->GetParams().size()) - 1; }
  uint32_t left(const Text& x) const {
    return levels() - static_cast<uint32_t>(x->GetLevel()) - static_cast<uint32_t>(x->GetNoiseScaleDeg() - 1);
  }
  Json parameters() const {
    const auto rns = std::dynamic_pointer_cast<CryptoParametersRNS>(context->GetCryptoParameters());
    const double log_q = log2_of(context->GetElementParams());
    Json said;
    said.add_text("scheme", "ckks").add("n", context->GetRingDimension()).add("log_q", log_q);
    said.add("log_qp", log_q + log2_of(rns->GetParamsP())).add("log_scale", log_scale).add("limbs", levels() + 1);
    said.add("special", rns->GetParamsP()->GetParams().size()).add("digits", rns->GetNumPartQ());
    said.add_text("security", "128-bit").add("levels", levels());
    return said;
  }
};

CCParams<CryptoContextCKKSRNS> parameters(uint32_t depth, uint32_t scale, uint32_t first) {
  CCParams<CryptoContextCKKSRNS> p;
  p.SetRingDim(kN);
  p.SetSecurityLevel(HEStd_128_classic);
  p.SetMultiplicativeDepth(depth);
  p.SetKeySwitchTechnique(HYBRID);
  p.SetNumLargeDigits(3);
  p.SetScalingTechnique(FIXEDMANUAL);
  p.SetScalingModSize(scale);
  p.SetFirstModSize(first);
  return p;
}

Party party(const CCParams<CryptoContextCKKSRNS>& p) {
  Party made;
  made.context = GenCryptoContext(p);
  made.log_scale = p.GetScalingModSize();
  for (const auto feature : {PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE, FHE}) made.context->Enable(feature);
  return made;
}

/// Prepares a case by its name, then times its calls.
class Cases {
 public:
  /// Throws std::invalid_argument if the case is unknown.
  std::string prepare(const std::string& name) {
    const bool bootstraps = name.rfind("bootstrap", 0) == 0;
    if (bootstraps) {
      bootstrap(name);
    } else {
      levelled(name);
    }
    const auto start = Clock::now();
    call_();
    const double first = seconds_since(start);
    Json parameters = party_.parameters(), said;
    if (bootstraps) parameters.add("level_before", party_.left(x_)).add("level_after", party_.left(results_[0]));
    said.add("parameters", parameters.text()).add("first_s", first).add_text("version", GetOPENFHEVersion());
    if (bootstraps) said.add("keys_s", party_.keys_s);
#ifdef WITH_INTEL_HEXL
    return said.add("hexl", "true").text();
#else
    return said.add("hexl", "false").text();
#endif
  }

  std::string time(int calls) const { return Json().add("times_s", times_of(calls, call_)).text(); }

  std::string precision(int ciphertexts) const {
    double sum = 0, squares = 0, largest = 0;
    std::size_t count = 0;
    for (int i = 0; i < ciphertexts; ++i) {
      const auto clear = values(100 + i);
      Plaintext found;
      party_.context->Decrypt(party_.keys.secretKey, party_.context->EvalBootstrap(exhausted(clear)), &found);
      found->SetLength(kSlots);
      const auto right = found->GetCKKSPackedValue();
      for (std::size_t j = 0; j < clear.size(); ++j)
        for (const double off : {std::abs(right[j].real() - clear[j].real()), std::abs(right[j].imag() - clear[j].imag())}) {
          sum += off, squares += off * off, largest = std::max(largest, off), ++count;
        }
    }
    Json said;
    said.add("ciphertexts", ciphertexts).add("mean_bits", -std::log2(sum / count));
    said.add("root_mean_square_bits", -std::log2(squares / count) / 2).add("worst_bits", -std::log2(largest));
    return said.text();
  }

 private:
  Text exhausted(const std::vector<std::complex<double>>& clear) const {
    return party_.encrypted(clear, party_.levels() - kBefore);
  }

  /// Deletes the case and the keys that OpenFHE stores globally.
  void clear() {
    if (party_.context) party_.context->ClearStaticMapsAndVectors();
    call_ = nullptr;
    x_ = y_ = nullptr;
    results_ = {};
    party_ = Party();
    levelled_ = false;
  }

  void bootstrap(const std::string& name) {
    const bool precise = name == "bootstrap-precise";
    if (!precise && name != "bootstrap") throw std::invalid_argument("unknown case " + name);
    clear();
    const std::vector<uint32_t> budget = precise ? std::vector<uint32_t>{3, 3} : std::vector<uint32_t>{4, 4};
    const uint32_t depth = kAfter + FHECKKSRNS::GetBootstrapDepth(budget, SPARSE_ENCAPSULATED);
    auto p = precise ? parameters(depth, 57, 60) : parameters(depth, 51, 58);
    if (precise) p.SetScalingTechnique(FLEXIBLEAUTO);
    p.SetSecretKeyDist(SPARSE_ENCAPSULATED);
    p.SetCKKSDataType(COMPLEX);
    party_ = party(p);
    const auto start = Clock::now();
    party_.context->EvalBootstrapSetup(budget, {0, 0}, kSlots);
    party_.keys = party_.context->KeyGen();
    party_.context->EvalMultKeyGen(party_.keys.secretKey);
    party_.context->EvalBootstrapKeyGen(party_.keys.secretKey, kSlots);
    party_.keys_s = seconds_since(start);
    x_ = exhausted(values(1));
    call_ = [this] { results_[0] = party_.context->EvalBootstrap(x_); };
  }

  void levelled(const std::string& name) {
    if (!levelled_) {
      clear();
      party_ = party(parameters(23, 50, 60));
      party_.keys = party_.context->KeyGen();
      party_.context->EvalMultKeyGen(party_.keys.secretKey);
      party_.context->EvalRotateKeyGen(party_.keys.secretKey, {1, 2, 3, 4, 5, 6, 7, 8});
      x_ = party_.encrypted(values(1)), y_ = party_.encrypted(values(2));
      levelled_ = true;
    }
    if (name == "multiply") {
      call_ = [this] { results_[0] = party_.context->EvalMult(x_, y_); };
    } else if (name == "rescaled") {
      call_ = [this] { results_[0] = party_.context->Rescale(party_.context->EvalMult(x_, y_)); };
    } else if (name == "rotate") {
      call_ = [this] { results_[0] = party_.context->EvalRotate(x_, 1); };
    } else if (name == "rotate8") {
      call_ = [this] {
        const auto gathered = party_.context->EvalFastRotationPrecompute(x_);
        for (int by = 1; by <= 8; ++by) results_[by - 1] = party_.context->EvalFastRotation(x_, by, gathered);
      };
    } else {
      throw std::invalid_argument("unknown case " + name);
    }
  }

  Party party_;
  Text x_, y_;
  std::array<Text, 8> results_;
  std::function<void()> call_;
  bool levelled_ = false;
};

/// Answers each command line.
void serve() {
  Cases cases;
  std::string word, value;
  while (std::cin >> word >> value) {
    if (word == "prepare") {
      std::cout << cases.prepare(value) << std::endl;
    } else if (word == "time") {
      std::cout << cases.time(std::stoi(value)) << std::endl;
    } else if (word == "precision") {
      std::cout << cases.precision(std::stoi(value)) << std::endl;
    } else {
      throw std::invalid_argument("unknown command " + word);
    }
  }
}

}  // namespace

int main() {
  // malloc keeps freed memory in the process instead of returning it to the system, which is OpenFHE's fastest setting.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 2000 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
  try {
    serve();
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
