// Random words on the host, from ChaCha20 (math/sampler.h). What is drawn is a function of (key, purpose, component, object,
// item, coefficient): the nonce is draw_nonce(purpose, component, 0, object, item), the stream of its blocks is read in order.
#pragma once

#include <span>

#include "math/sampler.h"

namespace heliograph::lwe {

using math::Key256;
using math::u32;
using math::u64;

/// The `purpose` of each draw, apart from those of rlwe. Public seeds: masks. Secret seeds: the rest.
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

/// How errors are drawn, in units of 2^-64 turns.
struct Noise {
  bool tuniform = true;  // TUniform(b): integers in [-2^b, 2^b], the two ends half as often; else a rounded Gaussian
  double value = 0;      // b; or log2 of the Gaussian's standard deviation as a part of a turn
  bool operator==(const Noise&) const = default;

  /// In turns squared.
  double variance() const;
};

/// Uniform words: 8 bytes of the stream each (u64), or 4 (u32).
void fill_uniform(const Key256& key, const Position& at, std::span<u64> out);
void fill_uniform(const Key256& key, const Position& at, std::span<u32> out);
/// 0 or 1: bits of the stream, the lowest of each byte first.
void fill_binary(const Key256& key, const Position& at, std::span<unsigned char> out);
/// Errors modulo 2^64: TUniform takes 8 bytes of the stream each, a Gaussian 16 (lwe/gaussian.h, the first of two). Without a
/// branch that depends on them.
void fill_errors(const Key256& key, const Position& at, const Noise& noise, std::span<u64> out);

}  // namespace heliograph::lwe
