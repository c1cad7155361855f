#include <iostream>

#include "heliograph/ckks.h"

int main() {
  using namespace heliograph::ckks;
  const Parameters parameters(choose({.depth = 3, .precision = 25, .slots = 4}));
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys(true, {1, 2}, false);

  const Ciphertext x = secret.encrypt({.data = {0.5, -1.5, 2, 3.25}, .shape = {}, .width = 4});
  const Ciphertext squares = multiply_rescale(x, x, keys);
  const Ciphertext total = sum_slots(squares, 4, keys);  // every slot holds the sum
  const Ciphertext cubic = evaluate_polynomial(x, {1, 0.5, 0, -0.25}, Basis::monomial, keys);
  std::cout << secret.decrypt(total).data[0].real() << '\n';                      // 17.0625
  for (const auto& v : secret.decrypt(cubic).data) std::cout << v.real() << ' ';  // 1.21875 1.09375 0.00 -5.95703
}
