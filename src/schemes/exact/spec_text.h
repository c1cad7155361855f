// Parameter sets as text: what files carry and what a hash is taken of.
#pragma once

#include "heliograph/exact.h"
#include "schemes/spec_text.h"

namespace heliograph::exact {

io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// "hcnn5-2020 (N=2^14, log q 330)"
std::string short_text(const Spec& spec);

}  // namespace heliograph::exact
