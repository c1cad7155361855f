// Translates calls of the contract (device/call.h) to steps on a card.
#pragma once

#include <map>
#include <memory>

#include "backend/rtl/card.h"
#include "backend/rtl/list.h"
#include "device/kernels.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Shape;

/// Finds data and constants in the card's memory.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual u64 address(const std::byte* data) const = 0;
  /// Return the twiddles of one prime; the constants of a conversion's targets from `first` on, as many as the card holds.
  virtual Resource twiddles(const device::RingConstant& ring, math::PrimeIndex prime) = 0;
  virtual Resource constants(const device::ConversionConstant& conversion, std::size_t first) = 0;
  /// Returns the exponent of an automorphism; 0 if the permutation is not an automorphism.
  virtual u64 galois(const device::PermutationConstant& permutation, bool& ntt_order) = 0;
  // The driver moves data that the card cannot address as limbs; no pending step may write it.
  /// Copy n words of a limb to a new address: `narrowed` from 64-bit words, `repeated` from one word per run of 2^log_run.
  virtual u64 narrowed(const std::byte* words, std::size_t n) = 0;
  virtual u64 repeated(const std::byte* words, std::size_t n, int log_run) = 0;
  /// Returns a new address for n words; after all steps, the driver extends them to 64 bits and stores them in `words`.
  virtual u64 widened(std::byte* words, std::size_t n) = 0;
};

/// Throw ParameterError with an alternative if the card does not support the ring or the conversion.
void check_ring(const math::Ring& ring, const Shape& shape);
void check_conversion(const math::Conversion& conversion, const Shape& shape);

/// Implements calls of device/call.h for perform() (device/perform.h).
class Encoder {
 public:
  Encoder(const Shape& shape, Memory& memory, List& list) : shape_(shape), memory_(memory), list_(list) {}

  using Queue = device::Queue;
  using View = device::View;
  HELIOGRAPH_RUNS(Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, ForwardNtt, InverseNtt,
                  Permute, Convert, InnerProduct, Tensor, Product, Copy, Zero);
  /// Returns whether the card can copy these limbs; otherwise the driver moves the words.
  bool moves(const device::Copy&) const;

 private:
  struct Piece {
    std::size_t item, component, limb, first;
    int log_n;
  };
  /// Calls f for each piece of each limb of `out`, in the order of the ring's limbs.
  template <class F>
  void pieces(const View& out, F f);
  template <class F>
  void limb_pieces(std::size_t n, F f);
  static std::byte* words(const View& v, const Piece& p);
  u64 address(const View& v, const Piece& p) const;
  Value read(const View& v, const Piece& p);
  /// Reads a factor of a limb of n words; each word of the factor may serve a run of the limb's words.
  Value read_run(const View& v, std::size_t n, const Piece& p);
  void write(const View& v, const Piece& p, Value value);

  /// out = c +- a b (rtl/src/hg_pointwise.sv). kNoValue means 1 for a, `constant` for b, and 0 for c.
  struct Terms {
    Value a = kNoValue, b = kNoValue, c = kNoValue;
    bool subtract = false, first_only = false;
    u64 constant = 1;
  };
  Value pointwise(u64 q, int log_n, const Terms& terms);
  template <class C>
  void transform(const C& c, bool inverse);
  Value zero(u64 q, int log_n) { return pointwise(q, log_n, {.constant = 0}); }

  const Shape& shape_;
  Memory& memory_;
  List& list_;
};

}  // namespace heliograph::backend::rtl
