// Conversion of values to polynomials and back, on the host.
#pragma once

#include <functional>

#include "schemes/ckks/context.h"

namespace heliograph::ckks {

/// Throws ShapeError, SlotsError, PlaintextRangeError, ScaleError (see encode()). `most`: values per ciphertext; 0: the
/// slots.
void check_values(const Context& c, const Values& values, std::size_t level, double scale, std::size_t most = 0);
double largest_of(const Values& values);
/// Returns bounds on the values of plaintexts: one range for all items, or one per item.
Ranges ranges_of(const Values& values, std::size_t period);
/// Returns the bounds of numbers that fill every slot.
Ranges ranges_of_numbers(const std::vector<std::complex<double>>& numbers);
/// Returns the rounded coefficients of items [first, first + count). The values of an item repeat along its slots, with
/// the period or with their number if that is larger.
std::vector<double> rounded_polynomials(const Context& c, const Values& values, double scale, std::size_t first,
                                        std::size_t count);
/// Returns the rounded coefficients of items whose values, a power of two of at least 4, repeat through all slots: the
/// coefficients of X^(N / (2 width)), 2 width of them for each item.
std::vector<double> repeated_polynomials(const Values& values, double scale);
/// Returns an integer of any size modulo q.
u64 residue_of(double whole, u64 q);
device::LimbConstants constants_of(double whole, const std::vector<u64>& moduli);
/// Uploads integer coefficients [items][N] in the coefficient domain, as items or as components of one item.
RnsTensor upload_polynomials(Context& c, const std::vector<double>& polynomials, const device::PrimeList& primes,
                             ring::Secrecy secrecy = ring::Secrecy::open, bool components = false);
/// Returns the least number of words per limb that determines the polynomials' transforms. The number is n' if all
/// polynomials are in X^(N / n'), because runs of their words are equal. Examines every coefficient.
std::size_t distinct_words(const std::vector<double>& polynomials, std::size_t n);
/// Uploads the transforms of polynomials of `size` coefficients of X^(N / size), with as many words per limb as `to` has, as
/// components of one item.
void upload_transforms(Context& c, const std::vector<double>& polynomials, std::size_t size, const RnsTensor& to);
/// Downloads the coefficients of each item (one component, coefficient domain), centred: exact integers below 2^126, rounded
/// once to doubles. Runs in constant time, because phases are secret.
SecretVector<double> download_polynomials(Context& c, const RnsTensor& phase);
std::size_t encoding_stretch(const Context& c, std::size_t limbs);
/// Callback that inspects an item: its coefficients, and all N/2 slots.
using Look =
    std::function<void(std::size_t item, std::span<const double> polynomial, std::span<const std::complex<double>> places)>;
/// Decodes the polynomials' slots, `width` per item, to out[0 ...]. May call `look` from several threads.
void read_slots(const Context& c, std::span<const double> polynomials, double scale, std::size_t width, bool complex,
                std::complex<double>* out, const Look& look = {});

}  // namespace heliograph::ckks
