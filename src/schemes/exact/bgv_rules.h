// Rules of BGV (Brakerski, Gentry, Vaikuntanathan, ePrint 2011/277; full RNS as in ePrint 2021/204). Ciphertexts are stored
// in the NTT domain. Keys are those of BFV: a key switch multiplies its input by t^-1 and its output by t.
#pragma once

#include "schemes/exact/rules.h"

namespace heliograph::bgv {

std::unique_ptr<exact::Rules> make_rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<math::u64> plain_moduli);

}  // namespace heliograph::bgv
