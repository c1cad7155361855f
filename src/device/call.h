// The list of all kernels. A call is a value: the operands, constants and plan of one kernel. A queue executes a call
// (device/device.h), a counting device counts it (device/work.h), and expand() returns the parts of a composite
// (device/expand.h). Words are canonical residues. Every result is exact and equal on every backend, except that of TFHE's
// bootstrap, which has a tolerance.
//
// Common rules. `primes` lists the prime of each limb of every operand, unless the kernel's comment differs. Operands have
// the ring's word and n. Batch axes may be reversed (negative strides); batch axes of inputs may broadcast (stride 0). In
// element-wise kernels and transforms, `out` may be the same view as an input of the same shape. In other kernels `out` must
// not overlap an input. A call's execution never blocks, synchronises or uploads.
//
// Kernels that process each coefficient (or value) independently also accept slices: n of all operands may be the same
// multiple of 64 below the ring's degree. Each limb then starts at a multiple of 64 bytes. The kernels that accept slices
// are Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants (NTT domain), WeightedSum, Convert, InnerProduct without
// turns, Tensor, Product, Copy, Gather and Zero. Only these kernels accept a ring of rows (math::Ring::rows), which has no
// transform.
//
// The type of an operand is its access: In is read, Out is written, InOut is both. `fields` lists all fields except scratch.
// Generic code uses this list to copy, compare, save and count calls without a list of kernels.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "base/secret.h"
#include "device/constants.h"
#include "device/draw.h"
#include "device/plans.h"
#include "device/tfhe.h"
#include "device/view.h"

namespace heliograph::device {

enum class Access : unsigned char { read, write, read_write };
struct In : View {
  In() = default;
  In(View v) : View(std::move(v)) {}
};
struct Out : View {
  Out() = default;
  Out(View v) : View(std::move(v)) {}
};
struct InOut : View {
  InOut() = default;
  InOut(View v) : View(std::move(v)) {}
};

using RingHandle = std::shared_ptr<const RingConstant>;
using PermutationHandle = std::shared_ptr<const PermutationConstant>;

/// An immutable part of a call, which all copies of the call share.
template <class T>
class Common {
 public:
  Common() : Common(T{}) {}
  Common(const T& value) : value_(std::make_shared<const T>(value)) {}
  operator const T&() const { return *value_; }
  const T& operator*() const { return *value_; }
  auto operator[](std::size_t i) const { return (*value_)[i]; }

 private:
  std::shared_ptr<const T> value_;
};

using Constants = Common<LimbConstants>;
using TermConstants = Common<std::vector<LimbConstants>>;

/// Scratch: a range of device memory, handed out from front to back.
class Workspace {
 public:
  Workspace() = default;
  Workspace(std::byte* begin, std::size_t bytes) : next_(begin), left_(bytes) {}
  /// Throws InternalError if the scratch is too small.
  View take(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  static std::size_t bytes(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  Workspace split(std::size_t bytes);
  bool empty() const { return left_ == 0; }

 private:
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

// Element-wise kernels, for the coefficient domain and the NTT domain.

struct Add {
  static constexpr const char* name = "add";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

struct Sub {
  static constexpr const char* name = "sub";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

struct Neg {
  static constexpr const char* name = "neg";
  RingHandle ring;
  PrimeList primes;
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.out); }
};

/// out = a * b. If `a` or `b` has one component, this component multiplies all components of the other. A limb of `b` may
/// have n' words instead of n, where n / n' is a power of two: word i of `a` is multiplied by word i * n' / n of `b`. The
/// values of a polynomial in X^(n / n') form runs of n / n' equal words.
struct Mul {
  static constexpr const char* name = "mul";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

/// out += a * b; the components of `a` and `b` are as in Mul.
struct MulAccumulate {
  static constexpr const char* name = "mul_accumulate";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  InOut out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

/// out = a * c[limb]
struct MulConstants {
  static constexpr const char* name = "mul_constants";
  RingHandle ring;
  PrimeList primes;
  In a;
  Constants c;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.c, c.out); }
};

/// out = a + the constant polynomial c[limb]: coefficient 0, or every position in the NTT domain.
struct AddConstants {
  static constexpr const char* name = "add_constants";
  RingHandle ring;
  PrimeList primes;
  In a;
  Constants c;
  math::Domain domain;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.c, c.domain, c.out); }
};

/// out = sum over k of x[k] * weights[k][limb], 1 to kMost terms, in one pass over each term. `constant`, if given, adds
/// constant[limb] to every position of component 0: a constant polynomial in the NTT domain.
struct WeightedSum {
  static constexpr const char* name = "weighted_sum";
  static constexpr std::size_t kMost = 8;
  RingHandle ring;
  PrimeList primes;
  std::vector<In> x;
  TermConstants weights;
  std::optional<Constants> constant;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.x, c.weights, c.constant, c.out); }
};

// Transforms, permutations and conversions.

struct ForwardNtt {
  static constexpr const char* name = "forward_ntt";
  RingHandle ring;
  PrimeList primes;
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.out); }
};

struct InverseNtt {
  static constexpr const char* name = "inverse_ntt";
  RingHandle ring;
  PrimeList primes;
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.out); }
};

/// out[i] = +-a[source[i]] in every limb; the permutation has `source` and the signs.
struct Permute {
  static constexpr const char* name = "permute";
  RingHandle ring;
  PrimeList primes;
  PermutationHandle permutation;
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.permutation, c.a, c.out); }
};

/// A conversion (math/conversion.h) in the coefficient domain. The limbs of `x` are the conversion's `from`; the limbs of
/// `own` and `out` are its `to`. `own` is required exactly if the conversion has own constants. `x` and `out` may have
/// different word sizes. `place[j]` is the limb of `out` (and of `own`) for the conversion's target j; without `place` it is
/// limb j.
struct Convert {
  static constexpr const char* name = "convert";
  std::shared_ptr<const ConversionConstant> conversion;
  In x;
  std::optional<In> own;
  Out out;
  std::optional<PrimeList> place = {};

  static auto fields(auto& c) { return std::tie(c.conversion, c.x, c.own, c.out, c.place); }
};

/// The product of key switching in the NTT domain: out_c = sum_j digits_j * key_(j * C + c), with C = out.components, over
/// digits.components digits. `key_limbs[l]` is the limb of `key` for the call's limb l. With `turns`, `digits` has one
/// component, and digit j is this component permuted by turns[j] (null: unchanged). Each turn is an automorphism of the NTT
/// domain, without signs.
struct InnerProduct {
  static constexpr const char* name = "inner_product";
  RingHandle ring;
  PrimeList primes;
  In digits, key;
  Common<PrimeList> key_limbs;
  Out out;
  std::vector<PermutationHandle> turns = {};

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.digits, c.key, c.key_limbs, c.out, c.turns); }
  std::size_t terms() const { return turns.empty() ? digits.components : turns.size(); }
};

/// Product of ciphertexts as polynomials in the secret, NTT domain: out_k = sum_(i+j=k) a_i * b_j.
struct Tensor {
  static constexpr const char* name = "tensor";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

/// A matrix product over the batch, see GatheredProduct.
struct Product {
  static constexpr const char* name = "product";
  RingHandle ring;
  PrimeList primes;
  std::shared_ptr<const ProductConstant> product;
  In in;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.product, c.in, c.out); }
};

struct Sample {
  static constexpr const char* name = "sample";
  RingHandle ring;
  PrimeList primes;
  Secret<Draw> draw;  // the destructor of each copy wipes its seed
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.draw, c.out); }
};

struct Copy {
  static constexpr const char* name = "copy";
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.a, c.out); }
};

struct Piece {
  In from;
  Out to;
};

/// Several copies as one call. A piece's `from` may be on another device if this device can access that device's memory.
struct Gather {
  static constexpr const char* name = "gather";
  std::vector<Piece> pieces;

  static auto fields(auto& c) { return std::tie(c.pieces); }
};

struct Zero {
  static constexpr const char* name = "zero";
  Out out;

  static auto fields(auto& c) { return std::tie(c.out); }
};

/// Sums of products of single limbs of any operand; see LimbSumList. Each operand of `from` and `to` has its own number of
/// components and limbs; all have one batch shape. A result's limb is neither a term nor another result. The words of a limb
/// have the prime of the results that read it. Programs of instructions execute all element-wise work between two transforms
/// as one call of this kernel.
struct LimbSums {
  static constexpr const char* name = "limb_sums";
  static constexpr bool composite = true, one_pass = true;
  static constexpr std::size_t kMostFrom = 64, kMostTo = 8, kMostTurns = 32;
  RingHandle ring;
  std::shared_ptr<const LimbSumConstant> sums;
  std::vector<In> from;
  std::vector<Out> to;
  std::vector<PermutationHandle> turns;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.ring, c.sums, c.from, c.to, c.turns); }
};

/// Products of clear bytes with words modulo 2^32: a server's table times encrypted queries (Henzinger et al., ePrint
/// 2022/949, section 4). The kernel needs no ring and no modulus except 2^32.
///   out[item][j] = sum over i of (byte i of component j - 128) * words[item][i]   modulo 2^32
/// `bytes`: 32-bit words, lowest byte first, no batch, one component for each result, n a multiple of 64. A byte minus 128
/// is a number from -128 to 127. `words`: 32-bit words, one component, 4 n words. `out`: the same batch, one component, one
/// word for each component of `bytes`. All operands have one limb. `scratch`: the words in the backend's layout.
struct ByteProduct {
  static constexpr const char* name = "byte_product";
  In bytes, words;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.bytes, c.words, c.out); }
};

// Composites. device/expand.cpp defines each one as a sequence of smaller calls; a backend may execute a composite
// differently if the result has the same bits.

/// Decomposes one polynomial: each digit is extended to all of the plan's primes (mod up) and transformed. `x` is in the
/// coefficient domain.
struct Decompose {
  static constexpr const char* name = "decompose";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  In x;
  Out digits;

  static auto fields(auto& c) { return std::tie(c.plan, c.x, c.digits); }
};

/// Multiplies digits by a key and divides; the result has 2 components in `domain`. `add` is absent, or has 1 or 2
/// components over the chain.
/// Coefficient domain: out = mod down of the inner product of `digits` with `key`, plus `add`, over the chain.
/// NTT domain: out = (the inner product plus plan.weight times `add`) divided by plan.down, over the primes plan.down.out.
/// If `turn` is given, it first permutes the digits and `add`: the call is then a rotation. `turn` is an automorphism of the
/// NTT domain without signs.
struct ApplyKey {
  static constexpr const char* name = "apply_key";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  math::Domain domain;
  In digits, key;
  std::optional<In> add;
  Out out;
  Workspace scratch;
  PermutationHandle turn = nullptr;

  static auto fields(auto& c) { return std::tie(c.plan, c.domain, c.digits, c.key, c.add, c.out, c.turn); }
};

/// Several ApplyKey calls in the NTT domain. Result i is switched by keys[i] and permuted by turns[i] (null: not permuted).
/// Either all results have the same digits and addend (hoisted rotations), or each result has its own.
struct ApplyKeys {
  static constexpr const char* name = "apply_keys";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  std::vector<In> digits, keys, added;
  std::vector<PermutationHandle> turns;
  std::vector<Out> outs;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.plan, c.digits, c.keys, c.added, c.turns, c.outs); }
  ApplyKey one(std::size_t i) const {
    const auto of = [&](const std::vector<In>& views) { return views[views.size() == 1 ? 0 : i]; };
    return {.plan = plan,
            .domain = math::Domain::ntt,
            .digits = of(digits),
            .key = keys[i],
            .add = added.empty() ? std::nullopt : std::optional(of(added)),
            .out = outs[i],
            .scratch = scratch,
            .turn = turns[i]};
  }
};

/// Decomposes one polynomial in `domain` and applies the key: Decompose, then ApplyKey.
struct KeySwitch {
  static constexpr const char* name = "key_switch";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  math::Domain domain;
  In x, key;
  std::optional<In> add;
  Out out;
  Workspace scratch;
  PermutationHandle turn = nullptr;

  static auto fields(auto& c) { return std::tie(c.plan, c.domain, c.x, c.key, c.add, c.out, c.turn); }
};

/// Part of a key switch in the NTT domain: the limbs of `x` only, which are the plan's chain. `coefficients` has all limbs
/// of the polynomial in the coefficient domain, digit after digit. A digit's `source` is its range of limbs in
/// `coefficients`.
struct PartialKeySwitch {
  static constexpr const char* name = "partial_key_switch";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  In x, coefficients, key;
  std::optional<In> add;
  Out out;
  Workspace scratch;
  PermutationHandle turn = nullptr;
  static constexpr math::Domain domain = math::Domain::ntt;

  static auto fields(auto& c) { return std::tie(c.plan, c.x, c.coefficients, c.key, c.add, c.out, c.turn); }
};

/// Division of polynomials in the NTT domain; see DividePlan.
struct Divide {
  static constexpr const char* name = "divide";
  static constexpr bool composite = true;
  std::shared_ptr<const DividePlan> plan;
  In x;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.plan, c.x, c.out); }
};

/// The sum of plaintexts times rotations of ciphertexts x = (x_0, x_1), NTT domain. Baby and giant steps have sums modulo Q
/// P (double hoisting: Bossuat et al., ePrint 2020/1203); see LinearPlan. D(x) decomposes x into digits. D, weight and
/// division are those of plan->key_switch. Rounding occurs only in w_g and in the division at the end.
///   u_b = turn_b(D(x_1)) * key_b + weight (turn_b(x_0), 0);   weight x for the identity baby step
///   a_g = sum over the terms (g, b) of plaintext * u_b;       w_g = round(a_g,1 / P)
///   out = sum over g of turn_g(D(w_g)) * key_g + (turn_g(a_g,0), 0), divided;   a_g for the identity giant step
/// `keys`: the keys of the baby steps, then the keys of the giant steps; identity steps have no keys. `plaintexts`: one
/// component for each term, over the extended primes, for every item. A limb of a plaintext has n words, or n' words as in
/// operand `b` of Mul. So a matrix that repeats along the slots, as in bootstrapping, is stored once.
struct LinearSum {
  static constexpr const char* name = "linear_sum";
  static constexpr bool composite = true;
  std::shared_ptr<const LinearPlan> plan;
  In x;
  std::vector<In> keys;
  In plaintexts;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.plan, c.x, c.keys, c.plaintexts, c.out); }
};

/// The baby steps of a LinearSum over some of its limbs: sums[g * items + i] = a_g of item i. `x`: two components over the
/// first x.limbs of `primes`; on the other limbs (special primes) weight x counts as 0. `digits`: D(x_1), one component for
/// each digit. `turns` and `terms`: as in LinearPlan. `keys`: one for each step except the identity. `key_limbs[l]` is the
/// position in each key of limb l. `plaintexts`: as in LinearSum.
struct BabySteps {
  static constexpr const char* name = "baby_steps";
  static constexpr bool composite = true;
  RingHandle ring;
  PrimeList primes;
  std::vector<PermutationHandle> turns;
  std::vector<LinearPlan::Term> terms;
  Constants weight;
  In x, digits;
  std::vector<In> keys;
  Common<PrimeList> key_limbs;
  In plaintexts;
  Out sums;
  Workspace scratch;

  static auto fields(auto& c) {
    return std::tie(c.ring, c.primes, c.turns, c.terms, c.weight, c.x, c.digits, c.keys, c.key_limbs, c.plaintexts, c.sums);
  }
  std::size_t giants() const { return terms.empty() ? 0 : terms.back().giant + 1; }
};

/// The giant steps of a LinearSum, without the identity, over some of its limbs; adds to `total`:
///   total_i += sum over g of turn_g(digits[g * items + i]) * key_g + (turn_g(sums[g * items + i]), 0)
/// `sums`: component 0 of each a_g. `digits`: D(w_g), one component for each digit.
struct GiantSteps {
  static constexpr const char* name = "giant_steps";
  static constexpr bool composite = true;
  RingHandle ring;
  PrimeList primes;
  std::vector<PermutationHandle> turns;
  In sums, digits;
  std::vector<In> keys;
  Common<PrimeList> key_limbs;
  InOut total;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.turns, c.sums, c.digits, c.keys, c.key_limbs, c.total); }
};

/// Tensor product of ciphertexts, scaled by t/Q (Halevi-Polyakov-Shoup): lift, tensor, scale. For a square, `b` is `a`.
struct ScaledTensor {
  static constexpr const char* name = "bfv_multiply";  // name of ScaledTensor in saved programs
  static constexpr bool composite = true;
  std::shared_ptr<const MultiplyPlan> plan;
  In a, b;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.plan, c.a, c.b, c.out); }
};

// TFHE (device/tfhe.h). `wires`: 64-bit words, one batch axis of items (not reversed), a component for each wire, one limb,
// n = lwe_words(k * N). `narrow`: 32-bit words, one batch axis of the same items, a component for each row, one limb, n =
// lwe_words(n). Calls without items or rows do nothing.

/// Writes the linear combination of each row of each item to the row's first target.
struct Combine {
  static constexpr const char* name = "combine";
  std::shared_ptr<const LayerConstant> layer;
  InOut wires;

  static auto fields(auto& c) { return std::tie(c.layer, c.wires); }
};

/// Switches the row's first target to the narrow key:
///   (0, .., 0, round(b / 2^32)) - sum over i, l of digit(a_i, l) * key[i][l]   modulo 2^32.
struct LweKeySwitch {
  static constexpr const char* name = "lwe_key_switch";
  std::shared_ptr<const LweSwitchKey> key;
  std::shared_ptr<const LayerConstant> layer;
  In wires;
  Out narrow;

  static auto fields(auto& c) { return std::tie(c.key, c.layer, c.wires, c.narrow); }
};

/// Modulus switch, blind rotation and sample extraction (Chillotti et al., ePrint 2018/421).
/// Modulus switch to 2N: a'_i = round(2N a_i / 2^32), and b' = round(2N (b - floor(E / 2)) / 2^32). E is the sum of the
/// signed errors a_i - 2^32 a'_i / 2N. E / 2 is the error that an average key, with half of its bits set, adds (drift
/// mitigation, ePrint 2024/1718). Blind rotation: acc = X^(-b') * (0, .., 0, table); then for each group
///   acc_c = sum over r, l of digit(acc_r, l) * (sum over values v of X^(e_v) key[g][v][r][l][c]),
/// with e_v the sum of a'_i over the bits of v. Result o: coefficient o * N / outputs of acc as an LWE ciphertext.
struct Bootstrap {
  static constexpr const char* name = "bootstrap";
  std::shared_ptr<const BootstrapKey> key;
  std::shared_ptr<const LayerConstant> layer;
  In narrow;
  InOut wires;

  static auto fields(auto& c) { return std::tie(c.key, c.layer, c.narrow, c.wires); }
};

/// Evaluates a whole layer: Combine, and then, unless the layer is linear, LweKeySwitch and Bootstrap with `narrow` as
/// scratch.
struct Evaluate {
  static constexpr const char* name = "evaluate";
  static constexpr bool composite = true;
  std::shared_ptr<const LweSwitchKey> switch_key;
  std::shared_ptr<const BootstrapKey> key;
  std::shared_ptr<const LayerConstant> layer;
  InOut wires;
  Out narrow;

  static auto fields(auto& c) { return std::tie(c.switch_key, c.key, c.layer, c.wires, c.narrow); }
};

using Call = std::variant<Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, ForwardNtt, InverseNtt,
                          Permute, Convert, InnerProduct, Tensor, Product, Sample, Copy, Gather, Zero, Decompose, ApplyKey,
                          ApplyKeys, KeySwitch, Divide, LinearSum, ScaledTensor, Combine, LweKeySwitch, Bootstrap, Evaluate,
                          LimbSums, ByteProduct, BabySteps, GiantSteps,
                          PartialKeySwitch>;  // program files store the index of a kernel in this list
static_assert(sizeof(Call) <= 1088, "a call is copied into queues and programs");

template <class C>
concept Composite = requires {
  C::composite;
};

/// Composites that work() counts as their parts: all except those that every fast backend executes in one pass over memory.
template <class C>
concept CountedInParts = Composite<C> && !requires {
  C::one_pass;
};

template <class T, class... Of>
concept OneOf = (std::is_same_v<std::remove_const_t<T>, Of> || ...);

namespace operands {

/// Calls `f` with each view of a field; does nothing for fields that are not operands.
template <class T, class F>
void show(T& field, F& f) {
  if constexpr (OneOf<T, In, Out, InOut>)
    f(field, OneOf<T, In> ? Access::read : OneOf<T, Out> ? Access::write : Access::read_write);
  else if constexpr (OneOf<T, Piece>)
    show(field.from, f), show(field.to, f);
  else if constexpr (OneOf<T, std::vector<In>, std::vector<Out>, std::vector<Piece>>)
    for (auto& one : field) show(one, f);
  else if constexpr (OneOf<T, std::optional<In>>)
    if (field) show(*field, f);
}

}  // namespace operands

/// Calls `f` with each view of a call or of one kernel, and its access, in the order of the fields.
template <class C, class F>
void each_view(C& call, F f) {
  if constexpr (std::is_same_v<std::remove_const_t<C>, Call>)
    std::visit([&](auto& c) { each_view(c, f); }, call);
  else
    std::apply([&](auto&... field) { (operands::show(field, f), ...); }, std::remove_const_t<C>::fields(call));
}

/// Calls `f` with each pointer of a call to a constant or a plan; pointers may be null.
template <class C, class F>
void each_constant(C& call, F f) {
  const auto look = [&]<class T>(T& field) {
    if constexpr (requires { typename T::element_type; }) {
      if constexpr (std::is_base_of_v<Constant, std::remove_const_t<typename T::element_type>>) f(field);
    }
    if constexpr (std::is_same_v<std::remove_const_t<T>, std::vector<PermutationHandle>>) {
      for (auto& one : field) f(one);
    }
  };
  std::apply([&](auto&... field) { (look(field), ...); }, std::remove_const_t<C>::fields(call));
}

/// Returns the kernel's name for people and for counts, such as "add" or "key_switch".
const char* name(const Call& call);
/// Returns the names of all kernels, in the order of the variant `Call`.
std::vector<const char*> kernel_names();

/// Throws ShapeError, MismatchError or ParameterError if the operands do not fit the kernel.
void check(const Call& call);
/// Returns whether the call does nothing on every backend, because it has no items.
bool idle(const Call& call);

}  // namespace heliograph::device
