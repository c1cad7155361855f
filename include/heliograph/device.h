// The device of this process (HELIOGRAPH_DEVICE): one processor, one GPU, or several devices used as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heliograph {

/// Describes each available device in one line.
std::vector<std::string> describe_devices();
/// Returns the name of the device in use, in the syntax of HELIOGRAPH_DEVICE.
std::string device_name();
/// Returns the machine's memory in bytes, or the control group's limit if that is lower (container, systemd unit).
std::size_t host_memory();
/// Counters of transfers and requests between the host and the device in use since it was opened. All are zero on devices
/// that compute in host memory.
struct Traffic {
  std::uint64_t uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  std::uint64_t launches = 0, allocations = 0, waits = 0;
};
Traffic device_traffic();
/// Counters of a simulated device since it was opened, read after all pending work has finished. Times are in cycles of the
/// assumed clock. With several devices, the counters are summed.
struct Cycles {
  std::uint64_t cycles = 0;     // cycles in which the device was busy
  std::uint64_t predicted = 0;  // busy cycles that the timing model predicts
  std::uint64_t waited = 0;     // cycles in which an instruction waited for a unit, an operand or a memory bank
  std::uint64_t lists = 0, instructions = 0;        // executed descriptor lists and instructions
  std::uint64_t bytes_read = 0, bytes_written = 0;  // bytes of device memory read and written
  std::uint64_t stalled = 0;                        // bus handshakes that the simulation delayed on purpose
  std::uint64_t sampled = 0, moved = 0;             // done in software: sampled limbs, copied words
  std::map<std::string, std::uint64_t> busy;        // busy cycles of each unit
  double clock = 0;                                 // clock frequency in Hz
};
/// Returns the counters, or nullopt if the device is not simulated.
std::optional<Cycles> device_cycles();
/// One instruction of the last list that a simulated device executed: its unit, and its cycles [begin, end) within the list
/// by the timing model.
struct Span {
  std::string unit;
  std::uint64_t begin = 0, end = 0;
};
/// Returns the instructions of the last list in order, after all pending work. With several devices, returns the
/// instructions of the first simulated device. Returns an empty list if the device is not simulated.
std::vector<Span> device_timeline();
/// Traffic between the members of a device that consists of several, since it was opened: exchanges, bytes moved, bytes
/// staged through this process's memory, and bytes sent to other processes. All are zero on a single device.
struct Moved {
  std::uint64_t exchanges = 0, bytes = 0, staged_bytes = 0, sent_bytes = 0;
};
Moved device_moved();
/// Rank of this process and number of processes that share the device (docs/ranks.md).
struct Ranks {
  std::size_t rank = 0, count = 1;
};
Ranks device_ranks();
/// Barrier over all ranks. Throws DeviceError if a rank has ended.
void meet_ranks();
/// Returns whether this build has MPI and its library loads. With MPI, ranks started by mpirun need no rendezvous address.
bool has_mpi();
/// Measures the peak rate of modular products per second of one core, or of a whole GPU, with operands in registers.
/// Benchmarks compare their results with this rate.
double product_ceiling();
/// Returns the rate of products that are summed before one reduction.
double sum_ceiling();

}  // namespace heliograph
