// THE list of kernels. A call is a value: the operands, constants and plan of one kernel, which a queue performs
// (device/device.h), a counting device counts (device/work.h) and a composite's definition expands (device/expand.h).
// Words are canonical residues; every result is exact and the same on every backend. TFHE's bootstrap alone has a tolerance.
//
// Common rules. `primes` names the prime of each limb of every operand unless said otherwise. Operands have the ring's
// word and n. Batch axes may be reversed (negative strides), those of inputs broadcast (stride 0); `out` may be an input of
// the same shape (element-wise kernels, transforms) and otherwise must not overlap one. Performing a call neither blocks,
// synchronises nor uploads.
//
// Kernels that take each coefficient (or value) alone also work on a slice of them: n of all operands may be the same
// multiple of 64 below the ring's degree, each limb lying at a multiple of 64 bytes. These are Add, Sub, Neg, Mul,
// MulAccumulate, MulConstants, AddConstants (NTT domain), WeightedSum, Convert, InnerProduct without turns, Tensor, Product, Copy,
// Gather and Zero.
// These alone take a ring of rows (math::Ring::rows), which has no transform.
//
// What a kernel does with an operand is the operand's type: In is read, Out written, InOut both. `fields` lists all of a call
// but scratch, so that whoever copies, compares, saves or counts calls needs to know none of them.
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

/// What a kernel does with an operand.
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

/// What all copies of a call share.
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

/// One small constant for each limb of a call.
using Constants = Common<LimbConstants>;
/// The same for each term of a sum.
using TermConstants = Common<std::vector<LimbConstants>>;

/// Scratch: a stretch of device memory handed out front to back.
class Workspace {
 public:
  Workspace() = default;
  Workspace(std::byte* begin, std::size_t bytes) : next_(begin), left_(bytes) {}
  /// Throws InternalError where the declared size was too small.
  View take(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  static std::size_t bytes(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  Workspace split(std::size_t bytes);
  bool empty() const { return left_ == 0; }

 private:
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

// Element-wise, either domain.

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

/// `a` or `b` may have one component where out has more (it is used for each). `b` may have fewer words a limb, n' of them where
/// out has n, n / n' a power of two: word i meets b's word i * n' / n. Values of a polynomial in X^(n / n') are such runs.
struct Mul {
  static constexpr const char* name = "mul";
  RingHandle ring;
  PrimeList primes;
  In a, b;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.a, c.b, c.out); }
};

/// out += a * b, components as of Mul.
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

/// out = sum over k of x[k] * weights[k][limb], of 1 to kMost terms, in one pass over each. With a `constant` component 0 has
/// constant[limb] more at every position: a constant polynomial of the NTT domain.
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

// Transforms.

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

/// out[i] = +-a[source[i]] in every limb.
struct Permute {
  static constexpr const char* name = "permute";
  RingHandle ring;
  PrimeList primes;
  PermutationHandle permutation;
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.permutation, c.a, c.out); }
};

/// See math/conversion.h. Coefficient domain. Limbs of `x` are the conversion's `from`, of `own` and `out` its `to`; there is an
/// `own` exactly where the conversion has own constants. `x` and `out` may have different words.
/// `place[j]` is the limb of `out` (and of `own`) for the conversion's target j; none: limb j.
struct Convert {
  static constexpr const char* name = "convert";
  std::shared_ptr<const ConversionConstant> conversion;
  In x;
  std::optional<In> own;
  Out out;
  std::optional<PrimeList> place = {};

  static auto fields(auto& c) { return std::tie(c.conversion, c.x, c.own, c.out, c.place); }
};

// Products.

/// Key switching's product, NTT domain: out_c = sum_j digits_j * key_(j * C + c), C = out.components, over
/// digits.components digits. `key_limbs[l]` is the position in `key` of the call's limb l. With `turns`, `digits` is one
/// component and digit j is what turns[j] makes of it (null: itself): automorphisms of the NTT domain, which negate nothing.
struct InnerProduct {
  static constexpr const char* name = "inner_product";
  RingHandle ring;
  PrimeList primes;
  In digits, key;
  Common<PrimeList> key_limbs;
  Out out;
  std::vector<PermutationHandle> turns = {};

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.digits, c.key, c.key_limbs, c.out, c.turns); }
  /// Digits of the sum.
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

// Making and moving.

struct Sample {
  static constexpr const char* name = "sample";
  RingHandle ring;
  PrimeList primes;
  Secret<Draw> draw;  // wiped with every copy of the call
  Out out;

  static auto fields(auto& c) { return std::tie(c.ring, c.primes, c.draw, c.out); }
};

struct Copy {
  static constexpr const char* name = "copy";
  In a;
  Out out;

  static auto fields(auto& c) { return std::tie(c.a, c.out); }
};

/// One copy of a Gather.
struct Piece {
  In from;
  Out to;
};

/// Several copies as one call: each piece as Copy. A piece's `from` may lie on another device that this one reaches.
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

/// Sums of products of single limbs, wherever in the operands they lie, see LimbSumList. `from` and `to` are some operands of as many
/// components and limbs as they have, one batch; a result's limb is no term's and no other result's. Words of each limb have the
/// prime of the results that read it. What programs of instructions do between two transforms is one such call.
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

/// Products of bytes in clear with words modulo 2^32: what a table of the server's makes of encrypted questions (Henzinger et
/// al., ePrint 2022/949, section 4). No ring, and no modulus but 2^32.
///   out[item][j] = sum over i of (byte i of component j - 128) * words[item][i]   modulo 2^32
/// `bytes`: 32-bit words, the lowest byte of each first, no batch, a component for each result, n a multiple of 64; each byte
/// stands for a number from -128 to 127. `words`: 32-bit words, one component, 4 times as many; `out`: the same batch, one
/// component, a word for each component of `bytes`. One limb each. `scratch`: for the words as a backend wants them.
struct ByteProduct {
  static constexpr const char* name = "byte_product";
  In bytes, words;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.bytes, c.words, c.out); }
};

// Composites: what they are is written once (device/expand.cpp); a backend may perform them otherwise, bit-equal.

/// Digits of one polynomial, raised to all of the plan's primes and transformed. `x` is in the coefficient domain.
struct Decompose {
  static constexpr const char* name = "decompose";
  static constexpr bool composite = true;
  std::shared_ptr<const KeySwitchPlan> plan;
  In x;
  Out digits;

  static auto fields(auto& c) { return std::tie(c.plan, c.x, c.digits); }
};

/// From digits to the result of 2 components, in `domain`, as `add` (absent, or 1 or 2 components over the chain).
/// Coefficient domain: mod down of the inner product of `digits` with `key`, plus `add`; over the chain.
/// NTT domain: division by plan.down of the inner product plus plan.weight times `add`; over plan.down.out. `turn`, where
/// given, permutes the digits and `add` first (a rotation: an automorphism of the NTT domain, which negates nothing).
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

/// Several of them in the NTT domain, each with a key of its own: result i is switched by keys[i], and turned by turns[i] where
/// that is not null. Digits, and addends where there are any, are one for all (hoisted rotations) or one for each.
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

/// The same of one polynomial in `domain`, decomposed first.
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

/// The sum of plaintexts times rotations of ciphertexts x = (x_0, x_1), NTT domain: baby and giant steps whose sums stay
/// modulo Q P (double hoisting: Bossuat et al., ePrint 2020/1203), see LinearPlan. Digits D, weight and division are those of
/// plan->key_switch. What is rounded: w_g, and the division at the end.
///   u_b = turn_b(D(x_1)) * key_b + weight (turn_b(x_0), 0);   weight x for a baby step that turns nothing
///   a_g = sum over the terms (g, b) of plaintext * u_b;       w_g = round(a_g,1 / P)
///   out = sum over g of turn_g(D(w_g)) * key_g + (turn_g(a_g,0), 0), divided;   a_g for a giant step that turns nothing
/// `keys`: of the baby steps that turn, then of the giant steps that do. `plaintexts`: a component for each term, over the
/// extended primes, for every item; all words of a limb, or n' of them as Mul's `b`: what a matrix repeats along the slots, such
/// as those of bootstrapping, is stored once.
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

/// BFV product before relinearization (HPS): lift, tensor, scale by t/Q. `b` may be `a` itself: a square.
struct BfvMultiply {
  static constexpr const char* name = "bfv_multiply";
  static constexpr bool composite = true;
  std::shared_ptr<const MultiplyPlan> plan;
  In a, b;
  Out out;
  Workspace scratch;

  static auto fields(auto& c) { return std::tie(c.plan, c.a, c.b, c.out); }
};

// TFHE (device/tfhe.h). `wires`: 64-bit words, one batch axis of items (not reversed), a component for each wire, one limb,
// n = lwe_words(k * N). `narrow`: 32-bit words, one batch axis of as many items, a component for each row, one limb,
// n = lwe_words(n). Where there are no items or no rows nothing is performed.

/// The linear combination of each row of each item, into the row's first target.
struct Combine {
  static constexpr const char* name = "combine";
  std::shared_ptr<const LayerConstant> layer;
  InOut wires;

  static auto fields(auto& c) { return std::tie(c.layer, c.wires); }
};

/// The row's first target, switched to the narrow key:
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
/// Modulus switch to 2N: a'_i = round(2N a_i / 2^32), and b' = round(2N (b - floor(E / 2)) / 2^32), E the sum of the
/// signed errors a_i - 2^32 a'_i / 2N: what half of the key's bits is expected to add is taken away (drift mitigation,
/// ePrint 2024/1718). Blind rotation: acc = X^(-b') * (0, .., 0, table); then for each group
///   acc_c = sum over r, l of digit(acc_r, l) * (sum over values v of X^(sum of a'_i over the bits of v) key[g][v][r][l][c]).
/// Result o: coefficient o * N / outputs of acc as an LWE ciphertext.
struct Bootstrap {
  static constexpr const char* name = "bootstrap";
  std::shared_ptr<const BootstrapKey> key;
  std::shared_ptr<const LayerConstant> layer;
  In narrow;
  InOut wires;

  static auto fields(auto& c) { return std::tie(c.key, c.layer, c.narrow, c.wires); }
};

/// All of a layer: Combine, and for what is not linear LweKeySwitch and Bootstrap, with `narrow` as scratch.
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
                          ApplyKeys, KeySwitch, Divide, LinearSum, BfvMultiply, Combine, LweKeySwitch, Bootstrap, Evaluate,
                          LimbSums, ByteProduct>;  // a saved program names them by their numbers
static_assert(sizeof(Call) <= 1024, "a call is copied into queues and programs");

template <class C>
concept Composite = requires {
  C::composite;
};

/// What is counted as the calls that it stands for: all composites but those that are one pass over memory wherever they are fast.
template <class C>
concept CountedInParts = Composite<C> && !requires {
  C::one_pass;
};

template <class T, class... Of>
concept OneOf = (std::is_same_v<std::remove_const_t<T>, Of> || ...);

namespace operands {

/// The views of a field; none where it is no operand.
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

/// Shows `f` each view of a call, or of one kernel's, and what the kernel does with it, in the order of the fields.
template <class C, class F>
void each_view(C& call, F f) {
  if constexpr (std::is_same_v<std::remove_const_t<C>, Call>)
    std::visit([&](auto& c) { each_view(c, f); }, call);
  else
    std::apply([&](auto&... field) { (operands::show(field, f), ...); }, std::remove_const_t<C>::fields(call));
}

/// Shows `f` each constant and plan that one kernel's call names, as the pointer that it is; some may be null.
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

/// "add", "key_switch": for a person and for counts.
const char* name(const Call& call);
/// The names of all kernels, in the order of the variant.
std::vector<const char*> kernel_names();

/// Throws ShapeError, MismatchError or ParameterError where the operands do not fit the kernel.
void check(const Call& call);
/// Whether performing it changes nothing, whatever the backend.
bool idle(const Call& call);

}  // namespace heliograph::device
