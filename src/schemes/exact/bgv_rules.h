// BGV's rules (Brakerski, Gentry, Vaikuntanathan, ePrint 2011/277; full RNS as in ePrint 2021/204): ciphertexts rest in the
// NTT domain. Keys are BFV's: what is switched is first multiplied by t^-1, and what comes back by t.
#pragma once

#include "schemes/exact/rules.h"

namespace heliograph::bgv {

std::unique_ptr<exact::Rules> make_rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<math::u64> plain_moduli);

}  // namespace heliograph::bgv
