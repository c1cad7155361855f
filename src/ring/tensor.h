// RnsTensor: [batch..., component, limb, N] residues, and operations on whole tensors. A tensor is a value that may share
// storage with others; operations do not write to their arguments.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/secret.h"
#include "device/tensor.h"
#include "ring/engine.h"

namespace heliograph::ring {

using device::broadcast_shapes;
using device::element_count;
using device::Secrecy;
using device::Shape;
using device::to_string;

class RnsTensor : public device::TensorOf<RnsTensor> {
 public:
  RnsTensor() = default;
  /// Allocates an uninitialized tensor on the engine's device. Results of operations on a secret tensor are secret
  /// (Secrecy::passing). `words`: words per limb, less than N if each word serves a run of equal values. Only calls that
  /// accept runs (device/call.h) accept a tensor of runs; the operations below do not. Throws ShapeError if the tensor
  /// exceeds device::kMaxViewBytes, and OutOfMemoryError.
  RnsTensor(std::shared_ptr<Engine> engine, const Shape& shape, std::size_t components, PrimeList primes, Domain domain,
            Secrecy secrecy = Secrecy::open, std::size_t words = 0);

  bool empty() const { return engine_ == nullptr; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  std::size_t components() const { return view_.components; }
  const PrimeList& primes() const { return primes_; }
  Domain domain() const { return domain_; }
  bool secret() const { return secret_; }
  /// Returns whether another tensor or buffer refers to the same storage.
  bool shared() const { return view_.memory.use_count() > 1; }
  RnsTensor with_limbs(std::size_t first, std::size_t count) const;

 private:
  std::shared_ptr<Engine> engine_;
  PrimeList primes_;
  Domain domain_ = Domain::coefficient;
  bool secret_ = false;
};

/// Storage for several results with the shape, components, primes and domain of `like`. The results of one item are
/// adjacent, so that an item's results are on the member of a mesh that has the item.
class Stack {
 public:
  /// `axis`: the whole tensor has a first axis for the results; if false, there is one result.
  Stack(const RnsTensor& like, std::size_t count, bool axis);
  const std::vector<RnsTensor>& entries() const { return entries_; }
  const RnsTensor& whole() const { return whole_; }

 private:
  RnsTensor whole_;
  std::vector<RnsTensor> entries_;
};

// Element-wise operations with broadcasting. Operands must have the same primes and domain (MismatchError). A component that
// only one operand has counts as zero in the other. `over`: writes the result into a's memory if it fits; a must have no
// other owner.
RnsTensor add(const RnsTensor& a, const RnsTensor& b, bool over = false);
RnsTensor subtract(const RnsTensor& a, const RnsTensor& b, bool over = false);
RnsTensor negate(const RnsTensor& a);
/// Term of a weighted sum: limb l of x is multiplied by weight[l].
struct WeightedTerm {
  RnsTensor x;
  device::LimbConstants weight;
};
/// Returns the sum of the terms plus `constant` in component 0 (only in the NTT domain). `over`: writes the result into the
/// first term's memory if it fits.
RnsTensor weighted_sum(const std::vector<WeightedTerm>& terms, const std::optional<device::LimbConstants>& constant,
                       bool over = false);
RnsTensor to_domain(const RnsTensor& a, Domain domain);
RnsTensor concatenate(const std::vector<RnsTensor>& parts, std::size_t axis);
RnsTensor copy(const RnsTensor& a);
/// Returns the limbs of the primes in `primes`, in order: a view if the limbs are adjacent, else a copy. Throws
/// InternalError if a prime is missing.
RnsTensor limbs_of(const RnsTensor& a, const PrimeList& primes);
/// Multiplies every component of `a` by `b`, which has one component, in the NTT domain.
RnsTensor multiply_polynomial(const RnsTensor& a, const RnsTensor& b);
/// Adds `constants` to coefficient 0 of component 0 of items [first, first + count), in place. The tensor must be dense and
/// have no other owner.
void add_constant_in_place(const RnsTensor& a, std::size_t first, std::size_t count, const device::LimbConstants& constants);
RnsTensor automorphism(const RnsTensor& a, u64 galois);
/// Reserves memory for the indices of a product of known sizes. Throws ShapeError if there are more inputs than an
/// index can count: broadcast inputs share memory, so the memory does not limit their number. Throws OutOfMemoryError.
void reserve_index(Engine& engine, device::GatheredProduct& product);
/// Returns the product of a matrix [rows, columns] with the first axis of tensors of this shape. Throws ShapeError and
/// OutOfMemoryError.
device::GatheredProduct matrix_product(Engine& engine, std::vector<math::i64> weights, std::size_t rows, std::size_t columns,
                                       const Shape& shape);
/// Applies a modular matrix product; `shape` is the shape of the result.
RnsTensor gathered_product(const RnsTensor& a, const std::shared_ptr<const device::ProductConstant>& product,
                           const Shape& shape);
/// Converts between RNS bases in the coefficient domain; see math/conversion.h.
RnsTensor convert(const RnsTensor& a, const RnsTensor* own, const std::shared_ptr<const device::ConversionConstant>& c,
                  std::shared_ptr<Engine> target, PrimeList primes);
/// Broadcasts an array of values, in row-major order, to the items of `wide`. Throws OutOfMemoryError if memory is too small
/// for a result with that many items.
template <class T>
std::vector<T> broadcast_values(const std::vector<T>& values, const Shape& values_shape, const RnsTensor& wide) {
  require<ShapeError>(values.size() == element_count(values_shape),
                      "the number of values must be the product of their shape");
  const Shape shape = wide.shape();
  wide.engine()->require_host_memory(wide.bytes(), "the result");
  auto out = wide.engine()->template host_array<T>(wide.items(), "the result");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t rest = i, from = 0, step = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const std::size_t at = rest % shape[axis], added = shape.size() - values_shape.size();
      rest /= shape[axis];
      if (axis < added) continue;
      if (values_shape[axis - added] != 1) from += at * step;
      step *= values_shape[axis - added];
    }
    out[i] = values[from];
  }
  return out;
}
/// Returns the residues in the order of item, component and limb. Waits for the device.
std::vector<std::byte> download(const RnsTensor& a);
SecretVector<std::byte> download_secret(const RnsTensor& a);
void upload(const RnsTensor& to, std::span<const std::byte> from);

}  // namespace heliograph::ring
