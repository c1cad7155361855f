// CKKS bootstrapping: each stage is compared with the same computation on clear numbers, the complete bootstrap runs on
// every device, and errors are tested.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <random>

#include "heliograph/ckks.h"
#include "heliograph/progress.h"
#include "io/sha256.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/encode.h"
#include "schemes/ckks/spec.h"

namespace heliograph {
namespace {

using ckks::Bootstrapper;
using ckks::Ciphertext;
using ckks::Context;
using ckks::Diagonals;
using ckks::EvaluationKeys;
using ckks::Parameters;
using ckks::SecretKey;
using ckks::Values;
using Complex = std::complex<double>;
using Vector = std::vector<Complex>;

constexpr std::size_t kN = 2048, kSlots = kN / 2;
const std::string kSeed = "thirty-two bytes of a test's seed";

ckks::Spec short_set() { return ckks::make_bootstrapping_spec(kN, 3, 44.8, 59.2, 3, 32, true); }
ckks::Spec corrected_set() { return ckks::make_bootstrapping_spec(kN, 3, 39, 49.9, 3, 64, true, true); }
ckks::Spec small_set(std::size_t slots = 0) {
  ckks::Spec spec = ckks::make_bootstrapping_spec(kN, 3, 39, 49.9, 3, 64, true);
  spec.slots = slots;
  return spec;
}

/// Returns values whose magnitudes are at most `most`.
Values values_of(const Shape& shape, bool complex, double most = 1) {
  if (complex) most *= 0.7;
  std::mt19937_64 random(7);
  const auto number = [&] { return most * (std::ldexp(static_cast<double>(random() >> 11), -52) - 1); };
  Values v{.shape = shape, .width = kSlots, .complex = complex};
  for (std::size_t i = 0; i < ring::element_count(shape) * kSlots; ++i) {
    const double re = number(), im = number();
    v.data.emplace_back(re, complex ? im : 0);
  }
  return v;
}

/// Returns the largest error among real and imaginary parts.
double worst(const Values& got, const Vector& wanted) {
  EXPECT_EQ(got.data.size(), wanted.size());
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Complex off = got.data[i] - wanted[i];
    largest = std::max({largest, std::abs(off.real()), std::abs(off.imag())});
  }
  return largest;
}

Vector times(const Diagonals& matrix, const Vector& x) {
  Vector y(x.size());
  for (const auto& [k, diagonal] : matrix)
    for (std::size_t i = 0; i < x.size(); ++i) y[i] += diagonal[i % diagonal.size()] * x[(i + k) % x.size()];
  return y;
}

std::size_t reversed(std::size_t i, std::size_t slots = kSlots) {
  std::size_t r = 0;
  for (std::size_t bit = 1; bit < slots; bit *= 2) r = r * 2 + (i / bit) % 2;
  return r;
}

class Bootstrap : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    parameters_ = new Parameters(small_set());
    secret_ = new SecretKey(SecretKey::generate(*parameters_));
    keys_ = new EvaluationKeys(secret_->evaluation_keys(true, {}, true, true));
  }
  static void TearDownTestSuite() { delete keys_, delete secret_, delete parameters_; }

  static Context& context() { return *parameters_->context(); }
  static Ciphertext low(const Values& v, double bound = 1) {
    return secret_->encrypt(v, parameters_->bootstrapping_level(), bound);
  }
  /// Returns the encrypted polynomial.
  static std::vector<double> polynomial(const ring::RnsTensor& x) {
    const SecretVector<double> phase = ckks::download_polynomials(context(), rlwe::phase(secret_->data().key, x));
    return {phase.begin(), phase.end()};
  }

  static Parameters* parameters_;
  static SecretKey* secret_;
  static EvaluationKeys* keys_;
};
Parameters* Bootstrap::parameters_;
SecretKey* Bootstrap::secret_;
EvaluationKeys* Bootstrap::keys_;

TEST_F(Bootstrap, MatricesAreTheTransformBetweenValuesAndCoefficients) {
  const Bootstrapper& how = context().bootstrapper();
  const Vector values = values_of({}, true).data;
  Vector slots = values;
  for (std::size_t i = 0; i < how.stages_to_coefficients(); ++i) slots = times(how.to_coefficients(i, 1), slots);
  std::vector<double> coefficients(kN);
  context().embedding().to_polynomial(slots.data(), 1, coefficients.data());
  for (std::size_t i = 0; i < kSlots; ++i) {
    const Complex both(coefficients[i], coefficients[i + kSlots]);
    EXPECT_NEAR(std::abs(both - values[reversed(i)]), 0, 1e-11);
  }
  // The matrices that return to slots include the factor 1 / (q range) of the sine's argument.
  for (std::size_t i = 0; i < how.stages_to_slots(); ++i) slots = times(how.to_slots(i), slots);
  const double factor = (slots[5] / values[5]).real();
  for (std::size_t i = 0; i < kSlots; ++i) EXPECT_NEAR(std::abs(slots[i] - factor * values[i]), 0, 1e-11 * factor);
  const std::size_t top = context().raised_level();
  double wanted = context().scale(top - 2) / (how.lowest_modulus() * ckks::kSineRange);
  for (std::size_t l : {top, top - 1}) wanted *= context().ratio(l) / context().scale(l);
  EXPECT_NEAR(factor / wanted, 1, 1e-12);
}

TEST_F(Bootstrap, MatricesOfRepeatedValuesGiveTheSameCoefficients) {
  const Bootstrapper& how = context().bootstrapper();
  const auto coefficients_of = [&](Vector slots, const ckks::Repetition& repetition) {
    for (std::size_t i = 0; i < how.stages_to_coefficients(); ++i)
      slots = times(how.to_coefficients(i, 1, repetition), slots);
    return slots;
  };
  for (std::size_t period = kSlots / 2; period > 0; period /= 2) {
    Vector values = values_of({}, true).data, halves;
    for (std::size_t i = 0; i < kSlots; ++i) values[i] = values[i % period];
    for (std::size_t i = 0; i < kSlots; ++i) halves.push_back(values[i] * (i & period ? Complex(0, -1) : Complex(1)));
    const Vector plain = coefficients_of(values, {period}), whole = coefficients_of(values, {kSlots});
    const Vector alternating = coefficients_of(values, {period, true}), wanted = coefficients_of(halves, {kSlots});
    for (std::size_t i = 0; i < kSlots; ++i) {
      EXPECT_NEAR(std::abs(plain[i] - whole[i]), 0, 1e-11) << period;
      EXPECT_NEAR(std::abs(alternating[i] - wanted[i]), 0, 1e-11) << period;
    }
    std::size_t diagonals = 0;
    for (std::size_t i = 0; i < how.stages_to_coefficients(); ++i) diagonals += how.to_coefficients(i, 1, {period}).size();
    EXPECT_LE(diagonals, std::max<std::size_t>(4 * period, 3)) << period;  // one period has few diagonals
  }
}

TEST_F(Bootstrap, RaisingAddsFewMultiplesOfTheModulus) {
  const Bootstrapper& how = context().bootstrapper();
  ckks::BootstrappingPlan& plan = context().bootstrapping();
  const Values v = values_of({1}, true);
  ring::RnsTensor t = low(v).data().tensor;
  for (const ckks::LinearSum& sum : plan.to_coefficients(1)) t = apply(sum, t, *keys_);
  const std::vector<double> before = polynomial(t);
  const double scale = context().scale(1), q = how.lowest_modulus();
  for (std::size_t i = 0; i < kSlots; ++i) {
    EXPECT_NEAR(before[i] / scale, v.data[reversed(i)].real(), 0x1p-24);
    EXPECT_NEAR(before[i + kSlots] / scale, v.data[reversed(i)].imag(), 0x1p-24);
  }
  // The first matrix is applied to the ciphertext, the other matrices to clear values. The result is t / (q range) at the
  // scale of the sine's input.
  const ring::RnsTensor raised = plan.raise(t, *keys_->data().keys.bootstrapping);
  EXPECT_EQ(raised.primes(), context().rlwe().chain(context().raised_level()));
  const std::vector<double> phase = polynomial(raised);
  Vector slots(kSlots);
  context().embedding().to_slots(phase.data(), 1, slots.data());
  for (std::size_t i = 1; i < how.stages_to_slots(); ++i) slots = times(how.to_slots(i), slots);
  const std::size_t top = context().raised_level();
  double unit = context().scale(top - 2) / ckks::kSineRange;
  for (std::size_t l : {top, top - 1}) unit *= context().ratio(l) / context().scale(l);
  int largest = 0, none = 0;
  for (std::size_t i = 0; i < kN; ++i) {
    const Complex slot = slots[i % kSlots] / unit;
    const double u = i < kSlots ? slot.real() : slot.imag(), whole = std::rint(u);
    const std::size_t place = reversed(i % kSlots) + (i < kSlots ? 0 : kSlots);
    EXPECT_NEAR(u - whole, before[place] / q, 0x1p-30);
    largest = std::max(largest, static_cast<int>(std::abs(whole)));
    none += whole == 0;
  }
  // A sum of 33 uniform numbers between -1/2 and 1/2 rounds to 0 in a quarter of the cases. The sum of the 33 numbers
  // exceeds 8 once in a million cases.
  EXPECT_GE(largest, 3);
  EXPECT_LE(largest, 9);
  EXPECT_NEAR(none, 0.24 * kN, 0.05 * kN);
}

TEST_F(Bootstrap, RefreshedValuesAreRightAtTheTopLevel) {
  for (const bool complex : {true, false}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 2}}) {
      const Values v = values_of(shape, complex);
      const Ciphertext x = low(v), y = bootstrap(x, *keys_);
      EXPECT_EQ(y.level(), parameters_->top_level());
      EXPECT_EQ(y.scale(), parameters_->scale(y.level()));
      EXPECT_EQ(y.shape(), shape);
      EXPECT_EQ(y.complex(), complex);
      const double error = worst(secret_->decrypt(y), v.data);
      EXPECT_LE(error, std::exp2(-18.5)) << complex;
      EXPECT_LE(error, std::exp2(-y.precision()));
      EXPECT_GE(y.precision(), 16);
    }
  }
}

TEST_F(Bootstrap, RefreshesExtremeValues) {
  Values v = values_of({6}, true);
  for (std::size_t i = 0; i < kSlots; ++i) {
    const auto at = [&](std::size_t item) -> Complex& { return v.data[item * kSlots + i]; };
    at(0) = 1, at(1) = Complex(-1, -1), at(2) = i % 2 ? 1 : -1, at(3) = 0, at(4) = i == 17 ? Complex(1, -1) : 0;
    at(5) = Complex(0, 1);
  }
  const Ciphertext y = bootstrap(low(v, 1.5), *keys_, 1.5);
  EXPECT_LE(worst(secret_->decrypt(y), v.data), 0x1p-16);
  EXPECT_LE(worst(secret_->decrypt(y), v.data), std::exp2(-y.precision()));
}

TEST_F(Bootstrap, AcceptsAnyDeclaredBoundOfTheValues) {
  for (const double bound : {1.0 / 64, 16.0}) {
    const Values v = values_of({}, true, bound);
    const Ciphertext y = bootstrap(within(low(v, bound), bound), *keys_, bound);
    EXPECT_LE(worst(secret_->decrypt(y), v.data), bound * 0x1p-18) << bound;
    if (bound > 1) {
      EXPECT_LE(worst(secret_->decrypt(y), v.data), std::exp2(-y.precision())) << bound;
    }
    EXPECT_FALSE(std::isnan(y.precision())) << bound;  // values encrypted in this process have a proven bound
  }
}

TEST(BootstrapIterations, ReduceTheError) {
  const Parameters p(ckks::make_bootstrapping_spec(kN, 3, 47, 49.9, 3, 64, true));
  const SecretKey secret = SecretKey::generate(p);
  const EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
  const Values v = values_of({2}, true);
  const Ciphertext x = secret.encrypt(v, p.bootstrapping_level(), 1);
  double last = 1;
  for (const int iterations : {1, 2}) {
    const Ciphertext y = bootstrap(x, keys, 1, iterations);
    const double error = worst(secret.decrypt(y), v.data);
    EXPECT_LE(error, iterations == 1 ? 0x1p-17 : 0x1p-33);
    EXPECT_LE(error, std::exp2(-y.precision()));
    EXPECT_LE(std::exp2(-y.precision()), last * 0x1p-12);
    last = std::exp2(-y.precision());
  }
  EXPECT_THROW(bootstrap(x, keys, 1, 0), ParameterError);
  const Values real = values_of({2}, false);  // bootstrapped as a pair, but their remainders separately
  const Ciphertext low = secret.encrypt(real, p.bootstrapping_level(), 1);
  std::vector<double> told;
  const Ciphertext y = [&] {
    const ProgressScope scope([&](double share) { told.push_back(share); });
    return bootstrap(low, keys, 1, 2);
  }();
  EXPECT_LE(worst(secret.decrypt(y), real.data), std::min(0x1p-33, std::exp2(-y.precision())));
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GE(told.size(), 20u);
}

TEST_F(Bootstrap, ManyBootstrapsInARowDoNotDrift) {
  const Values v = values_of({}, true);
  Ciphertext x = low(v);
  for (int i = 0; i < 20; ++i) x = bootstrap(within(x, 1), *keys_);
  const Values got = secret_->decrypt(x);
  EXPECT_LE(worst(got, v.data), 20 * std::exp2(-18.5));
  Complex sum = 0;
  for (std::size_t i = 0; i < kSlots; ++i) sum += got.data[i] - v.data[i];
  EXPECT_LE(std::abs(sum) / kSlots, 0x1p-19);
}

TEST_F(Bootstrap, ItsResultHasLevelsForFurtherProducts) {
  const Values v = values_of({}, false);
  Ciphertext x = bootstrap(low(v), *keys_);
  for (int i = 0; i < 3; ++i) x = multiply_rescale(x, x, *keys_);
  EXPECT_EQ(x.level(), parameters_->bootstrapping_level());
  Vector wanted = v.data;
  for (Complex& w : wanted) w = std::pow(w, 8);
  EXPECT_LE(worst(secret_->decrypt(bootstrap(x, *keys_)), wanted), 0x1p-15);
}

TEST_F(Bootstrap, RefusesInvalidOperandsAndKeys) {
  const Values v = values_of({}, true, 0.5);
  const Ciphertext x = low(v);
  EXPECT_THROW(bootstrap(lower(x, 3), *keys_), LevelError);
  EXPECT_THROW(bootstrap(add(x, x), *keys_, 0.7), PlaintextRangeError);
  EXPECT_THROW(bootstrap(multiply(x, x), *keys_), ScaleError);  // a product that is not rescaled
  EXPECT_THROW(bootstrap(x, secret_->evaluation_keys(true, {}, true)), MissingKeyError);
  EXPECT_THROW(bootstrap(x, SecretKey::generate(*parameters_).evaluation_keys(true, {}, true, true)), WrongKeyError);
  for (const double bound : {-1.0, std::nan(""), 1e9}) EXPECT_THROW(bootstrap(x, *keys_, bound), ParameterError);
  const SecretKey other = SecretKey::generate(Parameters(ckks::make_spec(kN, 4, 40, 50, 1, 64, 0, true)));
  EXPECT_THROW(other.evaluation_keys(true, {}, true, true), ParameterError);
  EXPECT_THROW(bootstrap(other.encrypt(v), other.evaluation_keys(true, {}, true)), ParameterError);
}

TEST_F(Bootstrap, KeysAreSavedAndLoaded) {
  const Values v = values_of({}, true);
  const EvaluationKeys loaded = EvaluationKeys::from_bytes(keys_->to_bytes());
  EXPECT_TRUE(loaded.has_bootstrapping());
  EXPECT_EQ(loaded.bytes(), keys_->bytes());
  const Ciphertext x = low(v);
  EXPECT_EQ(secret_->decrypt(bootstrap(x, loaded)).data, secret_->decrypt(bootstrap(x, *keys_)).data);
  // keys from a file are not trusted, so the precision is unknown
  EXPECT_TRUE(std::isnan(bootstrap(x, loaded).precision()));
}

TEST(BootstrapKeys, EncryptASparseSecret) {
  const Parameters p(small_set());
  rlwe::Entropy entropy;
  for (int i = 0; i < 4; ++i) {
    const auto key = rlwe::SecretKey::generate_sparse(p.context()->rlwe_shared(), ckks::kSparseWeight, entropy);
    std::size_t weight = 0;
    int sum = 0;
    for (const signed char s : key.coefficients()) weight += s != 0, sum += s;
    EXPECT_EQ(weight, ckks::kSparseWeight);
    EXPECT_LE(std::abs(sum), 28);  // bound of the sum: the coefficients have both signs
  }
}

// With fewer than N / 2 slots the values repeat over the embedding, and only one in N / (2 slots) coefficients is used.

TEST(BootstrapFewSlots, MatricesKeepOnlyTheCoefficientsOfTheSlots) {
  std::mt19937_64 random(3);
  std::vector<double> polynomial(kN);  // in a raised polynomial all coefficients are used
  for (double& c : polynomial) c = std::ldexp(static_cast<double>(random() >> 11), -53) - 0.5;
  for (const std::size_t slots : {512, 128, 8, 1}) {
    const Parameters p(small_set(slots));
    Context& c = *p.context();
    const Bootstrapper& how = c.bootstrapper();
    const std::size_t apart = kSlots / slots, last = how.stages_to_slots() - 1;
    Vector all(kSlots);
    c.embedding().to_slots(polynomial.data(), 1, all.data());
    for (std::size_t i = 0; i < last; ++i) all = times(how.to_slots(i), all);
    const Vector plain = times(how.to_slots(last), all), packed = times(how.to_slots(last, true), all);
    double factor = c.scale(c.raised_level() - 2) / (how.lowest_modulus() * ckks::kSineRange);
    for (std::size_t l : {c.raised_level(), c.raised_level() - 1}) factor *= c.ratio(l) / c.scale(l);
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::size_t at = reversed(i % slots, slots) * apart;
      const Complex wanted(polynomial[at], polynomial[at + kSlots]);
      EXPECT_NEAR(std::abs(plain[i] / factor - wanted), 0, 1e-10) << slots << " " << i;
      EXPECT_NEAR(2 * packed[i].real() / factor, 2 * (i & slots ? wanted.imag() : wanted.real()), 1e-10)
          << slots << " " << i;
    }
    // In the other direction, values become the coefficients that the slots use.
    Vector values(slots), places(kSlots);
    for (std::size_t i = 0; i < slots; ++i) values[i] = Complex(polynomial[i], polynomial[kN - 1 - i]);
    for (std::size_t i = 0; i < kSlots; ++i) places[i] = values[i % slots];
    for (std::size_t i = 0; i < how.stages_to_coefficients(); ++i) places = times(how.to_coefficients(i, 1), places);
    std::vector<double> coefficients(kN);
    c.embedding().to_polynomial(places.data(), 1, coefficients.data());
    for (std::size_t k = 0; k < kSlots; ++k) {
      const Complex wanted = k % apart ? Complex(0) : values[reversed(k / apart, slots)];
      EXPECT_NEAR(std::abs(Complex(coefficients[k], coefficients[k + kSlots]) - wanted), 0, 1e-11) << slots << " " << k;
    }
  }
}

TEST(BootstrapForms, HaveThePrecisionOfTheirScales) {
  for (const auto& [spec, bits] : {std::pair(short_set(), 24.5), std::pair(corrected_set(), 24.0)}) {
    const Parameters p(spec);
    const SecretKey secret = SecretKey::generate(p);
    const EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
    Values v = values_of({2}, false);
    for (std::size_t i = 0; i < kSlots; i += 2) v.data[i] = 1;  // values at which the sine's error is largest
    const Ciphertext y = bootstrap(secret.encrypt(v, p.bootstrapping_level(), 1), keys);
    EXPECT_EQ(y.level(), p.top_level());
    const double error = worst(secret.decrypt(y), v.data);
    EXPECT_LE(error, std::exp2(-bits)) << spec.word_size;
    EXPECT_LE(error, std::exp2(-y.precision())) << spec.word_size;
    EXPECT_GE(y.precision(), 22) << spec.word_size;
    Values whole = values_of({}, false);
    for (std::size_t i = 0; i < kSlots; ++i) whole.data[i] = static_cast<double>(i % 2);
    const Ciphertext z = functional_bootstrap(secret.encrypt(whole, p.bootstrapping_level(), 1), {3, 5}, keys);
    EXPECT_EQ(z.level(), p.top_level());
    const Values read = secret.decrypt(z);
    for (std::size_t i = 0; i < kSlots; ++i) EXPECT_NEAR(read.data[i].real(), i % 2 ? 5 : 3, 0x1p-16);
  }
}

TEST(BootstrapBits, AreTheSameOnEveryDevice) {
  // with few slots, real and imaginary parts are packed together, and the cube in the correction has two signs
  ckks::Spec few = corrected_set();
  few.slots = 64;
  for (const ckks::Spec& spec : {small_set(), small_set(64), short_set(), few}) {
    Values v = spec.slots == 0 ? values_of({3}, false) : values_of({}, true);
    if (spec.slots > 0) v.width = spec.slots, v.data.resize(spec.slots);
    Bytes first;
    for (const char* device : {"ref", "cpu", "cpu:scalar", "3*cpu"}) {
      const Parameters p = Parameters(spec).on_device(device);
      const SecretKey secret = SecretKey::generate_for_test(p, kSeed.substr(0, 32));
      const EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
      const Ciphertext y = bootstrap(secret.encrypt(v, p.bootstrapping_level(), 1), keys);
      EXPECT_LE(worst(secret.decrypt(y), v.data), 0x1p-18) << device << " " << spec.word_size << " " << spec.slots;
      const Bytes bytes = y.to_bytes();
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first) << device << " " << spec.word_size << " " << spec.slots;
    }
  }
}

// Compares digests of each stage for a set of production size; `ref` is too slow for such a set. If a change of the bits is
// intended, the digests must be updated.
class FullBootstrapBits : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, FullBootstrapBits, testing::Values("cpu", "cpu:scalar", "2*cpu/limb/uncalibrated"),
                         [](const auto& info) { return "At" + std::to_string(info.index); });

TEST_P(FullBootstrapBits, HaveTheirDigests) {
  const Parameters p = Parameters(ckks::named_spec("n15-b4")).on_device(GetParam());
  const SecretKey secret = SecretKey::generate_for_test(p, kSeed.substr(0, 32));
  const EvaluationKeys keys = secret.evaluation_keys(true, {}, true, true);
  Values v{.data = {}, .shape = {1}, .width = p.slots(), .complex = true};
  for (std::size_t i = 0; i < v.width; ++i)
    v.data.emplace_back(static_cast<double>(i % 251) / 256 - 0.5, static_cast<double>(i % 127) / 128 - 0.5);
  const Ciphertext x = secret.encrypt(v, p.bootstrapping_level(), 1);
  std::string found;
  const auto told = [&](const char* what, const ring::RnsTensor& t) {
    found += std::string(what) + ' ' + io::to_hex(io::sha256(ring::download(t))).substr(0, 16) + '\n';
  };
  ckks::BootstrappingPlan& plan = p.context()->bootstrapping();
  ring::RnsTensor t = x.data().tensor;
  told("encrypted", t);
  for (const ckks::LinearSum& sum : plan.to_coefficients(1)) t = apply(sum, t, keys);
  told("coefficients", t);
  t = plan.raise(t, *keys.data().keys.bootstrapping);
  told("raised", t);
  for (const ckks::LinearSum& sum : plan.to_slots(false)) t = apply(sum, t, keys);
  told("on slots", t);
  const Ciphertext y = bootstrap(x, keys);
  told("bootstrapped", y.data().tensor);
  EXPECT_EQ(found,
            "encrypted d56a88c01666ccf2\n"
            "coefficients e7f51ae97dd346d6\n"
            "raised da9206ef71b3c0ce\n"
            "on slots f6461ca12461ecdd\n"
            "bootstrapped 0c485e20d2370817\n");
  EXPECT_LE(worst(secret.decrypt(y), v.data), std::exp2(-y.precision()));
}

TEST(BootstrapSets, LeaveTheLevelsThatTheirNamesState) {
  for (const std::string& name : ckks::named_specs()) {
    const ckks::Spec spec = ckks::named_spec(name);
    if (spec.bootstrapping.levels == 0) continue;
    const Parameters p = Parameters(spec).on_device("null");
    EXPECT_TRUE(p.secure()) << name;
    EXPECT_EQ(p.top_level() - p.bootstrapping_level(), std::stoul(name.substr(name.find('b') + 1))) << name;
    EXPECT_EQ(hash_of(ckks::spec_from_json(ckks::to_json(spec))), hash_of(spec)) << name;
  }
  EXPECT_THROW(ckks::make_bootstrapping_spec(std::size_t{1} << 15, 30, 39, 49.9), ParameterError);
  for (const ckks::Bootstrapping& wrong : {ckks::Bootstrapping{9, 49.9, 3}, ckks::Bootstrapping{10, 49.9, 0},
                                           ckks::Bootstrapping{10, 49.9, 40}, ckks::Bootstrapping{100, 49.9, 3}}) {
    ckks::Spec spec = small_set();  // a malicious file may contain such values
    spec.bootstrapping = wrong;
    EXPECT_THROW(Parameters{spec}, ParameterError) << wrong.levels << " " << wrong.entry;
  }
  EXPECT_THROW(ckks::make_bootstrapping_spec(kN, 3, 49, 49.9, 3, 64, true), ParameterError);
  EXPECT_THROW(ckks::make_bootstrapping_spec(kN, 3, 39, 48, 3, 64, true), ParameterError);
  EXPECT_THROW(Parameters{small_set(kN)}, ParameterError);
}

}  // namespace
}  // namespace heliograph
