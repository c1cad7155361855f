// What an operation case is declared with: operands of any layout and fill on one device, the same on every device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/chunks.h"
#include "device/expand.h"
#include "device/kernels.h"

namespace heliograph::test {

using device::Kernels;
using device::PrimeList;
using device::View;
using math::u32;
using math::u64;
using math::Word;

/// A word and the lengths of its ring's primes, taken in turn.
struct Field {
  const char* name;
  Word word;
  std::vector<int> bits;
};
extern const Field kField32;       // 30 bits
extern const Field kField32Mixed;  // 30 and 29 bits
extern const Field kField32Small;  // 20 and 24 bits
extern const Field kField50;       // below 2^50 in 64-bit words
extern const Field kField60;       // 60, 57 and 55 bits
const std::vector<const Field*>& main_fields();

/// The ring of degree n with `count` primes of a field; made once a process.
std::shared_ptr<const math::Ring> ring_of(const Field& field, std::size_t n, std::size_t count);

/// Rows of n residues modulo the same number of primes of a field; made once a process.
std::shared_ptr<const math::Ring> rows_of(const Field& field, std::size_t n, std::size_t count);

enum class Layout {
  packed,
  sliced,          // every second item, inner components and limbs of a larger tensor
  transposed,      // batch axes in the other order
  reversed,        // back to front along each batch axis
  broadcast,       // one item for the whole batch
  broadcast_last,  // one item along the last axis
};
enum class Fill {
  random,  // with 0, 1, q-1 and q-2 among them
  edges,   // 0 and q-1 only
  top,     // q-1 only
};
struct Shape {
  std::vector<std::size_t> batch;
  std::size_t components = 1;
  Layout layout = Layout::packed;
};

/// A device and what was prepared on it.
struct Target {
  std::string name;
  std::unique_ptr<device::Device> device;
  std::map<const math::Ring*, std::shared_ptr<const device::RingConstant>> rings;
};

/// Operands of one run of a case.
class Rig {
 public:
  explicit Rig(Target& target) : target_(target), queue_(target.device->make_queue()) {}

  Kernels& kernels() { return target_.device->kernels(); }
  device::Queue& queue() { return *queue_; }
  std::shared_ptr<const device::RingConstant> prepare(const std::shared_ptr<const math::Ring>& ring);

  /// An operand with residues of the given moduli in its limbs.
  View input(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill = Fill::random);
  View input(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill = Fill::random);
  /// An operand full of garbage, compared after the run with all that lies around it.
  View output(Word word, std::size_t n, std::size_t limbs, const Shape& shape);
  View output(const math::Ring& ring, const PrimeList& primes, const Shape& shape);
  /// An input that the call changes.
  View in_out(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill = Fill::random);
  View in_out(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill = Fill::random);
  device::Workspace workspace(std::size_t bytes);
  /// The call with as much scratch as it wants.
  device::Call with_scratch(device::Call call);

  /// Deterministic 64 bits, different each time.
  u64 random();
  /// What the outputs hold, once all work is done.
  std::vector<std::vector<std::byte>> results();

 private:
  View place(View host, const View& whole, std::vector<std::byte>& bytes, bool compared);
  View filled(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill, bool compared);

  Target& target_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::Buffer> inputs_, outputs_;
  u64 state_ = 1;
};

/// Makes calls of kernels that have these operands.
using Unary = device::Call (*)(const device::RingHandle&, const PrimeList&, const View& a, const View& out);
using Binary = device::Call (*)(const device::RingHandle&, const PrimeList&, const View& a, const View& b, const View& out);
template <class Kernel>
device::Call call_of(const device::RingHandle& ring, const PrimeList& primes, const View& a, const View& out) {
  return Kernel{ring, primes, a, out};
}
template <class Kernel>
device::Call call_of(const device::RingHandle& ring, const PrimeList& primes, const View& a, const View& b,
                     const View& out) {
  return Kernel{ring, primes, a, b, out};
}

/// X -> X^g of values in the NTT's order, or of coefficients.
device::Permutation automorphism(std::size_t n, u64 g, math::Domain domain);

/// A plan as calls hold it.
template <class Plan>
std::shared_ptr<const Plan> held(const Plan& plan) {
  return std::make_shared<const Plan>(plan);
}

/// The coefficients [first, first + count) of all that a view holds.
View coefficients(View v, std::size_t first, std::size_t count);

/// The moduli of a list of a ring's primes.
std::vector<u64> moduli(const math::Ring& ring, const PrimeList& primes);

}  // namespace heliograph::test
