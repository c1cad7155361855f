// The device that this process computes on (HELIOGRAPH_DEVICE): one processor, one GPU, or several as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heliograph {

/// One line for each device found.
std::vector<std::string> describe_devices();
/// Name of the device in use, as HELIOGRAPH_DEVICE would name it.
std::string device_name();
/// Bytes of memory of the machine, or of the process's control group if that allows less (a container, a systemd unit).
std::size_t host_memory();
/// What has crossed between the host and the device in use, and what was asked of it, since it was opened. Zero where host
/// and device are one.
struct Traffic {
  std::uint64_t uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  std::uint64_t launches = 0, allocations = 0, waits = 0;
};
Traffic device_traffic();
/// What a simulated device has counted since it was opened, once all work is done: in cycles of its clock, which is assumed. Of
/// several devices, all together.
struct Cycles {
  std::uint64_t cycles = 0;                         // while it had work
  std::uint64_t predicted = 0;                      // what its model says of them
  std::uint64_t waited = 0;                         // in which an instruction waited for a unit, an operand or a bank
  std::uint64_t lists = 0, instructions = 0;        // what it was given to do
  std::uint64_t bytes_read = 0, bytes_written = 0;  // of its memory
  std::uint64_t stalled = 0;                        // handshakes of its buses put off on purpose
  std::uint64_t sampled = 0, moved = 0;             // by software: limbs of random numbers, words that were moved
  std::map<std::string, std::uint64_t> busy;        // of each unit, the cycles in which it had work
  double clock = 0;                                 // Hz
};
/// None where nothing is simulated.
std::optional<Cycles> device_cycles();
/// An instruction of the last list that a simulated device performed: its unit, and the cycles [begin, end) of the list that it
/// takes there by the device's model.
struct Span {
  std::string unit;
  std::uint64_t begin = 0, end = 0;
};
/// In their order, once all work is done; of several devices the first one's. Nothing where nothing is simulated.
std::vector<Span> device_timeline();
/// What moved between the devices it is made of since it was opened, how much of it through this process's memory, and what
/// this process has sent to others in all; nothing where it is one device.
struct Moved {
  std::uint64_t exchanges = 0, bytes = 0, staged_bytes = 0, sent_bytes = 0;
};
Moved device_moved();
/// The processes that are this device (docs/ranks.md), and which of them this one is.
struct Ranks {
  std::size_t rank = 0, count = 1;
};
Ranks device_ranks();
/// Returns when all of them have called it. Throws DeviceError where one is gone.
void meet_ranks();
/// Whether MPI can be used, by which processes that mpirun started find each other without being told a place: this build has
/// it, and its library loads.
bool has_mpi();
/// Modular products a second of one core, or of a whole GPU, with operands in registers, measured: the roof benchmarks
/// compare with.
double product_ceiling();
/// The same of products summed before one reduction.
double sum_ceiling();

}  // namespace heliograph
