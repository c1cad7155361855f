// Recorded programs: calls on places, which are bound to memory at each replay.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/session.h"
#include "io/sha256.h"

namespace heliograph::program {

using device::Buffer;
using device::Call;
using device::Memory;
using device::PrimeList;
using device::Secrecy;
using device::Session;
using device::View;
using math::u32;
using math::u64;

struct Place;

/// Keys of one owner. A program keeps none: it asks for them at each replay, so that they may leave the device in between,
/// and another owner's serve as well.
class KeySource {
 public:
  virtual ~KeySource() = default;
  /// Which of its keys lies in that memory now.
  virtual std::optional<u64> find(const Memory& memory) const = 0;
  /// The memory of a key, brought back where it had left. Throws MissingKeyError, OutOfMemoryError.
  virtual Buffer at(u64 which) const = 0;
  /// Words of a limb, and the modulus of each limb of a key.
  struct KeyForm {
    std::size_t n = 0;
    std::vector<u64> moduli;
  };
  virtual KeyForm form(u64 which) const = 0;
  /// The memory of a place's key, which is as the program takes it to be. Throws MismatchError besides.
  Buffer at(const Place& place) const;
  /// Whether a call uses prepared keys of this source, which it then holds no longer.
  virtual bool take_out(Call& /*call*/) const { return false; }
  /// Gives such a call the prepared keys of this source.
  virtual void put_in(Call& /*call*/) const {}
};

/// Where operands lie.
struct Place {
  enum class Kind : unsigned char { input, key, constant, made };
  Kind kind = Kind::made;
  u32 number = 0;                // input: which view; key: which source
  u64 which = 0;                 // key: which of its keys
  Buffer memory;                 // constant
  std::weak_ptr<Memory> origin;  // constant: its memory, whether or not it is needed
  View shape;                    // made: what is allocated; input: what is shown
  bool alone = true;             // input: no other input shows the same memory
  bool used = false;             // by a step
  // Of a program from a file, what a key given for the place must have:
  std::size_t reach = 0;   // bytes
  std::vector<u64> below;  // limbs of moduli that are no larger, or any where this is 0
  PrimeList primes;
  Secrecy secrecy = Secrecy::open;
  bool result = false;  // made, and shown by a result
};

inline Buffer KeySource::at(const Place& place) const {
  Buffer memory = at(place.which);
  if (place.below.empty()) return memory;
  const KeyForm has = form(place.which);
  bool fits = memory->bytes() >= place.reach && has.n == place.shape.n && has.moduli.size() == place.below.size();
  for (std::size_t l = 0; fits && l < has.moduli.size(); ++l) fits = place.below[l] == 0 || has.moduli[l] <= place.below[l];
  require<MismatchError>(fits, "a key's limbs differ from those that the program reads");
  return memory;
}

/// A call on places: each view's `data` counts from the first byte of its place.
struct Step {
  static constexpr u32 kNoSource = ~u32{0};
  const Session* session = nullptr;
  Call call;
  std::vector<u32> places;  // of each view of the call
  u32 source = kNoSource;   // where its prepared keys come from
  device::Count work;
  u64 bytes = 0;  // of its operands
};

class Graphs;
class Placed;

/// A view of a place.
struct Shown {
  u32 place = 0;
  View view;  // `data` counts from the first byte of the place
};

/// The address of what a view of a place shows, where the place begins at `base`.
inline std::byte* behind(std::byte* base, const std::byte* offset) {
  return base + reinterpret_cast<std::ptrdiff_t>(offset);
}

/// How a constant was made while recording: by a call, or by the host. Kept to tell whether another recording's is the same.
struct Making {
  std::optional<Step> step;
  std::optional<Shown> written;
  std::optional<io::Digest> digest;  // of what the host wrote; none: not to be told

  /// Calls `f` with each place that it writes.
  template <class F>
  void each_written(F f) const {
    if (written) f(written->place);
    std::size_t k = 0;
    if (!step) return;
    device::each_view(step->call, [&](const View&, device::Access access) {
      const u32 p = step->places[k++];
      if (access != device::Access::read) f(p);
    });
  }
};

class Program {
 public:
  struct Parts {
    std::vector<Place> places;
    std::vector<Step> steps;
    std::vector<Shown> results;
    std::vector<Making> makings;  // of the constants
    std::size_t beside = 1;       // members for which the host makes calls concurrently, counting this program's member
  };
  explicit Program(Parts parts);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Performs the calls on other inputs, whose views have the shapes and strides of the recorded ones and overlap alike.
  /// Returns the results, in memory of their own. Safe from several threads.
  std::vector<View> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;

  const Parts& parts() const { return parts_; }
  const std::vector<Step>& steps() const { return parts_.steps; }
  const std::vector<Place>& places() const { return parts_.places; }
  /// Steps that must come one after another.
  std::size_t depth() const { return depth_; }
  /// Bytes of the memory that a replay makes at most at a time, results included, and of the program's constants.
  std::size_t peak_bytes() const { return peak_bytes_; }
  std::size_t constant_bytes() const { return constant_bytes_; }
  /// What its calls read, write and multiply.
  device::Count work() const;
  /// Seconds of a replay; 0 where nothing is known. Measures the device's rates when first asked for.
  struct Times {
    double floor = 0;      // no less: what it takes and gives, once, and its products
    double predicted = 0;  // its calls one by one, each bound by its operands' bytes or by its products
  };
  Times times() const;
  /// Of a device of several: what each member does by prediction, for the operands' places of the last replay; all members together
  /// are one more. Empty elsewhere, and for TFHE before the first replay, whose keys decide.
  struct Event {
    std::string name;  // of a call; "fetch" of what lies on another member
    double start = 0, end = 0;
  };
  struct Lane {
    std::string member;
    std::vector<Event> events;
  };
  struct Timeline {
    std::vector<Lane> lanes;
    double seconds = 0;
  };
  Timeline timeline() const;
  /// Launches of a replay as a graph: alike calls that do not depend on each other are one. 0: there are none.
  std::size_t launches() const;
  /// Bytes that its graphs would give up.
  std::size_t graph_bytes() const;
  /// What the last replay took a simulated device, for a person; empty elsewhere.
  std::string cycles() const;
  /// Replays so far, and those that a device replayed as one graph.
  struct Replays {
    u64 all = 0, graphs = 0;
  };
  Replays replays() const;

 private:
  std::vector<View> perform(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;
  std::vector<View> perform_steps(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;
  void plan();
  /// The members of its device; null where there are none, or where its calls are of several sessions.
  device::Members* members() const;
  /// Where its calls run when its inputs lie so: on which executor each place does. Null for TFHE without keys.
  std::shared_ptr<Placed> placed(const std::vector<std::size_t>& lies, const std::vector<const KeySource*>* keys) const;

  Parts parts_;
  std::vector<std::vector<u32>> born_, dies_;  // places of each step
  std::size_t depth_ = 0, peak_bytes_ = 0, constant_bytes_ = 0;
  mutable std::atomic<u64> replays_{0}, member_graphs_{0};
  mutable std::mutex mutex_;
  mutable std::string cycles_;  // with the mutex held
  std::shared_ptr<Graphs> graphs_;
  /// With the mutex held: by where inputs lie, the last one first.
  mutable std::list<std::pair<std::vector<std::size_t>, std::shared_ptr<Placed>>> placed_;
};

}  // namespace heliograph::program
