// A linked program on devices: its tasks as calls on views of limbs.
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

/// Memory for one batch of so many items. What is bound must stay as long as it runs, and is not written meanwhile.
class Machine {
 public:
  struct Ring {
    device::RingHandle ring;
    std::array<math::PrimeIndex, kPrimes> primes{};  // of each index
    /// An automorphism: of so many steps, or Linked::kConjugation.
    std::function<device::PermutationHandle(std::int32_t, math::Domain)> turn;
  };
  struct Options {
    bool merged = true;  // alike tasks of a step are one call
    enum class Graph : unsigned char { none, stream, branches };
    Graph graph = Graph::branches;  // of a replay, where a device has such
    bool hints = true;              // keys and plaintexts are said to be read once
  };
  /// All that is given lies with `home`. `devices`: a session for each device of the program, then one of the host where it has
  /// slots. Throws OutOfMemoryError.
  Machine(std::shared_ptr<const Linked> program, const Session& home, std::vector<const Session*> devices, Ring ring,
          std::size_t items, Options options);
  ~Machine();

  /// A key's pairs: its level's limbs, then the special primes.
  void bind_key(u32 which, const View& pairs);
  /// A plaintext's limbs, of these primes.
  void bind_plaintext(u32 item, const View& limbs, std::span<const std::uint16_t> primes);
  /// One among others, as components of one limb from `first` on.
  void bind_plaintext(u32 item, const View& all, std::size_t first, std::span<const std::uint16_t> primes);
  /// `residues`: by the primes' indices.
  void bind_scalar(u32 item, std::span<const u64> residues);
  /// `given`: of each item that is a ciphertext; `results` are written. One batch axis of the machine's items.
  void run(const std::vector<View>& given, const std::vector<View>& results);
  /// Memory that it keeps on devices.
  std::size_t bytes() const;
  /// What devices have no room for: bytes of the host, and what a run moves there and back; known after the first.
  struct Spilled {
    std::size_t bytes = 0, out = 0, in = 0;
  };
  Spilled spilled() const;
  /// Calls of a run, by kernel; known after the first.
  std::map<std::string, std::size_t> calls() const;
  /// What they read, write and multiply.
  device::Count work() const;

 private:
  /// A limb of an operand.
  struct Place {
    View whole;
    std::size_t component = 0, limb = 0;
    View view() const { return whole.with_components(component, 1).with_limbs(limb, 1); }
  };
  struct Step {
    u32 device = 0, number = 0;
    device::Call call;
    u32 from = kNone;  // another device: the call is of pieces that lie there
  };
  class Sums;

  View allocated(u32 device, std::size_t components, std::size_t limbs, std::size_t items) const;
  Place place(u32 value) const;
  View view(u32 value) const { return place(value).view(); }
  View view_of_group(u32 group) const;
  u32 device_of(const Task& task) const;
  /// `place_of`: where in `whole` a component's limb of a prime lies.
  void bind(char kind, u32 which, const View& whole,
            const std::function<std::pair<std::size_t, std::size_t>(u32, std::uint16_t)>& place_of);
  void bring(const std::vector<View>& given);
  void hand_out(const std::vector<View>& results) const;
  void build();
  /// The first of these tasks, and those after it that are one call with it; returns how many.
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
  std::vector<View> slots_;                // of each device: components of one limb
  std::vector<std::array<View, 2>> away_;  // of each device: sources that are one for all items; of each item
  std::vector<Place> sources_;             // as they are read
  std::vector<View> given_;                // copies of ciphertexts at home, of each item
  std::vector<std::array<device::PermutationHandle, 2>> turns_;  // by domain
  std::vector<std::shared_ptr<const device::ConversionConstant>> conversions_;
  std::vector<u64> divisors_;  // inverted
  std::vector<u64> scalars_;   // of each source
  mutable std::mutex mutex_;
  std::vector<Step> steps_;
  std::vector<device::Buffer> scratch_;  // of each device
  std::unique_ptr<device::Graph> graph_;
  bool built_ = false, warm_ = false, refused_ = false;
};

}  // namespace heliograph::program::limbs
