// Batches of plaintext polynomials modulo one t, on the device.
#pragma once

#include "schemes/exact/context.h"

namespace heliograph::exact {

/// A batch of polynomials of 64-bit residues modulo t: [items].
struct PlainBatch {
  device::View view;
  ring::Secrecy secrecy;
};

PlainBatch make_plain_batch(Context& c, std::size_t items, ring::Secrecy secrecy);
/// Throws SlotsError if `packing` is slots and the set has none.
void require_packing(const Context& c, Packing packing);
/// Throws SlotsError, ShapeError, PlaintextRangeError.
void check_values(const Context& c, const Values& values, Packing packing);
/// Returns the value at index `at` modulo t. magnitude_of returns the value's magnitude.
u64 residue_of(const Values& values, std::size_t at, u64 t);
Magnitude magnitude_of(const Values& values, std::size_t at);
Magnitude largest_of(const Values& values);
/// Returns log2 of the largest canonical norm of the centred polynomials.
double log_norm_of(Context& c, const PlainBatch& b, u64 t);
/// Uploads items [first, first + batch) as coefficients.
void upload_values(Context& c, std::size_t part, const Values& values, Packing packing, std::size_t first,
                   const PlainBatch& to);
/// Downloads the first `width` values of each item, canonical modulo t. Overwrites the batch.
void download_values(Context& c, std::size_t part, Packing packing, std::size_t width, const PlainBatch& from, u64* out);
/// Returns, for each limb, the constant whose addition adds the integer `residue` to a ciphertext of this level and
/// factor.
device::LimbConstants scaled_constant(Context& c, std::size_t part, std::size_t level, u64 factor, u64 residue);
/// Returns the tensor whose addition adds the polynomials to a ciphertext of this level and factor. The returned tensor is
/// in the coefficient domain and has the polynomials' secrecy.
RnsTensor scale_up(Context& c, std::size_t part, const PlainBatch& b, std::size_t level, u64 factor);

}  // namespace heliograph::exact
