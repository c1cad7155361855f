// Values to polynomials and back, on the host.
#pragma once

#include <functional>

#include "schemes/ckks/context.h"

namespace heliograph::ckks {

/// Throws ShapeError, SlotsError, PlaintextRangeError, ScaleError: see encode().
/// `most`: values of a ciphertext; 0: the slots.
void check_values(const Context& c, const Values& values, std::size_t level, double scale, std::size_t most = 0);
/// The largest |value|.
double largest_of(const Values& values);
/// Bounds on the values of plaintexts, in one range for all or one for each item.
Ranges ranges_of(const Values& values, std::size_t period);
/// The same of numbers at every place.
Ranges ranges_of_numbers(const std::vector<std::complex<double>>& numbers);
/// Items [first, first + count) as rounded coefficients. Values repeat with the period, or where they are more with their number.
std::vector<double> rounded_polynomials(const Context& c, const Values& values, double scale, std::size_t first,
                                        std::size_t count);
/// A whole number, however large, modulo q.
u64 residue_of(double whole, u64 q);
/// `whole` in each limb.
device::LimbConstants constants_of(double whole, const std::vector<u64>& moduli);
/// Whole coefficients [items][N] on the device, coefficient domain: items, or components of one.
RnsTensor upload_polynomials(Context& c, const std::vector<double>& polynomials, const device::PrimeList& primes,
                             ring::Secrecy secrecy = ring::Secrecy::open, bool components = false);
/// The fewest words of a limb that hold the polynomials' transforms, one for each run of equal ones: n' where all of them are
/// polynomials in X^(N / n'), which each coefficient is looked at for.
std::size_t distinct_words(const std::vector<double>& polynomials, std::size_t n);
/// Such transforms, of as many words as `to` has: so many components of one item.
void upload_transforms(Context& c, const std::vector<double>& polynomials, const RnsTensor& to);
/// The coefficients of each item, one component, coefficient domain, centred: exact integers, rounded to doubles once
/// where they are below 2^126. Without a branch or a division that depends on them: they are a phase, noise and all.
SecretVector<double> download_polynomials(Context& c, const RnsTensor& phase);
/// Items that are encoded in one go.
std::size_t encoding_stretch(const Context& c, std::size_t limbs);
/// Looks at an item: its coefficients, and all N/2 places.
using Look =
    std::function<void(std::size_t item, std::span<const double> polynomial, std::span<const std::complex<double>> places)>;
/// The polynomials' slots, `width` of each item, to out[0 ...]. `look` may be called from several threads.
void read_slots(const Context& c, std::span<const double> polynomials, double scale, std::size_t width, bool complex,
                std::complex<double>* out, const Look& look = {});

}  // namespace heliograph::ckks
