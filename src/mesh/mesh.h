// Several devices as one. Tensors are distributed over these devices, the members, and kernels run on all of them. The
// contract and the resulting bits are those of one device. Code in higher layers never counts devices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "mesh/placement.h"

namespace heliograph::mesh {

/// Algorithm of a conversion between RNS bases in the limb layout.
enum class Exchange : unsigned char {
  automatic,
  broadcast,  // every member gathers all source limbs and computes its own target limbs
  transpose,  // tensors move to the coefficient layout and back (Al Badawi and others, 2020, algorithms 1 and 2)
};
/// Algorithm of a key switch in the limb layout (Cinnamon; Kim 2025).
enum class SwitchMethod : unsigned char {
  automatic,
  input,   // input broadcast: every member gathers the polynomial; keys and sums are divided by limbs
  output,  // output aggregation: keys are divided by digits; the sums over Q and P are added over the members
};

/// Options for tests, benchmarks and experts. The results of calls never depend on the rates.
struct Options {
  std::string name;              // name of the mesh for open_device; empty: the members' names
  std::optional<Layout> layout;  // layout of every tensor; nullopt: chosen for each tensor
  bool staged = false;  // whether devices have no access to each other's memory; all transfers then go through the host
  bool events = false;  // whether members synchronise by events instead of flags in each other's memory
  std::vector<double> weights;   // shares of work of the members; empty: measured
  std::vector<double> slowdown;  // factors by which tests slow members down
  std::vector<double> hosts;     // members with equal numbers count as one host; a forced layout also distributes by host
  Exchange exchange = Exchange::automatic;
  SwitchMethod key_switch = SwitchMethod::automatic;
  bool calibrate = true;  // false: members count as equally fast, with links as fast as NVSwitch
  /// Replaces a measurement (mesh/costs.h). The numbers are transforms per second of each member, bytes per second of the
  /// links, seconds of an exchange, of distributing a call, and of host time for a step.
  std::vector<double> costs;
  bool sockets = false;  // no direct channels between devices of different processes
};

/// Bytes moved: between the members of all ranks, through this rank's host, and from this rank to others, which includes
/// broadcasts, scatters and gathers. The mesh's own measurements do not count.
struct Moved {
  device::u64 exchanges = 0, bytes = 0, staged_bytes = 0, sent_bytes = 0;
};

/// A device that is made of several devices.
class Mesh : public device::Device {
 public:
  virtual std::size_t size() const = 0;
  /// Returns a member. A member of another rank has a name, but no memory in this process.
  virtual device::Device& member(std::size_t m) = 0;
  virtual std::size_t ranks() const = 0;
  virtual std::size_t rank() const = 0;
  virtual Moved moved() const = 0;
  /// Copies a tensor's words to a new allocation with another layout.
  virtual device::Buffer reshard(const device::View& from, const device::PrimeList& primes, Layout to, device::Queue&) = 0;
  /// Returns a readable report, one line per member, weight or link.
  virtual std::vector<std::string> report() = 0;
};

/// Returns the members of a mesh; empty if `device` is not a mesh. For code in higher layers, which does not know this
/// class.
std::vector<device::Device*> members_of(device::Device& device);

class Transport;
/// Makes a mesh. Over several processes (mesh/ranks.h) the mesh has the members of all ranks, in the order of ranks, and
/// `transport` connects these members.
std::unique_ptr<Mesh> make_mesh(std::vector<std::shared_ptr<device::Device>> members, Options options = {},
                                std::unique_ptr<Transport> transport = nullptr);

/// Opens a device by name. Names of device::open_device open one device. The name of a kind of devices that
/// device::found_devices numbers opens all devices of this kind. "cpu,cpu:avx2" and "3*cpu" open a mesh of the listed
/// devices. Options may follow the
/// members: "/batch", "/limb", "/coefficient", "/staged", "/events", "/broadcast", "/transpose", "/input", "/output",
/// "/weights=2:1:1", "/slowdown=1:4", "/hosts=0:0:1", "/uncalibrated", "/costs=6e6:250e9:15e-6:40e-6:8e-6", "/sockets".
/// Throws ParameterError, DeviceError. If HELIOGRAPH_RANKS is above 1, the name lists the devices of this rank, and the
/// result is the mesh of all ranks (docs/ranks.md). All ranks make the same calls in order; a failure on one ends the mesh
/// on all.
std::unique_ptr<device::Device> open_device(const std::string& name);

/// Returns the device of this process, opened at first use: HELIOGRAPH_DEVICE if set, else all GPUs that this build can
/// use as one, else the CPU. Over ranks, each rank uses one GPU. Throws ForkError in a fork of the process that opened
/// it.
device::Device& default_device();
/// Throws ForkError in a fork of the process that opened the device. This function never opens the device and never waits.
void require_own_process();
/// Returns whether the environment selects a mesh of several processes. Does not open the device.
bool over_ranks();

}  // namespace heliograph::mesh
