// Parameter sets as text.
#pragma once

#include "heliograph/tfhe.h"
#include "io/json.h"

namespace heliograph::tfhe {

io::Json to_json(const Spec& spec);
/// Throws DamagedFileError.
Spec spec_from_json(const io::Json& json);
std::string text_of(const Spec& spec);
/// Of the numbers, not the name.
std::string hash_of(const Spec& spec);
/// "2_2 (n=920, k=1, N=2048)"
std::string short_text(const Spec& spec);

}  // namespace heliograph::tfhe
