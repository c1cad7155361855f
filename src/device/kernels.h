// THE contract of limb-level kernels. A public call checks its arguments (device/kernels.cpp), then enqueues through the
// protected virtual of the same name. Words are canonical residues; every result is exact and the same on every backend.
//
// Common rules. `primes` names the prime of each limb of every operand unless said otherwise. Operands have the ring's
// word and n. Batch axes may be reversed (negative strides), those of inputs broadcast (stride 0); `out` may be an input of
// the same shape (element-wise kernels, ntt) and otherwise must not overlap one. A call neither blocks, allocates,
// synchronises nor uploads.
//
// Kernels that take each coefficient (or value) alone also work on a slice of them: n of all operands may be the same
// multiple of 64 below the ring's degree, each limb lying at a multiple of 64 bytes. These are add, sub, neg, mul,
// mul_accumulate, mul_constants, add_constants (NTT domain), convert, inner_product, tensor, product, copy, gather and zero.
// These alone take a ring of rows (math::Ring::rows), which has no transform.
#pragma once

#include <array>
#include <span>

#include "device/device.h"
#include "device/prepared.h"

namespace heliograph::device {

/// What random polynomials are drawn from. All draws are ChaCha20 (RFC 8439) under `key`; the block of a coefficient is
/// a function of (purpose, component, prime, object, item, coefficient): see math/sampler.h.
enum class Distribution : unsigned char {
  uniform,   // each limb on its own, from 128-bit draws
  ternary,   // -1, 0, 1 alike; one small polynomial, the same in every limb
  gaussian,  // sigma 3.19 by integer inversion; one small polynomial, the same in every limb
};
struct Draw {
  std::array<unsigned char, 32> key{};
  Distribution distribution = Distribution::uniform;
  unsigned char purpose = 0;
  u32 object = 0;
  u32 first_item = 0;  // global batch index of the view's item 0
};

/// One small constant for each limb of a call.
using LimbConstants = std::array<u64, kMaxLimbs>;

/// Scratch: a stretch of device memory handed out front to back.
class Workspace {
 public:
  Workspace(std::byte* begin, std::size_t bytes) : next_(begin), left_(bytes) {}
  /// Throws InternalError where the declared size was too small.
  View take(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  static std::size_t bytes(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n);
  Workspace split(std::size_t bytes);

 private:
  std::byte* next_;
  std::size_t left_;
};

/// One copy of a gather.
struct Piece {
  View from, to;
};

struct DividePlan;
struct KeySwitchPlan;
struct MultiplyPlan;

class Kernels {
 public:
  virtual ~Kernels() = default;

  // Preparing constants (may allocate and upload; never inside a computation).
  virtual std::shared_ptr<const PreparedRing> prepare(std::shared_ptr<const math::Ring> ring) = 0;
  virtual std::shared_ptr<const PreparedConversion> prepare(math::Conversion conversion) = 0;
  virtual std::shared_ptr<const PreparedPermutation> prepare(Permutation permutation) = 0;
  virtual std::shared_ptr<const PreparedProduct> prepare(GatheredProduct product) = 0;

  // Element-wise, either domain.
  void add(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& b, const View& out);
  void sub(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& b, const View& out);
  void neg(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& out);
  void mul(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& b, const View& out);
  /// out += a * b. `a` or `b` may have one component where out has more (it is used for each).
  void mul_accumulate(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& b, const View& out);
  /// out = a * c[limb]
  void mul_constants(Queue&, const PreparedRing&, PrimeList primes, const View& a, const LimbConstants& c, const View& out);
  /// out = a + the constant polynomial c[limb]: coefficient 0, or every position in the NTT domain.
  void add_constants(Queue&, const PreparedRing&, PrimeList primes, const View& a, const LimbConstants& c, math::Domain,
                     const View& out);

  // Transforms.
  void forward_ntt(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& out);
  void inverse_ntt(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& out);
  /// out[i] = +-a[source[i]] in every limb.
  void permute(Queue&, const PreparedRing&, PrimeList primes, const PreparedPermutation&, const View& a, const View& out);

  /// See math/conversion.h. Coefficient domain. Limbs of `x` are the conversion's `from`, of `own` and `out` its `to`;
  /// `own` is null exactly where the conversion has no own constants. `x` and `out` may have different words.
  /// `place[j]` is the limb of `out` (and of `own`) for the conversion's target j; null: limb j.
  void convert(Queue&, const PreparedConversion&, const View& x, const View* own, const View& out,
               const PrimeList* place = nullptr);

  /// Key switching's product, NTT domain: out_c = sum_j digits_j * key_(j * C + c), C = out.components, over
  /// digits.components digits. `key_limbs[l]` is the position in `key` of the call's limb l.
  void inner_product(Queue&, const PreparedRing&, PrimeList primes, const View& digits, const View& key, PrimeList key_limbs,
                     const View& out);
  /// Product of ciphertexts as polynomials in the secret, NTT domain: out_k = sum_(i+j=k) a_i * b_j.
  void tensor(Queue&, const PreparedRing&, PrimeList primes, const View& a, const View& b, const View& out);

  void product(Queue&, const PreparedRing&, PrimeList primes, const PreparedProduct&, const View& in, const View& out);

  void sample(Queue&, const PreparedRing&, PrimeList primes, const Draw&, const View& out);
  void copy(Queue&, const View& a, const View& out);
  /// Several copies as one call: each piece as `copy`. A piece's `from` may lie on another device that this one reaches.
  void gather(Queue&, std::span<const Piece> pieces);
  void zero(Queue&, const View& out);

  // Composites. The defaults compose the kernels above (device/composite.cpp); a backend may override them, bit-equal.
  /// Digits of one polynomial, raised to all of the plan's primes and transformed. `x` is in the coefficient domain.
  void decompose(Queue&, const KeySwitchPlan&, const View& x, const View& digits, Workspace);
  /// out (2 components, coefficient domain) = mod down of the inner product of `digits` with `key`, plus `add` (null, or
  /// 1 or 2 components).
  void apply_key(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add, const View& out,
                 Workspace);
  /// decompose and apply_key in one.
  void key_switch(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out, Workspace);
  /// Division of polynomials in the NTT domain; see DividePlan. `out` does not overlap x.
  void divide(Queue&, const DividePlan&, const View& x, const View& out, Workspace);
  /// apply_key in the NTT domain: out (2 components, limbs of plan.down.out) = division by plan.down of the inner product
  /// plus plan.weight times `add` (null, or 1 or 2 components over the chain). `turn`, where given, permutes the digits and
  /// `add` first (a rotation: an automorphism of the NTT domain, which negates nothing).
  void apply_key_ntt(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add, const View& out,
                     Workspace, const PreparedPermutation* turn = nullptr);
  /// The same of one polynomial in the NTT domain, decomposed first.
  void key_switch_ntt(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out,
                      Workspace, const PreparedPermutation* turn = nullptr);
  /// BFV product before relinearization (HPS): lift, tensor, scale by t/Q. `b` may be `a` itself: a square.
  void bfv_multiply(Queue&, const MultiplyPlan&, const View& a, const View& b, const View& out, Workspace);

  static std::size_t decompose_workspace(const KeySwitchPlan&, std::size_t items);
  static std::size_t apply_key_workspace(const KeySwitchPlan&, std::size_t items);
  static std::size_t key_switch_workspace(const KeySwitchPlan&, std::size_t items);
  static std::size_t divide_workspace(const DividePlan&, std::size_t items, std::size_t components);
  static std::size_t apply_key_ntt_workspace(const KeySwitchPlan&, std::size_t items, bool turns = false);
  static std::size_t key_switch_ntt_workspace(const KeySwitchPlan&, std::size_t items, bool turns = false);
  static std::size_t bfv_multiply_workspace(const MultiplyPlan&, std::size_t items, std::size_t a_components,
                                            std::size_t b_components);

  /// Whether composites find scratch of their own: they are then called with the whole batch and no workspace.
  virtual bool brings_scratch() const { return false; }
  /// How many items of a composite a call should hold, each with so many bytes of scratch: enough to fill the device, no
  /// more than its caches like.
  virtual std::size_t preferred_items(std::size_t bytes_an_item) const = 0;

 protected:
  virtual void do_add(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) = 0;
  virtual void do_sub(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) = 0;
  virtual void do_neg(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) = 0;
  virtual void do_mul(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out) = 0;
  virtual void do_mul_accumulate(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b,
                                 const View& out) = 0;
  virtual void do_mul_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&,
                                const View& out) = 0;
  virtual void do_add_constants(Queue&, const PreparedRing&, const PrimeList&, const View& a, const LimbConstants&,
                                math::Domain, const View& out) = 0;
  virtual void do_forward_ntt(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) = 0;
  virtual void do_inverse_ntt(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& out) = 0;
  virtual void do_permute(Queue&, const PreparedRing&, const PrimeList&, const PreparedPermutation&, const View& a,
                          const View& out) = 0;
  virtual void do_convert(Queue&, const PreparedConversion&, const View& x, const View* own, const View& out,
                          const PrimeList* place) = 0;
  virtual void do_inner_product(Queue&, const PreparedRing&, const PrimeList&, const View& digits, const View& key,
                                const PrimeList& key_limbs, const View& out) = 0;
  virtual void do_tensor(Queue&, const PreparedRing&, const PrimeList&, const View& a, const View& b, const View& out);
  virtual void do_product(Queue&, const PreparedRing&, const PrimeList&, const PreparedProduct&, const View& in,
                          const View& out) = 0;
  virtual void do_sample(Queue&, const PreparedRing&, const PrimeList&, const Draw&, const View& out) = 0;
  virtual void do_copy(Queue&, const View& a, const View& out) = 0;
  virtual void do_gather(Queue&, std::span<const Piece> pieces);
  virtual void do_zero(Queue&, const View& out) = 0;

  virtual void do_decompose(Queue&, const KeySwitchPlan&, const View& x, const View& digits, Workspace);
  virtual void do_apply_key(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add,
                            const View& out, Workspace);
  virtual void do_key_switch(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add, const View& out,
                             Workspace);
  virtual void do_divide(Queue&, const DividePlan&, const View& x, const View& out, Workspace);
  virtual void do_apply_key_ntt(Queue&, const KeySwitchPlan&, const View& digits, const View& key, const View* add,
                                const View& out, Workspace, const PreparedPermutation* turn);
  virtual void do_key_switch_ntt(Queue&, const KeySwitchPlan&, const View& x, const View& key, const View* add,
                                 const View& out, Workspace, const PreparedPermutation* turn);
  virtual void do_bfv_multiply(Queue&, const MultiplyPlan&, const View& a, const View& b, const View& out, Workspace);
};

}  // namespace heliograph::device
