// Parameter sets as text: what files carry and what a hash is taken of.
#pragma once

#include "heliograph/exact.h"
#include "io/json.h"

namespace heliograph::exact {

io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
Spec spec_from_json(const io::Json& json);
std::string text_of(const Spec& spec);
/// SHA-256 of the numbers; `named`: of the name too, as files of format 1 may have it.
std::string hash_of(const Spec& spec, bool named = false);
/// "hcnn5-2020 (N=2^14, log q 330)"
std::string short_text(const Spec& spec);

}  // namespace heliograph::exact
