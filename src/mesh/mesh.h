// Several devices as one: a device whose tensors lie over the members, and whose kernels run on all of them. Same contract,
// same bits; what is above never counts devices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "mesh/placement.h"

namespace heliograph::mesh {

/// How a conversion between RNS bases runs over a limb layout.
enum class Exchange : unsigned char {
  automatic,
  broadcast,  // every member gathers all source limbs and computes its own target limbs
  transpose,  // to the coefficient layout and back (Al Badawi 2020, Algorithms 1 and 2)
};
/// How a key switch runs over a limb layout (Cinnamon; Kim 2025).
enum class SwitchMethod : unsigned char {
  automatic,
  input,   // input broadcast: the polynomial is gathered, keys and sums are split by limbs
  output,  // output aggregation: keys are split by digits, the sums over Q and P are added up
};

/// For tests, benchmarks and experienced users. Results never depend on them.
struct Options {
  std::string name;              // as given to open_device; empty: the members' names
  std::optional<Layout> layout;  // of every tensor
  bool staged = false;           // no peer access: all that moves goes through the host
  bool events = false;           // members wait for each other's events, not for flags in each other's memory
  std::vector<double> weights;   // shares of the members; empty: measured
  std::vector<double> slowdown;  // makes members slow
  std::vector<double> hosts;     // members of one number count as of one host, which a forced layout then respects
  Exchange exchange = Exchange::automatic;
  SwitchMethod key_switch = SwitchMethod::automatic;
  bool calibrate = true;  // false: equal members, and links as on NVSwitch
  /// In place of a calibration: transforms a second of each member, bytes a second of the links, then seconds: of an exchange,
  /// of spreading a call, of the host for a step. See mesh/costs.h.
  std::vector<double> costs;
  bool sockets = false;  // between processes: no channels of the devices
};

/// What moved between the members of all ranks; through this rank's host; from this rank to others, words of members and
/// what was broadcast, scattered and gathered. The mesh's own measurements do not count.
struct Moved {
  device::u64 exchanges = 0, bytes = 0, staged_bytes = 0, sent_bytes = 0;
};

/// A mesh is a Device too.
class Mesh : public device::Device {
 public:
  virtual std::size_t size() const = 0;
  /// A member of another rank has a name and no memory here.
  virtual device::Device& member(std::size_t m) = 0;
  /// The number of processes of this mesh, and this one's rank.
  virtual std::size_t ranks() const = 0;
  virtual std::size_t rank() const = 0;
  virtual Moved moved() const = 0;
  /// Copies a tensor's words to a new allocation of that layout (repartitioning in the literature).
  virtual device::Buffer reshard(const device::View& from, const device::PrimeList& primes, Layout to, device::Queue&) = 0;
  /// Text to read: members, weights and links, one line each.
  virtual std::vector<std::string> report() = 0;
};

class Transport;
/// Over several processes (mesh/ranks.h): their members in rank order, joined by `transport`.
std::unique_ptr<Mesh> make_mesh(std::vector<std::shared_ptr<device::Device>> members, Options options = {},
                                std::unique_ptr<Transport> transport = nullptr);

/// A device by name: those of device::open_device; the bare name of a kind of which device::found_devices lists several: all
/// of them; "cpu,cpu:avx2" and "3*cpu": a mesh of these.
/// After a mesh's members, options: "/batch", "/limb", "/coefficient", "/staged", "/events", "/broadcast", "/transpose", "/input",
/// "/output", "/weights=2:1:1", "/slowdown=1:4", "/hosts=0:0:1", "/uncalibrated", "/costs=6e6:250e9:15e-6:40e-6:8e-6", "/sockets". Throws ParameterError, DeviceError.
///
/// Where HELIOGRAPH_RANKS is more than 1, these are the devices of this rank, and what is opened is the mesh of all ranks'
/// (docs/ranks.md). All ranks make the same calls in the same order; a failure on one ends the mesh on all.
std::unique_ptr<device::Device> open_device(const std::string& name);

/// The device of this process, opened at first use: all GPUs this build can use as one, else the processor's cores; or what
/// HELIOGRAPH_DEVICE names. Over ranks one GPU a rank, in turn. Throws ForkError in a child of the process that opened it.
device::Device& default_device();
/// Throws ForkError in a child of the process that opened it. Opens nothing and does not wait.
void require_own_process();
/// Whether that device is to be several processes: what the environment says, without opening it.
bool over_ranks();

}  // namespace heliograph::mesh
