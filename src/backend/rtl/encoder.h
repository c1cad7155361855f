// From calls of the contract (device/call.h) to steps on a card.
#pragma once

#include <map>
#include <memory>

#include "backend/rtl/card.h"
#include "backend/rtl/list.h"
#include "device/kernels.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Shape;

/// Where constants' words lie in the card's memory.
class Memory {
 public:
  virtual ~Memory() = default;
  /// The card's address of a device's.
  virtual u64 address(const std::byte* data) const = 0;
  /// Twiddles of one prime; a conversion's targets from `first` on, as many as the card takes at once.
  virtual Resource twiddles(const device::RingConstant& ring, math::PrimeIndex prime) = 0;
  virtual Resource constants(const device::ConversionConstant& conversion, std::size_t first) = 0;
  /// The exponent of the automorphism that a permutation is; 0: it is none.
  virtual u64 galois(const device::PermutationConstant& permutation, bool& ntt_order) = 0;
  // What is no limb of the card's is moved by the driver; no step may be about to write it.
  /// n words of a limb at a new address: each of 64 bits, or one of them for a run of 2^log_run.
  virtual u64 narrowed(const std::byte* words, std::size_t n) = 0;
  virtual u64 repeated(const std::byte* words, std::size_t n, int log_run) = 0;
  /// An address for n words that become words of 64 bits when all steps are done.
  virtual u64 widened(std::byte* words, std::size_t n) = 0;
};

/// Throws ParameterError for what the card does not take, with the name of what does.
void check_ring(const math::Ring& ring, const Shape& shape);
void check_conversion(const math::Conversion& conversion, const Shape& shape);

/// Has the kernels as perform() asks for them (device/perform.h).
class Encoder {
 public:
  Encoder(const Shape& shape, Memory& memory, List& list) : shape_(shape), memory_(memory), list_(list) {}

  using Queue = device::Queue;
  using View = device::View;
  HELIOGRAPH_RUNS(Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, ForwardNtt, InverseNtt,
                  Permute, Convert, InnerProduct, Tensor, Product, Copy, Zero);
  /// Whether a copy is one of limbs; else the driver moves its words.
  bool moves(const device::Copy&) const;

 private:
  /// A piece of a limb, of a power of two of words.
  struct Piece {
    std::size_t item, component, limb, first;
    int log_n;
  };
  /// Calls f with each piece of each limb of `out`, limb by limb of the ring.
  template <class F>
  void pieces(const View& out, F f);
  template <class F>
  void limb_pieces(std::size_t n, F f);
  static std::byte* words(const View& v, const Piece& p);
  u64 address(const View& v, const Piece& p) const;
  Value read(const View& v, const Piece& p);
  /// Of a factor that may have one word for a run of `n`'s.
  Value read_run(const View& v, std::size_t n, const Piece& p);
  void write(const View& v, const Piece& p, Value value);

  /// out = c +- a b (rtl/src/hg_pointwise.sv); kNoValue: 1, `constant`, 0.
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
