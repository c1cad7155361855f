// Shared parts of the conversion kernels of all fields: their arguments, and access to a part of a polynomial. A thread
// reads and writes kEach adjacent words.
#pragma once

#include "backend/cuda/ring/conversion.cuh"
#include "backend/cuda/ring/convert.h"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

inline constexpr u32 kEach = 2;
inline constexpr u32 kConversionThreads = 128;  // maximum threads of a block
/// Coefficients of a part, which one block, or in Field50 one warp, converts.
template <class F>
inline constexpr u32 kPart = 32 * kEach;
template <>
inline constexpr u32 kPart<Field50> = 32;

template <class F>
struct ConversionStep {
  const ConversionSource<F>* sources;
  const ConversionTarget<F>* targets;
  const typename F::Value* matrix;
  u32 n_sources, n_targets, shift, bits, rounded, first, skip_at, skip;
};

template <class F>
struct ConversionArguments {
  Source x;
  Strided own, out, added;
  Grid grid;  // the grid's parts have kPart coefficients
  u32 n, by_component, has_own, has_place, added_components, wide_in, wide_out;
  u32 most_sources, most_targets;  // maxima over `steps`
  u32 parts, rows, warp_words;     // Field50: parts of the grid; rows of pieces, and words, of a warp's shared memory
  Divisor shares;                  // Field50: number of warps that divide a part's targets
  Primes place;
  ConversionStep<F> lower;
  ConversionStep<F> steps[kMostSteps];
};

enum class ConversionKind {
  any,    // general: a call with any arguments
  plain,  // only operand x, whole parts, words of the field (Field50: with a shift); used by mod up and divisions
  lower,  // runs two conversions; the second reads the first one's result, which is not stored
};

void launch_conversion(Queue& queue, const char* name, ConversionKind kind, const ConversionArguments<Field32>& a);
void launch_conversion(Queue& queue, const char* name, ConversionKind kind, ConversionArguments<Field50> a);
void launch_conversion(Queue& queue, const char* name, ConversionKind kind, const ConversionArguments<Field60>& a);

template <class Value>
struct alignas(2 * sizeof(Value)) Two {
  Value at[kEach];
};

struct Words {
  u64 at[kEach];
};

__device__ __forceinline__ Words load_words(const void* row, u32 i, bool wide) {
  if (wide) {
    const ulonglong2 w = *reinterpret_cast<const ulonglong2*>(static_cast<const u64*>(row) + i);
    return {{w.x, w.y}};
  }
  const uint2 w = *reinterpret_cast<const uint2*>(static_cast<const u32*>(row) + i);
  return {{w.x, w.y}};
}
__device__ __forceinline__ void store_words(void* row, u32 i, bool wide, const Words& w) {
  if (wide) {
    *reinterpret_cast<ulonglong2*>(static_cast<u64*>(row) + i) = make_ulonglong2(w.at[0], w.at[1]);
  } else {
    *reinterpret_cast<uint2*>(static_cast<u32*>(row) + i) = make_uint2(static_cast<u32>(w.at[0]), static_cast<u32>(w.at[1]));
  }
}

// Conversions between canonical Values and words.
__device__ __forceinline__ u64 to_word(Field32, u32 a) { return a; }
__device__ __forceinline__ u64 to_word(Field50, double a) { return Field50::word(a); }
__device__ __forceinline__ u64 to_word(Field60, u64 a) { return a; }
__device__ __forceinline__ u32 to_value(Field32, u64 w) { return static_cast<u32>(w); }
__device__ __forceinline__ double to_value(Field50, u64 w) { return Field50::load(w); }
__device__ __forceinline__ u64 to_value(Field60, u64 w) { return w; }
__device__ __forceinline__ u32 add_canonical(u32 a, u32 b, const Field32::Prime& p) { return Field32::add_reduced(a, b, p); }
__device__ __forceinline__ double add_canonical(double a, double b, const Field50::Prime& p) {
  const double s = __dadd_rn(a, b);
  return s >= p.q ? __dadd_rn(s, -p.q) : s;
}
__device__ __forceinline__ u64 add_canonical(u64 a, u64 b, const Field60::Prime& p) { return Field60::add_reduced(a, b, p); }

/// Returns a source's contribution to v of math/conversion.h, before rounding. SHIFTED: the step's shift is not 0.
template <bool SHIFTED, class F>
__device__ __forceinline__ u64 turn_of(const ConversionStep<F>& s, const ConversionSource<F>& source, u64 y) {
  if constexpr (SHIFTED) return __umul64hi(y, source.fraction);
  // The function has no branch, so that sources interleave; if the quotient is not rounded, the mask sets the contribution
  // to 0.
  // 0.
  const u64 low = y * source.fraction, high = __umul64hi(y, source.fraction);
  return low ^ ((low ^ high) & (s.shift == 0 ? 0 : ~u64{0}));
}

/// Addresses of the limbs of one component of an item.
struct Limbs {
  std::byte* first;
  u64 step;  // distance of limbs in bytes

  __device__ __forceinline__ Limbs(const Strided& v, u32 item, u32 component)
      : first(v.word_bytes == 8 ? reinterpret_cast<std::byte*>(limb_of<u64>(v, item, component, 0))
                                : reinterpret_cast<std::byte*>(limb_of<u32>(v, item, component, 0))),
        step(v.limb * v.word_bytes) {}
  __device__ __forceinline__ std::byte* operator[](u32 limb) const { return first + limb * step; }
};

template <class F, ConversionKind KIND>
class ConversionPart {
 public:
  const ConversionStep<F>& step;
  const bool has_own;

  __device__ __forceinline__ ConversionPart(const ConversionArguments<F>& a, u32 number)
      : ConversionPart(a, locate_in_order(a.grid, number)) {}

  /// Returns whether position i of the part is inside the limb; always true except for small rings.
  __device__ __forceinline__ bool inside(u32 i) const { return kPlain || begin_ + i < a_.n; }
  /// Return two adjacent words of source k, or one word.
  __device__ __forceinline__ Words words(u32 k, u32 i) const { return load_words(x_[step.first + k], begin_ + i, wide_in_); }
  __device__ __forceinline__ u64 word(u32 k, u32 i) const {
    const std::byte* const limb = x_[step.first + k];
    return wide_in_ ? reinterpret_cast<const u64*>(limb)[begin_ + i] : reinterpret_cast<const u32*>(limb)[begin_ + i];
  }
  /// Addresses of the limbs of a target's result and operands.
  struct Target {
    const ConversionPart& part;
    const u32 j;
    std::byte *const out, *const own, *const added;

    __device__ __forceinline__ Words beside(u32 i) const { return load_words(own, part.begin_ + i, part.wide_out_); }
    /// Adds the addend to canonical results and stores the sums.
    __device__ __forceinline__ void store(u32 i, const Two<typename F::Value>& value, const typename F::Prime& p) const {
      if (!part.inside(i)) return;
      Words more{}, w;
      if (part.adds_) more = load_words(added, part.begin_ + i, part.wide_out_);
#pragma unroll
      for (u32 k = 0; k < kEach; ++k)
        w.at[k] = to_word(F{}, part.adds_ ? add_canonical(value.at[k], to_value(F{}, more.at[k]), p) : value.at[k]);
      store_words(out, part.begin_ + i, part.wide_out_, w);
    }
  };
  __device__ __forceinline__ Target target(u32 j) const {
    const u32 limb = place(j);
    return {*this, j, out_[limb], own_[limb], added_[limb]};
  }

 private:
  static constexpr bool kPlain = KIND == ConversionKind::plain, kWide = sizeof(typename F::Word) == 8;

  __device__ __forceinline__ ConversionPart(const ConversionArguments<F>& a, const At& at)
      : step(a.steps[a.by_component ? at.component : 0]),
        has_own(!kPlain && a.has_own),
        a_(a),
        x_(limbs_of_x(a.x, at)),
        out_(a.out, at.item, at.component),
        own_(has_own ? Limbs(a.own, at.item, at.component) : out_),
        adds_(KIND == ConversionKind::any && at.component < a.added_components),
        added_(adds_ ? Limbs(a.added, at.item, at.component) : out_),
        begin_(at.part * kPart<F>),
        wide_in_(kPlain ? kWide : a.wide_in),
        wide_out_(kPlain ? kWide : a.wide_out) {}
  static __device__ __forceinline__ Limbs limbs_of_x(const Source& x, const At& at) {
    if (x.kind == Source::product && at.component >= x.split) return Limbs(x.b, at.item, at.component - x.split);
    return Limbs(x.a, at.item, x.kind == Source::digits ? 0 : at.component);
  }
  __device__ __forceinline__ u32 place(u32 j) const {
    if (!kPlain && a_.has_place) return static_cast<u32>(a_.place.index[j]);
    return j < step.skip_at ? j : j + step.skip;
  }

  const ConversionArguments<F>& a_;
  const Limbs x_, out_, own_;
  const bool adds_;
  const Limbs added_;
  const u32 begin_;
  const bool wide_in_, wide_out_;
};

}  // namespace heliograph::backend::cuda
