// The named parameter sets (docs/tfhe-parameters.md describes how each was found).
#include "heliograph/tfhe.h"

namespace heliograph::tfhe {

namespace {

const std::vector<Spec>& named_sets() {
  constexpr Noise t17{true, 17}, t31{true, 31}, t45{true, 45}, t46{true, 46};
  static const std::vector<Spec> sets = {
      // Fields: name; n, k, N; noises; gadgets of bootstrapping and key switching; group; message and carry bits; norm;
      // insecure.
      {"2_2", 920, 1, 2048, t45, t17, 23, 1, 3, 5, 2, 2, 2, 17, false},
      {"2_2/p64", 880, 1, 2048, t46, t17, 23, 1, 4, 4, 2, 2, 2, 17, false},
      {"2_2/latency", 920, 1, 2048, t45, t17, 22, 1, 3, 5, 4, 2, 2, 17, false},
      {"1_1", 880, 4, 512, t46, t17, 23, 1, 5, 3, 2, 1, 1, 5, false},
      {"1_1/p64", 710, 4, 512, {false, -14.69}, t17, 23, 1, 2, 6, 2, 1, 1, 5, false},
      {"boolean", 688, 3, 512, {false, -14.13}, t31, 16, 1, 2, 6, 2, 0, 0, 3, false},
      {"boolean/p64", 656, 3, 512, {false, -13.3}, t31, 16, 1, 2, 6, 2, 0, 0, 3, false},
      // The first set of TFHE-lib, as in Morshed and others, 2020.
      {"morshed-2020", 500, 1, 1024, {false, -15}, {false, -25}, 10, 2, 2, 8, 2, 0, 0, 3, true},
  };
  return sets;
}

}  // namespace

std::vector<std::string> named_specs() {
  std::vector<std::string> names;
  for (const Spec& s : named_sets()) names.push_back(s.name);
  return names;
}

Spec named_spec(const std::string& name, bool insecure) {
  std::string known;
  for (const Spec& s : named_sets()) {
    if (s.name == name) {
      if (s.insecure && !insecure)
        throw SecurityError("\"" + name + "\" is below 128 bits of security; pass insecure=True to use it anyway");
      return s;
    }
    known += (known.empty() ? "" : ", ") + s.name;
  }
  throw ParameterError("unknown TFHE parameter set \"" + name + "\"; the named sets are " + known);
}

}  // namespace heliograph::tfhe
