// Recorded programs: calls on places. Each replay binds the places to memory.
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

/// Evaluation keys of one owner. A program holds no keys. The program requests keys at each replay. So keys can be evicted
/// between replays, and replays can use another owner's keys.
class KeySource {
 public:
  virtual ~KeySource() = default;
  /// Returns the number of the key that is in this memory; nullopt if there is none.
  virtual std::optional<u64> find(const Memory& memory) const = 0;
  /// Returns a key's memory, reloaded if evicted. Throws MissingKeyError, OutOfMemoryError.
  virtual Buffer at(u64 which) const = 0;
  /// Form of a key: words of a limb, and the modulus of each limb.
  struct KeyForm {
    std::size_t n = 0;
    std::vector<u64> moduli;
  };
  virtual KeyForm form(u64 which) const = 0;
  /// Returns the memory of a place's key after it has checked the key's form. Also throws MismatchError.
  Buffer at(const Place& place) const;
  /// Removes this source's prepared keys from a call. Returns whether the call had any.
  virtual bool take_out(Call& /*call*/) const { return false; }
  /// Sets this source's prepared keys in a call from which they were removed.
  virtual void put_in(Call& /*call*/) const {}
};

/// Memory to which calls refer: each replay binds a place to an address.
struct Place {
  enum class Kind : unsigned char { input, key, constant, made };
  Kind kind = Kind::made;
  u32 number = 0;                // for an input: index of the view; for a key: index of the source
  u64 which = 0;                 // for a key: number of the key in its source
  Buffer memory;                 // memory of a constant
  std::weak_ptr<Memory> origin;  // for a constant: its memory, even if no step needs it
  View shape;                    // for a made place: shape of the allocation; for an input: shape of the view
  bool alone = true;             // for an input: whether no other input shares its memory
  bool used = false;             // whether any step uses the place
  // Requirements on the key of a place, in programs from files:
  std::size_t reach = 0;   // least number of bytes of the key
  std::vector<u64> below;  // largest modulus of each limb; 0: no limit
  PrimeList primes;
  Secrecy secrecy = Secrecy::open;
  bool result = false;  // whether the place is of kind `made` and part of a result
};

inline Buffer KeySource::at(const Place& place) const {
  Buffer memory = at(place.which);
  if (place.below.empty()) return memory;
  const KeyForm has = form(place.which);
  bool fits = memory->bytes() >= place.reach && has.n == place.shape.n && has.moduli.size() == place.below.size();
  for (std::size_t l = 0; fits && l < has.moduli.size(); ++l) fits = place.below[l] == 0 || has.moduli[l] <= place.below[l];
  require<MismatchError>(fits, "cannot use this key: the moduli of its limbs differ from those that the program reads");
  return memory;
}

/// A call on places. The `data` of each view is an offset from the first byte of the view's place.
struct Step {
  static constexpr u32 kNoSource = ~u32{0};
  const Session* session = nullptr;
  Call call;
  std::vector<u32> places;  // place of each view of the call
  u32 source = kNoSource;   // key source of the call's prepared keys
  device::Count work;
  u64 bytes = 0;  // bytes of the call's operands
};

class Graphs;
class Placed;

struct Shown {
  u32 place = 0;
  View view;  // `data` is an offset from the first byte of the place
};

/// Returns the address at an offset in a place that begins at `base`.
inline std::byte* behind(std::byte* base, const std::byte* offset) {
  return base + reinterpret_cast<std::ptrdiff_t>(offset);
}

/// The step or host write that made a constant during recording, for comparison with another recording.
struct Making {
  std::optional<Step> step;
  std::optional<Shown> written;
  std::optional<io::Digest> digest;  // digest of the bytes from the host; nullopt: they cannot be compared

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
    std::vector<Making> makings;  // steps and writes that made the constants
    std::size_t beside = 1;       // number of members, this one included, for which the host makes calls at the same time
  };
  explicit Program(Parts parts);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Executes the calls on other inputs, whose views must have the shapes, strides and overlaps of the recorded ones.
  /// Returns results in new memory. Thread-safe.
  std::vector<View> replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;

  const Parts& parts() const { return parts_; }
  const std::vector<Step>& steps() const { return parts_.steps; }
  const std::vector<Place>& places() const { return parts_.places; }
  std::size_t depth() const { return depth_; }
  /// Returns the peak memory of a replay, results included; constant_bytes returns the size of the program's constants.
  std::size_t peak_bytes() const { return peak_bytes_; }
  std::size_t constant_bytes() const { return constant_bytes_; }
  device::Count work() const;
  /// Predicted seconds of a replay; 0 if unknown. The first call measures the device's rates.
  struct Times {
    double floor = 0;      // lower bound: the time of all products, or of moving each input and result once, if that is
                           // longer
    double predicted = 0;  // sum over the calls; each takes the time of its bytes or of its products
  };
  Times times() const;
  /// For a device of several parts: the predicted timeline of each member, and of all members together, for the layout of
  /// the last replay's inputs. Empty on other devices. Empty for TFHE before the first replay, because costs depend on
  /// the keys.
  struct Event {
    std::string name;  // name of a call; "fetch" for a copy from another member
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
  /// Returns the number of launches of a graph replay, in which equal independent calls are one launch; 0 without graphs.
  std::size_t launches() const;
  /// Returns the bytes that an eviction of the graphs would free.
  std::size_t graph_bytes() const;
  /// Returns a readable report of the cycles of the last replay on a simulated device; empty on other devices.
  std::string cycles() const;
  /// Number of replays, and number of replays as one graph.
  struct Replays {
    u64 all = 0, graphs = 0;
  };
  Replays replays() const;

 private:
  std::vector<View> perform(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;
  std::vector<View> perform_steps(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const;
  void plan();
  /// Returns the members of the program's device; null if it has none, or if the calls have several sessions.
  device::Members* members() const;
  /// Returns the placement for inputs on these executors. `keys`: null if the keys of TFHE calls are unknown.
  std::shared_ptr<Placed> placed(const std::vector<std::size_t>& lies, const std::vector<const KeySource*>* keys) const;

  Parts parts_;
  std::vector<std::vector<u32>> born_, dies_;  // places whose first and last use is in each step
  std::size_t depth_ = 0, peak_bytes_ = 0, constant_bytes_ = 0;
  mutable std::atomic<u64> replays_{0}, member_graphs_{0};
  mutable std::mutex mutex_;
  mutable std::string cycles_;  // guarded by mutex_
  std::shared_ptr<Graphs> graphs_;
  /// Guarded by mutex_: placements by layout of the inputs, the most recently used first.
  mutable std::list<std::pair<std::vector<std::size_t>, std::shared_ptr<Placed>>> placed_;
};

}  // namespace heliograph::program
