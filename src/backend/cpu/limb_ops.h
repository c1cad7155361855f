// Loops over the words of single limbs, one implementation per instruction set. The file has only plain data and function
// pointers, so that files compiled for different instruction sets share no inline code.
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

/// A modulus below 2^60 with the constants that the instruction sets' arithmetic needs; quotients are rounded down.
struct Modulus {
  u64 q = 0;
  u64 two52 = 0, two52_shoup = 0;  // 2^52 mod q, and floor(two52 * 2^52 / q)
  u64 one_shoup52 = 0;             // floor(2^52 / q)
  u64 two104 = 0;                  // 2^104 mod q
  u64 inverse52 = 0;               // q^-1 mod 2^52 (odd q)
  u64 two64 = 0, two64_shoup = 0;  // 2^64 mod q, and floor(two64 * 2^64 / q)
  u64 one_shoup64 = 0;             // floor(2^64 / q)
};

struct LimbOps;
struct Limb {
  Modulus modulus;
  const LimbOps* ops = nullptr;
  std::size_t n = 0;
  int log_n = 0;
  std::size_t word_bytes = 8;
  u64 degree_inverse = 0;  // 1/n mod q, for the inverse NTT
  u64 last_twiddle = 0;    // 1/n times the inverse NTT's last twiddle
  const void* forward = nullptr;
  const void* inverse = nullptr;
};

inline constexpr std::size_t kEightsAhead = 64;
inline constexpr std::size_t kMostWeighted = 8;  // maximum terms of a weighted sum

/// Counts are in words, multiples of 64 for vector code. Residues are canonical on input and output.
struct LimbOps {
  const char* name;
  std::size_t least_degree;  // rings of a lower degree use the scalar loops

  /// Functions that fill twiddle tables; `powers` are math::forward_twiddles or inverse_twiddles.
  std::size_t (*table_bytes)(int log_n);
  void (*fill_forward)(const Modulus&, int log_n, const u64* powers, void* table);
  void (*fill_inverse)(const Modulus&, int log_n, const u64* powers, void* table);
  void (*forward)(const Limb&, const void* in, void* out);
  void (*inverse)(const Limb&, const void* in, void* out);

  /// `past`: write around the caches, because the result does not fit them; the result is then aligned to 64 bytes.
  void (*add)(const Modulus&, const void* a, const void* b, void* out, std::size_t count, bool past);
  void (*sub)(const Modulus&, const void* a, const void* b, void* out, std::size_t count, bool past);
  void (*neg)(const Modulus&, const void* a, void* out, std::size_t count);
  void (*mul)(const Modulus&, const void* a, const void* b, void* out, std::size_t count);
  void (*mul_constant)(const Modulus&, const void* a, u64 c, void* out, std::size_t count);
  void (*add_constant)(const Modulus&, const void* a, u64 c, void* out, std::size_t count);
  /// out = sum_k a[k] * b[k], plus `start` unless it is null; 1 <= terms <= 256; `start` may be `out`.
  void (*dot)(const Modulus&, std::size_t terms, const void* const* a, const void* const* b, const void* start, void* out,
              std::size_t count);
  /// Two sums of products with the same a: out[i] = sum_k a[k] * b[2 k + i], plus the old out[i] if `start` is true.
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
  /// out[8 i + k] = a[block[i] + byte k of lanes[i]], for permutations that move aligned runs of eight as a whole; may be
  /// null. `block` extends kEightsAhead entries further, so that the loop can prefetch the next call's words.
  void (*permute_eights)(const void* a, const u32* block, const u64* lanes, void* out, std::size_t count);

  /// out[i] = the 128-bit little-endian number at stream + 4 i, modulo q.
  void (*uniform)(const Modulus&, const u32* stream, void* out, std::size_t count);
  /// out[i] = small[i] mod q; vector code requires |small[i]| < q.
  void (*spread)(const Modulus&, const i32* small, void* out, std::size_t count);
};

/// Step one of a conversion: y = x * factor mod q. Adds y * fraction >> shift to v; the first source sets v instead.
struct LiftStep {
  Modulus modulus;
  u64 factor, factor_shoup52, factor_shoup64;
  u64 fraction;
  int shift;
};

/// Step two of a conversion: out = own * x' + sum_i y_i * row[i] + v * wrap mod q; y_i = y + i * stride. `own_words` and `v`
/// may be null.
struct CombineStep {
  Modulus modulus;
  std::size_t sources;
  const u64* row;
  u64 wrap, own;
  // The constants times 2^52 mod q, for odd q from 2^20 to 2^50 and at most 14 sources; otherwise null.
  const u64* montgomery_row;
  u64 montgomery_wrap, montgomery_own;
};

/// One block of coefficients of a matrix product with signed weights, for one modulus and one group of outputs:
///   out[m * positions + p] = sum_k weights[m][k] * in[index[p][k]]
/// `in` and `out` hold the block's address in each item; the index 0xffffffff contributes zero.
struct ProductBlock {
  const Modulus* modulus;
  std::size_t outputs, positions, terms, inputs;
  const void* weights;    // packed by pack_weights
  const u32* index;       // input number of each term: [position][term]
  const void* const* in;  // addresses of the inputs
  void* const* out;       // addresses of the results: outputs * positions
  std::size_t count;      // length of the block in words
  void* scratch;
  bool stream;  // write around the caches: the results do not fit them
};
struct ProductOps {
  const char* name;
  std::size_t block;  // preferred block size in words
  std::size_t (*weight_bytes)(std::size_t outputs, std::size_t terms);
  void (*pack_weights)(const i64* weights, std::size_t outputs, std::size_t terms, void* packed);
  std::size_t (*scratch_bytes)(std::size_t outputs, std::size_t terms, std::size_t inputs, std::size_t count);
  /// Called once per block: copies the inputs into the scratch. Null if no copy is needed.
  void (*gather)(const ProductBlock&);
  /// Called once per group, with the same scratch.
  void (*run)(const ProductBlock&);
};

/// Multiplies rows of bytes, each byte minus 128, by vectors of words modulo 2^32:
///   sums[v * sum_stride + r] (+)= sum over i < inputs of (rows[r][i] - 128) * vector v's word i
struct ByteBlock {
  const unsigned char* const* rows;  // address of the block's first byte in each row
  std::size_t count, inputs;         // number of inputs: a multiple of 256
  const std::byte* const* vectors;   // packed words: address of the block's first word in each vector; 4 bytes per word
  std::size_t vectors_count;
  u32* sums;
  std::size_t sum_stride;
  bool add;  // whether to add to the existing sums
};
inline constexpr std::size_t kMostByteVectors = 64;  // maximum vectors per block
struct ByteOps {
  const char* name;
  /// Packs `inputs` words for `run`; the size in bytes is unchanged. Each multiple of 256 words is packed independently.
  void (*pack)(const u32* words, std::size_t inputs, std::byte* packed);
  void (*run)(const ByteBlock&);
};

using LiftFunction = void (*)(const LiftStep&, const void* x, u64* y, u64* v, bool first, std::size_t count);
using CombineFunction = void (*)(const CombineStep&, const u64* y, std::size_t stride, const u64* v, const void* own_words,
                                 void* out, std::size_t count);

/// Size class of a modulus; selects one of an instruction set's loops.
enum class Size : unsigned char { below30 = 0, below50 = 1, below60 = 2 };

/// The loops of one instruction set. In [2][...], index 0 is for 32-bit words and 1 for 64-bit words.
struct InstructionSet {
  const char* name;               // name of the set: "scalar", "avx2" or "avx512"
  const char* description;        // description for people, such as "AVX-512 IFMA"
  const LimbOps* limb[2][3];      // second index: size class of the prime
  LiftFunction lift[2][3];        // second index: size class of x's modulus
  CombineFunction combine[2][3];  // second index: size class of the largest of the sources' and target's moduli
  /// Products with weights of 16 bits (|w| <= 2^15 - 1), and with any weights.
  const ProductOps* narrow_product[2][3];
  const ProductOps* any_product[2][3];
  const ByteOps* bytes;
  /// Computes `blocks` ChaCha20 blocks (RFC 8439) from counter `first`, 16 words each.
  void (*chacha)(const u32 key[8], u32 first, const u32 nonce[3], std::size_t blocks, u32* out);
  /// Computes one small draw from each 64 bits of stream (math::ternary_from, math::gaussian_from).
  void (*ternary)(const u64* stream, i32* out, std::size_t count);
  void (*gaussian)(const u64* stream, const u64* table, std::size_t entries, i32* out, std::size_t count);
  /// Measured upper bound: modular products per second on one thread with operands in registers, modulus below 2^50.
  double (*product_ceiling)(const Modulus&);
  double (*sum_ceiling)(const Modulus&);  // rate of products that are added before one reduction
};

const InstructionSet& scalar_instructions();
/// Loops for rings below the scalar loops' least degree. `wide`: 64-bit words.
const LimbOps& tiny_ops(bool wide);
const InstructionSet& avx2_instructions();
const InstructionSet& avx512_instructions();
/// Loops in separate files, because their templates take long to compile.
const ProductOps& avx2_products(bool wide);
const LimbOps& avx512_below30();
const ProductOps& avx512_any_product30();
const ProductOps& avx512_products(bool wide);

}  // namespace heliograph::backend::cpu
