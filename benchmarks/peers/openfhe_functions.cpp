// OpenFHE's functions of encrypted reals, measured by benchmarks/peers/openfhe_functions.py. Reads commands, one a line; writes a line
// of JSON for each:
//   prepare NAME   makes keys and operands of a case, makes a first call, and returns the parameters and the largest error of its result
//   time CALLS     returns the seconds of each call
// Cases: logistic, divide: Chebyshev series on an interval, all slots; compare: exact comparison of CKKS values by FHEW and back.
// All sets meet the 128-bit level of OpenFHE's own tables. OMP_NUM_THREADS sets the number of threads.
#include <openfhe.h>

#include <cmath>
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

constexpr double kLow = -8, kHigh = 8;    // interval of the logistic function
constexpr double kLeast = 1, kMost = 16;  // interval of the divisors
/// A degree with an error of at most 2^-20 on its interval, and the levels that OpenFHE's series takes.
struct Series {
  uint32_t degree, depth;
};
constexpr Series kLogistic{35, 7}, kDivide{27, 6};
constexpr uint32_t kCompared = 8;           // values of a comparison by FHEW
constexpr uint32_t kLogQ = 25, kScale = 1;  // large-precision modulus of FHEW; factor of a comparison's values
constexpr int kMostCompared = 1 << 15;      // the values are of 16 bits

/// Prepares a case by its name, then times its calls.
class Cases {
 public:
  /// Throws std::invalid_argument if the case is unknown.
  std::string prepare(const std::string& name) {
    std::vector<double> expected;
    const auto keys_start = Clock::now();
    if (name == "logistic") {
      series(kLow, kHigh, kLogistic);
      call_ = [this] { result_ = context_->EvalLogistic(x_, kLow, kHigh, kLogistic.degree); };
      for (const double v : values_) expected.push_back(1 / (1 + std::exp(-v)));
    } else if (name == "divide") {
      series(kLeast, kMost, kDivide);
      call_ = [this] { result_ = context_->EvalDivide(x_, kLeast, kMost, kDivide.degree); };
      for (const double v : values_) expected.push_back(1 / v);
    } else if (name == "compare") {
      switching();
      call_ = [this] { result_ = context_->EvalCompareSchemeSwitching(x_, y_, kCompared, kCompared); };
      for (const double v : values_) expected.push_back(v < 0 ? 1 : 0);
    } else {
      throw std::invalid_argument("unknown case " + name);
    }
    const double keys_s = seconds_since(keys_start);
    const auto start = Clock::now();
    call_();
    const double first = seconds_since(start);
    Plaintext found;
    context_->Decrypt(keys_.secretKey, result_, &found);
    found->SetLength(expected.size());
    const std::vector<double> got = found->GetRealPackedValue();
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) largest = std::max(largest, std::abs(got[i] - expected[i]));
    const auto rns = std::dynamic_pointer_cast<CryptoParametersRNS>(context_->GetCryptoParameters());
    const double log_q = log2_of(context_->GetElementParams());
    std::ostringstream out;
    out.precision(9);
    out << "{\"parameters\": {\"scheme\": \"ckks\", \"n\": " << context_->GetRingDimension() << ", \"log_q\": " << log_q
        << ", \"log_qp\": " << log_q + log2_of(rns->GetParamsP()) << ", \"security\": \"128-bit\"" << more_
        << "}, \"values\": " << expected.size() << ", \"log2_error\": " << std::log2(largest) << ", \"keys_s\": " << keys_s
        << ", \"first_s\": " << first << ", \"version\": \"" << GetOPENFHEVersion() << "\"}";
    return out.str();
  }

  std::string time(int calls) const { return "{\"times_s\": " + times_of(calls, call_) + "}"; }

 private:
  CCParams<CryptoContextCKKSRNS> parameters(uint32_t depth) const {
    CCParams<CryptoContextCKKSRNS> p;
    p.SetSecurityLevel(HEStd_128_classic);
    p.SetMultiplicativeDepth(depth);
    p.SetScalingModSize(50);
    p.SetFirstModSize(60);
    p.SetScalingTechnique(FLEXIBLEAUTO);
    p.SetKeySwitchTechnique(HYBRID);
    return p;
  }

  /// Makes a set, keys, and values uniform in [low, high] with both ends.
  void series(double low, double high, const Series& of) {
    context_ = GenCryptoContext(parameters(of.depth));
    for (const auto feature : {PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE}) context_->Enable(feature);
    keys_ = context_->KeyGen();
    context_->EvalMultKeyGen(keys_.secretKey);
    const uint32_t slots = context_->GetRingDimension() / 2;
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> part(low, high);
    values_.resize(slots);
    for (double& v : values_) v = part(random);
    values_[0] = low, values_[1] = high;
    x_ = context_->Encrypt(keys_.publicKey, context_->MakeCKKSPackedPlaintext(values_, 1, 0, nullptr, slots));
    more_ = ", \"degree\": " + std::to_string(of.degree) + ", \"levels\": " + std::to_string(of.depth);
  }

  /// Makes sets and keys of CKKS and FHEW, and integers whose differences from 0 are compared.
  void switching() {
    auto p = parameters(17);
    p.SetBatchSize(kCompared);
    p.SetNumLargeDigits(3);
    context_ = GenCryptoContext(p);
    for (const auto feature : {PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE, SCHEMESWITCH}) context_->Enable(feature);
    keys_ = context_->KeyGen();
    SchSwchParams switched;
    switched.SetSecurityLevelCKKS(HEStd_128_classic);
    switched.SetSecurityLevelFHEW(STD128);
    switched.SetCtxtModSizeFHEWLargePrec(kLogQ);
    switched.SetNumSlotsCKKS(kCompared);
    switched.SetNumValues(kCompared);
    const auto secret = context_->EvalSchemeSwitchingSetup(switched);
    const auto fhew = context_->GetBinCCForSchemeSwitch();
    fhew->BTKeyGen(secret);
    context_->EvalSchemeSwitchingKeyGen(keys_, secret);
    const auto plain = (1u << kLogQ) / (2 * fhew->GetBeta().ConvertToInt());
    context_->EvalCompareSwitchPrecompute(plain, kScale);
    std::mt19937_64 random(1);
    values_.clear();
    for (uint32_t i = 0; i < kCompared; ++i)
      values_.push_back(static_cast<double>(random() % (2 * kMostCompared)) - kMostCompared + 0.5);
    values_[0] = 0.5, values_[1] = -0.5;
    const std::vector<double> zeros(kCompared);
    x_ = context_->Encrypt(keys_.publicKey, context_->MakeCKKSPackedPlaintext(values_, 1, 0, nullptr, kCompared));
    y_ = context_->Encrypt(keys_.publicKey, context_->MakeCKKSPackedPlaintext(zeros, 1, 0, nullptr, kCompared));
    more_ = ", \"fhew\": \"STD128\", \"fhew_log_q\": " + std::to_string(kLogQ) +
            ", \"plain_modulus\": " + std::to_string(plain) +
            ", \"fhew_n\": " + std::to_string(fhew->GetParams()->GetLWEParams()->Getn());
  }

  Context context_;
  KeyPair<DCRTPoly> keys_;
  std::vector<double> values_;
  Text x_, y_, result_;
  std::function<void()> call_;
  std::string more_;
};

}  // namespace

int main() {
  try {
    Cases cases;
    std::string word, value;
    while (std::cin >> word >> value)
      std::cout << (word == "prepare" ? cases.prepare(value) : cases.time(std::stoi(value))) << std::endl;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
