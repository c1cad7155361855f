// Operands of the cases: any layout and values on one device, with the same values on every device.
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

/// A word size and the bit lengths of the ring's primes. Prime i has the length at index i modulo the number of lengths.
struct Field {
  const char* name;
  Word word;
  std::vector<int> bits;
};
extern const Field kField32;       // primes of 30 bits
extern const Field kField32Mixed;  // primes of 30 and 29 bits
extern const Field kField32Small;  // primes of 20 and 24 bits
extern const Field kField50;       // primes below 2^50 in 64-bit words
extern const Field kField60;       // primes of 60, 57 and 55 bits
const std::vector<const Field*>& main_fields();

/// Returns the ring of degree n with `count` primes of a field; cached.
std::shared_ptr<const math::Ring> ring_of(const Field& field, std::size_t n, std::size_t count);

/// Returns rows of n residues modulo `count` primes of a field; cached.
std::shared_ptr<const math::Ring> rows_of(const Field& field, std::size_t n, std::size_t count);

enum class Layout {
  packed,
  sliced,          // every second item, inner component and limb of a larger tensor
  transposed,      // batch axes in reverse order
  reversed,        // reversed along each batch axis
  broadcast,       // one item for the whole batch (strides 0)
  broadcast_last,  // the same item along the whole last axis
};
enum class Fill {
  random,  // random, including 0, 1, q-1 and q-2
  edges,   // only the values 0 and q-1
  top,     // only the value q-1
};
struct Shape {
  std::vector<std::size_t> batch;
  std::size_t components = 1;
  Layout layout = Layout::packed;
};

/// A device and the constants prepared on it.
struct Target {
  std::string name;
  std::unique_ptr<device::Device> device;
  std::map<const math::Ring*, std::shared_ptr<const device::RingConstant>> rings;
};

/// The operands of one run of a case.
class Rig {
 public:
  explicit Rig(Target& target) : target_(target), queue_(target.device->make_queue()) {}

  Kernels& kernels() { return target_.device->kernels(); }
  device::Queue& queue() { return *queue_; }
  std::shared_ptr<const device::RingConstant> prepare(const std::shared_ptr<const math::Ring>& ring);

  /// Makes an operand whose limbs have residues modulo these moduli.
  View input(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill = Fill::random);
  View input(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill = Fill::random);
  /// Makes an output filled with garbage. After the run, the comparison includes the output and the bytes around it.
  View output(Word word, std::size_t n, std::size_t limbs, const Shape& shape);
  View output(const math::Ring& ring, const PrimeList& primes, const Shape& shape);
  /// Makes an operand that the call reads and changes.
  View in_out(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill = Fill::random);
  View in_out(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill = Fill::random);
  device::Workspace workspace(std::size_t bytes);
  /// Returns the call together with the scratch memory that it needs.
  device::Call with_scratch(device::Call call);

  /// Returns the next 64 deterministic pseudorandom bits.
  u64 random();
  /// Waits for all work and returns the contents of the outputs.
  std::vector<std::vector<std::byte>> results();

 private:
  View place(View host, const View& whole, std::vector<std::byte>& bytes, bool compared);
  View filled(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill, bool compared);

  Target& target_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::Buffer> inputs_, outputs_;
  u64 state_ = 1;
};

/// The functions below make calls of kernels with these operands.
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

/// Returns X -> X^g for values in NTT order, or for coefficients.
device::Permutation automorphism(std::size_t n, u64 g, math::Domain domain);

/// Returns a plan in the form in which calls hold it.
template <class Plan>
std::shared_ptr<const Plan> held(const Plan& plan) {
  return std::make_shared<const Plan>(plan);
}

/// Returns the view of coefficients [first, first + count).
View coefficients(View v, std::size_t first, std::size_t count);

/// Returns the moduli of a list of primes.
std::vector<u64> moduli(const math::Ring& ring, const PrimeList& primes);

}  // namespace heliograph::test
