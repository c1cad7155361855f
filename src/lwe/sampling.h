// Random words on the host, from ChaCha20 (math/sampler.h). A draw is a function of (key, purpose, component, object, item,
// coefficient). The nonce of a draw is draw_nonce(purpose, component, 0, object, item); the stream of blocks is read in
// order.
#pragma once

#include <span>

#include "math/sampler.h"

namespace heliograph::lwe {

using math::Key256;
using math::u32;
using math::u64;

/// The `purpose` of each draw; the numbers differ from the purposes in rlwe. Masks come from public seeds, all other draws
/// from secret seeds.
enum Purpose : unsigned char {
  kNarrowSecret = 32,
  kWideSecret = 33,
  kMask = 34,
  kError = 35,
  kBootstrapMask = 36,
  kBootstrapError = 37,
  kSwitchMask = 38,
  kSwitchError = 39,
  kLookupMask = 40,
};

struct Position {
  Purpose purpose;
  u32 object = 0, item = 0;
  unsigned char component = 0;
};

/// Distribution of errors, in units of 2^-64 turns.
struct Noise {
  bool tuniform = true;  // TUniform(b): integers in [-2^b, 2^b], both ends half as likely; else a rounded Gaussian
  double value = 0;      // TUniform: b; Gaussian: log2 of the standard deviation as a fraction of a turn
  bool operator==(const Noise&) const = default;

  /// Returns the variance of the distribution in squared turns.
  double variance() const;
};

/// Fill `out` with uniform words. A u64 takes 8 bytes of the stream, a u32 takes 4.
void fill_uniform(const Key256& key, const Position& at, std::span<u64> out);
void fill_uniform(const Key256& key, const Position& at, std::span<u32> out);
/// Fills `out` with values 0 or 1: the bits of the stream, the lowest bit of each byte first.
void fill_binary(const Key256& key, const Position& at, std::span<unsigned char> out);
/// Fills `out` with errors modulo 2^64, without branches on them. An error of TUniform takes 8 bytes of the stream. A
/// Gaussian error takes 16 bytes (lwe/gaussian.h, the first of two deviates).
void fill_errors(const Key256& key, const Position& at, const Noise& noise, std::span<u64> out);

}  // namespace heliograph::lwe
