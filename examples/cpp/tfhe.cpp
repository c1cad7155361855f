#include <iostream>

#include "heliograph/tfhe.h"

int main() {
  using namespace heliograph::tfhe;
  const Parameters parameters(named_spec("2_2"));
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys();
  const Type type = type_of("uint16");

  const Ciphertext x = secret.encrypt({3200, 4100, 2800}, {3}, type);
  const Ciphertext less = compute(keys, {.name = "less", .arguments = {3000}}, {x})[0];
  const Ciphertext raised = compute(keys, {.name = "add", .arguments = {150}}, {x})[0];
  const Ciphertext result = compute(keys, {.name = "select"}, {less, raised, x})[0];
  for (std::uint64_t v : secret.decrypt(sum(keys, result, 0, type))) std::cout << v << '\n';  // 10250
}
