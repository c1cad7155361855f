#include "circuits/ckks/trial.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>

#include "base/threads.h"
#include "circuits/ckks/fit_cache.h"

namespace heliograph::ckks {

namespace {

/// A secret key and all its evaluation keys on the null device.
struct TrialKeys {
  SecretKey secret;
  EvaluationKeys keys;
};
using Computation = std::function<double(const TrialKeys&)>;

/// Returns the number that a trial computes, from the cache if the thread made the same trial before. `name` identifies the
/// computation. The trial runs in a new thread, because a recording in the caller's thread would refuse its encryptions.
double tried(const Parameters& parameters, const std::string& name, const Computation& compute) {
  thread_local FitCache<double> numbers;
  thread_local std::map<std::string, TrialKeys> last;  // keys of the last parameter set
  const std::string set = parameters.hash();
  return numbers.get({set + " " + name, 0, 0, {}}, [&] {
    std::exception_ptr failure;
    double found = 0;
    auto& keys = last;
    std::thread other = start_thread([&] {
      try {
        if (!keys.contains(set)) {
          keys.clear();
          const SecretKey secret = SecretKey::generate(parameters.on_device("null"));
          const bool bootstraps = parameters.bootstrapping_level() > 0;
          keys.emplace(set, TrialKeys{secret, secret.evaluation_keys(true, {}, false, bootstraps)});
        }
        found = compute(keys.at(set));
      } catch (...) {
        failure = std::current_exception();
      }
    });
    other.join();
    if (failure) std::rethrow_exception(failure);
    return found;
  });
}

Values constant(const Parameters& parameters, std::size_t items, double value) {
  const std::size_t width = parameters.slots();
  return {std::vector<std::complex<double>>(items * width, value), {items}, width, false};
}

std::string numbers_text(const std::vector<double>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

}  // namespace

double error_of_bootstrap(const Parameters& parameters, int iterations) {
  return tried(parameters, "bootstrap " + std::to_string(iterations), [&](const TrialKeys& trial) {
    // Two items are packed as a pair.
    const Ciphertext x = trial.secret.encrypt(constant(parameters, 2, 1), parameters.bootstrapping_level(), 1);
    return std::exp2(-std::max(0.0, bootstrap(x, trial.keys, 1, iterations).precision()));
  });
}

double error_of_series(const Parameters& parameters, const std::vector<double>& coefficients) {
  return tried(parameters, "series " + numbers_text(coefficients), [&](const TrialKeys& trial) {
    const Ciphertext x = with_error(trial.secret.encrypt(constant(parameters, 1, 0), parameters.top_level(), 1), {0, 0});
    return error_bounds(evaluate_polynomial(x, coefficients, Basis::chebyshev, trial.keys, "")).assumed;
  });
}

double error_of_table(const Parameters& parameters, const std::vector<double>& table, double noise) {
  std::vector<double> numbers = table;
  numbers.push_back(noise);
  return tried(parameters, "table " + numbers_text(numbers), [&](const TrialKeys& trial) {
    const Ciphertext x = trial.secret.encrypt(constant(parameters, 1, 0), parameters.bootstrapping_level(),
                                              {0, static_cast<double>(table.size() - 1)});
    return error_bounds(functional_bootstrap(with_error(x, {noise, noise}), {table.begin(), table.end()}, trial.keys))
        .assumed;
  });
}

}  // namespace heliograph::ckks
