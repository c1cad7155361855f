// Batches of plaintext polynomials modulo one t, on the device.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

/// [items] polynomials of 64-bit residues modulo t.
struct PlainBatch {
  device::View view;
  ring::Secrecy secrecy;
};

PlainBatch make_plain_batch(Context& c, std::size_t items, ring::Secrecy secrecy);
/// Throws SlotsError where the set has no slots and they are wanted.
void require_packing(const Context& c, Packing packing);
/// Throws SlotsError, ShapeError, PlaintextRangeError.
void check_values(const Context& c, const Values& values, Packing packing);
/// Integer number `at`: modulo t, and its magnitude.
u64 residue_of(const Values& values, std::size_t at, u64 t);
Magnitude magnitude_of(const Values& values, std::size_t at);
/// The largest magnitude of all.
Magnitude largest_of(const Values& values);
/// log2 of the largest canonical norm of the centred polynomials over the items.
double log_norm_of(Context& c, const PlainBatch& b, u64 t);
/// Items [first, first + batch) as coefficients.
void upload_values(Context& c, std::size_t part, const Values& values, Packing packing, std::size_t first,
                   const PlainBatch& to);
/// The first `width` values of each item, canonical modulo t. Overwrites the batch.
void download_values(Context& c, std::size_t part, Packing packing, std::size_t width, const PlainBatch& from, u64* out);
/// What adds the integer v to a ciphertext of this level and factor, in each limb.
device::LimbConstants scaled_constant(Context& c, std::size_t part, std::size_t level, u64 factor, u64 residue);
/// What adds the polynomials, coefficient domain; as secret as they are.
RnsTensor scale_up(Context& c, std::size_t part, const PlainBatch& b, std::size_t level, u64 factor);

}  // namespace heliograph::exact
