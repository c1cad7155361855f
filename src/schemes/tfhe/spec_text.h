// Text form of parameter sets.
#pragma once

#include "heliograph/tfhe.h"
#include "schemes/spec_text.h"

namespace heliograph::tfhe {

io::Json to_json(const Spec& spec);
/// Throws DamagedFileError.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// Returns a short description such as "2_2 (n=920, k=1, N=2048)".
std::string short_text(const Spec& spec);

}  // namespace heliograph::tfhe
