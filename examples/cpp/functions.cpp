#include <cmath>
#include <iostream>

#include "heliograph/functions.h"

int main() {
  using namespace heliograph::ckks;
  const Parameters parameters(choose({.depth = 14, .precision = 30, .slots = 2}));
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys(true, {}, false);

  const Ciphertext ages = secret.encrypt({.data = {31, 89.5}, .shape = {}, .width = 2}, 0, {18, 90});
  const Ciphertext logarithms = log(ages, keys, {.error = 0x1p-16});
  const Ciphertext is_old = compare(ages, Relation::greater, 65, keys, {.gap = 1, .error = 0x1p-12});
  const Approximation f = approximate([](double v) { return v * std::exp(-v / 20); }, 18, 90, {.error = 1e-5});
  const Ciphertext own = evaluate(f, ages, keys);
  for (const Ciphertext& y : {logarithms, is_old, own}) {
    for (const auto& v : secret.decrypt(y).data) std::cout << std::round(1000 * v.real()) / 1000 + 0.0 << ' ';
    std::cout << "within " << error_bounds(y).trusted << '\n';
  }  // 3.434 4.494, then 0 1, then 6.58 1.019
}
