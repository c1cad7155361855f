// Execution of a linked program on devices: tasks become calls on views of limbs.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/session.h"
#include "program/limbs/link.h"

namespace heliograph::program::limbs {

using device::Session;
using device::View;

/// The memory and calls for a batch with a fixed number of items. The bound views must exist, and nothing may write to
/// them, while the program runs.
class Machine {
 public:
  struct Ring {
    device::RingHandle ring;
    std::array<math::PrimeIndex, kPrimes> primes{};  // indexed by the instructions' index of a prime
    /// Returns the automorphism of this number of steps, or of Linked::kConjugation.
    std::function<device::PermutationHandle(std::int32_t, math::Domain)> turn;
  };
  struct Options {
    bool merged = true;  // merges equal tasks of a step into one call
    enum class Graph : unsigned char { none, stream, branches };
    Graph graph = Graph::branches;  // how a run is replayed as a graph, on devices with graphs
    bool hints = true;              // marks keys and plaintexts as read once
  };
  /// Inputs and bound views are in memory of `home`. `devices`: a session for each device of the program, then one of the
  /// host if it has slots. Throws OutOfMemoryError.
  Machine(std::shared_ptr<const Linked> program, const Session& home, std::vector<const Session*> devices, Ring ring,
          std::size_t items, Options options);
  ~Machine();

  /// Binds the pairs of a key, whose limbs are those of its level, then the special primes.
  void bind_key(u32 which, const View& pairs);
  /// Binds the limbs of a plaintext; `primes` are their primes.
  void bind_plaintext(u32 item, const View& limbs, std::span<const std::uint16_t> primes);
  /// Binds a plaintext that is stored as components of one limb each, from component `first` on.
  void bind_plaintext(u32 item, const View& all, std::size_t first, std::span<const std::uint16_t> primes);
  /// Binds a scalar. `residues` are in the order of the primes' indices.
  void bind_scalar(u32 item, std::span<const u64> residues);
  /// Runs the program and writes `results`. `given` has a view for each item that is a ciphertext. Views have one batch
  /// axis, with the machine's number of items.
  void run(const std::vector<View>& given, const std::vector<View>& results);
  /// Bytes on devices.
  std::size_t bytes() const;
  /// Memory for swapped values: bytes on the host, and bytes that a run moves to the host and back. The numbers are known
  /// after the first run.
  struct Spilled {
    std::size_t bytes = 0, out = 0, in = 0;
  };
  Spilled spilled() const;
  /// Returns the number of calls of a run by kernel, known after the first run.
  std::map<std::string, std::size_t> calls() const;
  device::Count work() const;

 private:
  struct Place {
    View whole;
    std::size_t component = 0, limb = 0;
    View view() const { return whole.with_components(component, 1).with_limbs(limb, 1); }
  };
  struct Step {
    u32 device = 0, number = 0;
    device::Call call;
    u32 from = kNone;  // another device, from which the call copies pieces
  };
  class Sums;

  View allocated(u32 device, std::size_t components, std::size_t limbs, std::size_t items) const;
  Place place(u32 value) const;
  View view(u32 value) const { return place(value).view(); }
  View view_of_group(u32 group) const;
  u32 device_of(const Task& task) const;
  /// Binds the limbs of an item or key to `whole`. `place_of` returns the component and limb in `whole` for a component
  /// and a prime.
  void bind(char kind, u32 which, const View& whole,
            const std::function<std::pair<std::size_t, std::size_t>(u32, std::uint16_t)>& place_of);
  void bring(const std::vector<View>& given);
  void hand_out(const std::vector<View>& results) const;
  void build();
  /// Makes one call of the first task and of the following tasks that merge with it; returns their number.
  std::size_t make(std::span<const Task> tasks);
  std::size_t make_sums(std::span<const Task> tasks);
  std::size_t make_transforms(std::span<const Task> tasks);
  std::size_t make_conversions(std::span<const Task> tasks);
  std::size_t make_moves(std::span<const Task> tasks);
  void add(u32 device, u32 step, device::Call call) { steps_.push_back({device, step, std::move(call), kNone}); }
  void bring_over(const Session& giver, const Session& taker, const device::Gather& pieces) const;
  bool reach_each_other() const;
  void perform(const Step& step) const;
  void all(bool branches) const;
  bool at_home(u32 device) const { return devices_[device] == &home_; }

  const std::shared_ptr<const Linked> program_;
  const Session& home_;
  const std::vector<const Session*> devices_;
  const Ring ring_;
  const std::size_t items_;
  const Options options_;
  std::vector<View> slots_;                // indexed by device: components of one limb
  std::vector<std::array<View, 2>> away_;  // indexed by device: sources that all items share; sources of each item
  std::vector<Place> sources_;             // location of each source
  std::vector<View> given_;                // copies of each item's ciphertext at home
  std::vector<std::array<device::PermutationHandle, 2>> turns_;  // indexed by domain
  std::vector<std::shared_ptr<const device::ConversionConstant>> conversions_;
  std::vector<u64> divisors_;  // inverses of the divisors modulo each prime
  std::vector<u64> scalars_;   // indexed by source
  mutable std::mutex mutex_;
  std::vector<Step> steps_;
  std::vector<device::Buffer> scratch_;  // indexed by device
  std::unique_ptr<device::Graph> graph_;
  bool built_ = false, warm_ = false, refused_ = false;
};

}  // namespace heliograph::program::limbs
