// RnsTensor: [batch..., component, limb, N] residues, and operations on whole tensors. Tensors are values that share
// storage; nothing here writes to an argument.
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
  /// Uninitialised storage on the engine's device. What the operations below make of a secret tensor is secret (passing). Throws
  /// ShapeError as View::dense, OutOfMemoryError. `words`: of a limb, where it is not N but a word for each run of equal values:
  /// for calls that take such runs (device/call.h), none of the operations below.
  RnsTensor(std::shared_ptr<Engine> engine, const Shape& shape, std::size_t components, PrimeList primes, Domain domain,
            Secrecy secrecy = Secrecy::open, std::size_t words = 0);

  bool empty() const { return engine_ == nullptr; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  std::size_t components() const { return view_.components; }
  const PrimeList& primes() const { return primes_; }
  Domain domain() const { return domain_; }
  bool secret() const { return secret_; }
  /// Whether another tensor shows the same storage.
  bool shared() const { return view_.memory.use_count() > 1; }
  /// A view of some of its limbs.
  RnsTensor with_limbs(std::size_t first, std::size_t count) const;

 private:
  std::shared_ptr<Engine> engine_;
  PrimeList primes_;
  Domain domain_ = Domain::coefficient;
  bool secret_ = false;
};

/// Room for several results of `like`'s shape, components, primes and domain, to be written one by one. Side by side in
/// memory lie the results of one item, so that a batch spread over devices keeps its items where they are.
class Stack {
 public:
  /// `axis`: the whole has a first axis for the results; without it there is one result.
  Stack(const RnsTensor& like, std::size_t count, bool axis);
  const std::vector<RnsTensor>& entries() const { return entries_; }
  const RnsTensor& whole() const { return whole_; }

 private:
  RnsTensor whole_;
  std::vector<RnsTensor> entries_;
};

// Element-wise with broadcasting; operands share primes and domain (MismatchError otherwise). Where one operand has more
// components, add and sub take the missing ones as zero. `over`: into a's memory, where the result fits it (for tensors that nobody
// else sees).
RnsTensor add(const RnsTensor& a, const RnsTensor& b, bool over = false);
RnsTensor subtract(const RnsTensor& a, const RnsTensor& b, bool over = false);
RnsTensor negate(const RnsTensor& a);
/// What a sum takes of a tensor: each limb times a weight.
struct WeightedTerm {
  RnsTensor x;
  device::LimbConstants weight;
};
/// The sum of the terms and, in the NTT domain, of a constant polynomial in component 0. `over`: into the first term's memory.
RnsTensor weighted_sum(const std::vector<WeightedTerm>& terms, const std::optional<device::LimbConstants>& constant,
                       bool over = false);
RnsTensor to_domain(const RnsTensor& a, Domain domain);
RnsTensor concatenate(const std::vector<RnsTensor>& parts, std::size_t axis);
RnsTensor copy(const RnsTensor& a);
/// The limbs of some of its primes, in their order: a view where they lie side by side, else a copy. InternalError where one
/// is not there.
RnsTensor limbs_of(const RnsTensor& a, const PrimeList& primes);
/// In NTT domain: every component of `a` times the one component of `b`.
RnsTensor multiply_polynomial(const RnsTensor& a, const RnsTensor& b);
/// Adds `constants` to coefficient 0 of component 0 of items first .. first + count - 1, in place (for dense tensors nobody
/// else has seen).
void add_constant_in_place(const RnsTensor& a, std::size_t first, std::size_t count, const device::LimbConstants& constants);
RnsTensor automorphism(const RnsTensor& a, u64 galois);
/// Room for the indices of a product whose sizes are there. Throws ShapeError for more inputs than an index counts (a broadcast
/// tensor costs nothing, its indices do), OutOfMemoryError.
void reserve_index(Engine& engine, device::GatheredProduct& product);
/// A matrix [rows, columns] times the first axis of tensors of that shape. ShapeError, OutOfMemoryError.
device::GatheredProduct matrix_product(Engine& engine, std::vector<math::i64> weights, std::size_t rows, std::size_t columns,
                                       const Shape& shape);
/// One modular matrix product; `shape` is the result's.
RnsTensor gathered_product(const RnsTensor& a, const std::shared_ptr<const device::ProductConstant>& product,
                           const Shape& shape, const Progress&);
/// Coefficient domain; see math/conversion.h.
RnsTensor convert(const RnsTensor& a, const RnsTensor* own, const std::shared_ptr<const device::ConversionConstant>& c,
                  std::shared_ptr<Engine> target, PrimeList primes);
/// The value of each item of `wide`, an array of values in row-major order broadcast to it. Throws OutOfMemoryError where there
/// is no room for a result of so many items.
template <class T>
std::vector<T> broadcast_values(const std::vector<T>& values, const Shape& values_shape, const RnsTensor& wide) {
  require<ShapeError>(values.size() == element_count(values_shape), "values and shape do not agree");
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
/// The residues, item by item, component by component, limb by limb. Waits.
std::vector<std::byte> download(const RnsTensor& a);
SecretVector<std::byte> download_secret(const RnsTensor& a);
void upload(const RnsTensor& to, std::span<const std::byte> from);

}  // namespace heliograph::ring
