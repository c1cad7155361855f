#include <iostream>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"

int main() {
  namespace bfv = heliograph::bfv;
  namespace bgv = heliograph::bgv;
  const bgv::Parameters parameters(bgv::choose({.depth = 2, .plain_moduli = {65537}, .slots = 4}));
  const bgv::SecretKey secret = bgv::SecretKey::generate(parameters);
  const bgv::EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);

  const bgv::Ciphertext x = secret.encrypt({.data = {1, -2, 3, 40}, .shape = {}, .width = 4}, bfv::Packing::slots);
  const bgv::Ciphertext square = bfv::relinearize(bfv::multiply_switched(x, x, &keys), keys);
  const bgv::Ciphertext cube = bfv::multiply_switched(square, x, &keys);
  for (std::uint64_t v : secret.decrypt(cube)) std::cout << v << ' ';  // modulo t: 1 65529 27 64000
}
