#include <iostream>

#include "heliograph/bgv.h"

int main() {
  namespace bgv = heliograph::bgv;
  const bgv::Parameters parameters(bgv::choose({.depth = 2, .plain_moduli = {65537}, .slots = 4}));
  const bgv::SecretKey secret = bgv::SecretKey::generate(parameters);
  const bgv::EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);

  const bgv::Ciphertext x = secret.encrypt({.data = {1, -2, 3, 40}, .shape = {}, .width = 4}, bgv::Packing::slots);
  const bgv::Ciphertext square = bgv::relinearize(bgv::multiply_switched(x, x, &keys), keys);
  const bgv::Ciphertext cube = bgv::multiply_switched(square, x, &keys);
  for (std::uint64_t v : secret.decrypt(cube)) std::cout << v << ' ';  // prints, modulo t: 1 65529 27 64000
}
