// A linked program on devices: each action is a call or two on views of single limbs.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/session.h"
#include "program/limbs/link.h"

namespace heliograph::program::limbs {

using device::Session;
using device::View;

/// Memory for one batch of so many items. What is bound must stay as long as it runs, and is not written meanwhile.
class Machine {
 public:
  struct Ring {
    device::RingHandle ring;
    std::array<math::PrimeIndex, kPrimes> primes{};  // of each index
    /// An automorphism: of so many steps, or Linked::kConjugation.
    std::function<device::PermutationHandle(std::int32_t, math::Domain)> turn;
  };
  /// All that is given lies with `home`. `devices`: a session for each device of the program. Throws OutOfMemoryError.
  Machine(std::shared_ptr<const Linked> program, const Session& home, std::vector<const Session*> devices, Ring ring,
          std::size_t items);
  ~Machine();

  /// A key's pairs: its level's limbs, then the special primes.
  void bind_key(u32 which, const View& pairs);
  /// A plaintext's limbs, of these primes.
  void bind_plaintext(u32 item, const View& limbs, std::span<const std::uint16_t> primes);
  /// `residues`: by the primes' indices.
  void bind_scalar(u32 item, std::span<const u64> residues);
  /// `given`: of each item that is a ciphertext; `results` are written. One batch axis of the machine's items.
  void run(const std::vector<View>& given, const std::vector<View>& results);
  /// Memory that it keeps.
  std::size_t bytes() const;
  /// Kernel calls of a run.
  std::size_t calls() const;

 private:
  View allocated(u32 device, std::size_t components, std::size_t limbs, std::size_t items) const;
  View view(u32 value, std::size_t limbs = 1) const;
  void bind(char kind, u32 which, const View& whole, std::span<const std::uint16_t> primes);
  void bring(const std::vector<View>& given);
  void hand_out(const std::vector<View>& results) const;
  /// Actions of one kind from the first on, whose operands are rows of limbs.
  struct Row {
    device::PrimeList primes;
    View a, b, to;
  };
  Row row(std::span<const Action> actions) const;
  bool is_scalar(u32 value) const {
    const Value& v = program_->values[value];
    return v.kind == Value::Kind::source && program_->sources[v.at].kind == 's';
  }
  /// Those of the first one's row, and returns how many these are.
  std::size_t perform(std::span<const Action> actions) const;
  void move(const Action& action) const;
  void all() const;
  bool at_home(u32 device) const { return devices_[device] == &home_; }
  const device::PrimeList& prime(u32 value) const { return lists_[program_->values[value].prime]; }

  const std::shared_ptr<const Linked> program_;
  const Session& home_;
  const std::vector<const Session*> devices_;
  const Ring ring_;
  const std::size_t items_;
  std::array<device::PrimeList, kPrimes> lists_;
  std::vector<View> slots_;  // of each device: components of one limb
  std::vector<View> buffers_;
  std::vector<View> sources_;                                    // as they are read
  std::vector<View> given_;                                      // copies of ciphertexts at home, of each item
  std::vector<std::array<device::PermutationHandle, 2>> turns_;  // by domain
  std::vector<std::shared_ptr<const device::ConversionConstant>> conversions_;
  std::vector<u64> divisors_;                                             // inverted
  std::vector<std::array<std::optional<device::Constants>, 2>> scalars_;  // of each source: itself and its negative
  std::mutex mutex_;
  std::unique_ptr<device::Graph> graph_;
  bool warm_ = false, refused_ = false;
};

}  // namespace heliograph::program::limbs
