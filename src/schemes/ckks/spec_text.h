// Parameter sets as text: what files carry and what a hash is taken of. And the numbers that follow from a set.
#pragma once

#include "heliograph/ckks.h"
#include "schemes/spec_text.h"

namespace heliograph::ckks {

io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// "n16-l24 (N=2^16, 24 levels, w64)"
std::string short_text(const Spec& spec);

/// 2^log_scale with 30 significant bits: the same on every machine.
double fresh_scale(double log_scale);
/// Product of `from` over product of `to`, what both have left out; in one order, in doubles.
double modulus_ratio(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to);

}  // namespace heliograph::ckks
