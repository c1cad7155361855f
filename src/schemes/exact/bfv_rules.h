// Rules of BFV: full RNS, HPS multiplication (ePrint 2018/117). Ciphertexts are stored in the coefficient domain.
#pragma once

#include "schemes/exact/rules.h"

namespace heliograph::bfv {

std::unique_ptr<exact::Rules> make_rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<math::u64> plain_moduli);

}  // namespace heliograph::bfv
