// Loops over the words of single limbs: the part that is written for each instruction set. Plain data and function
// pointers only, so that files compiled with wider instruction sets share no inline code with the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heliograph::backend::cpu {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
__extension__ using u128 = unsigned __int128;
__extension__ using i128 = __int128;

/// A modulus below 2^60 with the constants every arithmetic needs (floors).
struct Modulus {
  u64 q = 0;
  u64 two52 = 0, two52_shoup = 0;  // 2^52 mod q, and floor(that * 2^52 / q)
  u64 one_shoup52 = 0;             // floor(2^52 / q)
  u64 two104 = 0;                  // 2^104 mod q
  u64 inverse52 = 0;               // q^-1 mod 2^52 (odd q)
  u64 two64 = 0, two64_shoup = 0;  // 2^64 mod q, and floor(that * 2^64 / q)
  u64 one_shoup64 = 0;             // floor(2^64 / q)
};

/// A prime prepared for a ring.
struct LimbOps;
struct Limb {
  Modulus modulus;
  const LimbOps* ops = nullptr;
  std::size_t n = 0;
  int log_n = 0;
  std::size_t word_bytes = 8;
  u64 degree_inverse = 0;  // n^-1 mod q
  u64 last_twiddle = 0;    // the inverse NTT's last twiddle times n^-1
  const void* forward = nullptr;
  const void* inverse = nullptr;
};

inline constexpr std::size_t kEightsAhead = 64;
inline constexpr std::size_t kMostWeighted = 8;  // terms of a weighted sum

/// All counts are words; vector code asks for multiples of 64. Residues are canonical, in and out.
struct LimbOps {
  const char* name;
  std::size_t least_degree;  // smaller rings take the scalar loops

  /// Twiddle tables: `powers` are math::forward_twiddles or inverse_twiddles.
  std::size_t (*table_bytes)(int log_n);
  void (*fill_forward)(const Modulus&, int log_n, const u64* powers, void* table);
  void (*fill_inverse)(const Modulus&, int log_n, const u64* powers, void* table);
  void (*forward)(const Limb&, const void* in, void* out);
  void (*inverse)(const Limb&, const void* in, void* out);

  /// `past`: the result, which lies at a multiple of 64 bytes, is more than the caches hold: it is written past them.
  void (*add)(const Modulus&, const void* a, const void* b, void* out, std::size_t count, bool past);
  void (*sub)(const Modulus&, const void* a, const void* b, void* out, std::size_t count, bool past);
  void (*neg)(const Modulus&, const void* a, void* out, std::size_t count);
  void (*mul)(const Modulus&, const void* a, const void* b, void* out, std::size_t count);
  void (*mul_constant)(const Modulus&, const void* a, u64 c, void* out, std::size_t count);
  void (*add_constant)(const Modulus&, const void* a, u64 c, void* out, std::size_t count);
  /// out = (start ? start : 0) + sum_k a[k] * b[k], 1 <= terms <= 256; `start` may be `out`.
  void (*dot)(const Modulus&, std::size_t terms, const void* const* a, const void* const* b, const void* start, void* out,
              std::size_t count);
  /// Two such sums of one a: out[i] = (start ? out[i] : 0) + sum_k a[k] * b[2 k + i].
  void (*dot_pair)(const Modulus&, std::size_t terms, const void* const* a, const void* const* b, bool start,
                   void* const* out, std::size_t count);
  /// out = start + sum_k a[k] * c[k], 1 or 2 terms; `start` may be `out`.
  void (*scaled_sum)(const Modulus&, std::size_t terms, const void* const* a, const u64* c, const void* start, void* out,
                     std::size_t count);
  /// out = constant + sum_k a[k] * c[k], 1 <= terms <= kMostWeighted; `out` may be any of a.
  void (*weighted_sum)(const Modulus&, std::size_t terms, const void* const* a, const u64* c, u64 constant, void* out,
                       std::size_t count);
  /// out[i] = a[source[i] >> 1], negated where source[i] is odd.
  void (*permute)(const Modulus&, const void* a, const u32* source, void* out, std::size_t count);
  /// out[8 i + k] = a[block[i] + byte k of lanes[i]] for permutations that keep runs of eight together; may be null. `block` goes
  /// on for kEightsAhead more: what a next call of as many is to read, in an order that no processor foresees.
  void (*permute_eights)(const void* a, const u32* block, const u64* lanes, void* out, std::size_t count);

  /// out[i] = the 128-bit little-endian number at stream + 4 i, modulo q.
  void (*uniform)(const Modulus&, const u32* stream, void* out, std::size_t count);
  /// out[i] = small[i] mod q; vector code asks for |small[i]| < q.
  void (*spread)(const Modulus&, const i32* small, void* out, std::size_t count);
};

/// Step one of a conversion: y = x * factor mod q, and v += y * fraction >> shift (v = ... for the first source).
struct LiftStep {
  Modulus modulus;
  u64 factor, factor_shoup52, factor_shoup64;
  u64 fraction;
  int shift;
};

/// Step two: out = own * x' + sum_i y_i * row[i] + v * wrap mod q; y_i = y + i * stride. `own_words` and `v` may be null.
struct CombineStep {
  Modulus modulus;
  std::size_t sources;
  const u64* row;
  u64 wrap, own;
  // The same times 2^52, for odd q from 2^20 to 2^50 and at most 14 sources; else null.
  const u64* montgomery_row;
  u64 montgomery_wrap, montgomery_own;
};

/// One coefficient block of a matrix product with signed weights, one modulus, one group:
///   out[m * positions + p] = sum_k weights[m][k] * in[index[p][k]]
/// `in` and `out` are addresses of the block in each item; an index of 0xffffffff contributes nothing.
struct ProductBlock {
  const Modulus* modulus;
  std::size_t outputs, positions, terms, inputs;
  const void* weights;    // in the form pack_weights made
  const u32* index;       // positions x terms
  const void* const* in;  // inputs
  void* const* out;       // outputs * positions
  std::size_t count;      // words in the block
  void* scratch;
  bool stream;  // the results are more than the caches hold: write past them
};
struct ProductOps {
  const char* name;
  std::size_t block;  // words a block should have
  std::size_t (*weight_bytes)(std::size_t outputs, std::size_t terms);
  void (*pack_weights)(const i64* weights, std::size_t outputs, std::size_t terms, void* packed);
  std::size_t (*scratch_bytes)(std::size_t outputs, std::size_t terms, std::size_t inputs, std::size_t count);
  /// Once for a block: brings the inputs into the scratch. Null where there is nothing to do.
  void (*gather)(const ProductBlock&);
  /// For each group, on the same scratch.
  void (*run)(const ProductBlock&);
};

/// Rows of bytes, each less 128, times vectors of words modulo 2^32:
///   sums[v * sum_stride + r] (+)= sum over i < inputs of (rows[r][i] - 128) * vector v's word i
struct ByteBlock {
  const unsigned char* const* rows;  // each from the block's first byte on
  std::size_t count, inputs;         // inputs: a multiple of 256
  const std::byte* const* vectors;   // packed, from the block's first word on; 4 bytes a word
  std::size_t vectors_count;
  u32* sums;
  std::size_t sum_stride;
  bool add;  // to the sums that are there
};
inline constexpr std::size_t kMostByteVectors = 64;  // of a block
struct ByteOps {
  const char* name;
  /// `inputs` words in the form that `run` takes, as many bytes; any multiple of 256 of them packed is packed by itself.
  void (*pack)(const u32* words, std::size_t inputs, std::byte* packed);
  void (*run)(const ByteBlock&);
};

using LiftFunction = void (*)(const LiftStep&, const void* x, u64* y, u64* v, bool first, std::size_t count);
using CombineFunction = void (*)(const CombineStep&, const u64* y, std::size_t stride, const u64* v, const void* own_words,
                                 void* out, std::size_t count);

/// How large residues are: what picks among an instruction set's loops.
enum class Size : unsigned char { below30 = 0, below50 = 1, below60 = 2 };

/// Everything written for one instruction set. Index [0] is 32-bit words, [1] 64-bit words.
struct InstructionSet {
  const char* name;               // "scalar", "avx2", "avx512"
  const char* description;        // "AVX-512 IFMA"
  const LimbOps* limb[2][3];      // by word and size of the prime
  LiftFunction lift[2][3];        // by word of x and size of its modulus
  CombineFunction combine[2][3];  // by word of out and the largest size among y's moduli and the target
  /// For weights that fit 16 bits (|w| <= 2^15 - 1), and for any.
  const ProductOps* narrow_product[2][3];
  const ProductOps* any_product[2][3];
  const ByteOps* bytes;
  /// `blocks` ChaCha20 blocks (RFC 8439) from counter `first`: 16 words each.
  void (*chacha)(const u32 key[8], u32 first, const u32 nonce[3], std::size_t blocks, u32* out);
  /// One small draw for each 64 bits (math::ternary_from, math::gaussian_from).
  void (*ternary)(const u64* stream, i32* out, std::size_t count);
  void (*gaussian)(const u64* stream, const u64* table, std::size_t entries, i32* out, std::size_t count);
  /// Modular products a second of one thread with operands in registers, for a modulus below 2^50: a roof, measured.
  double (*product_ceiling)(const Modulus&);
  double (*sum_ceiling)(const Modulus&);  // of products summed before one reduction
};

const InstructionSet& scalar_instructions();
/// For rings below the scalar loops' least degree, by word.
const LimbOps& tiny_ops(bool wide);
const InstructionSet& avx2_instructions();
const InstructionSet& avx512_instructions();
/// Parts of these that have files of their own: templates of many loops, which take long to compile.
const ProductOps& avx2_products(bool wide);
const LimbOps& avx512_below30();
const ProductOps& avx512_any_product30();
const ProductOps& avx512_products(bool wide);

}  // namespace heliograph::backend::cpu
