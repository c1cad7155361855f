// Optional capabilities of devices, in addition to the functions of device.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/channel.h"
#include "device/rates.h"
#include "device/work.h"

namespace heliograph::device {

class Device;
class Queue;
class TfheKernels;

/// Counters of a device that counts calls and computes nothing (backend/null).
class Counter {
 public:
  virtual ~Counter() = default;
  /// Returns the counts by name of kernel (device/call.h), "upload" or "download". A composite is counted as the calls that
  /// it consists of.
  virtual std::map<std::string, Count> counts() const = 0;
  virtual Count total() const = 0;
  /// Sets all counts to zero, and the peak to the bytes that are allocated now.
  virtual void reset() = 0;
  /// Returns the bytes that are allocated now, and their maximum since the last reset.
  virtual std::size_t live_bytes() const = 0;
  virtual std::size_t peak_bytes() const = 0;
};

/// Counters of a simulated device, in cycles of its clock.
struct Cycles {
  u64 lists = 0, descriptors = 0;         // numbers of executed lists and instructions
  u64 cycles = 0, predicted = 0;          // measured busy cycles; busy cycles predicted by the timing model
  u64 waited = 0;                         // cycles in which an instruction waited for a unit, an operand or a bank
  u64 bytes_read = 0, bytes_written = 0;  // traffic of the card's memory
  u64 stalled = 0;                        // bus handshakes that the simulation delayed
  std::map<std::string, u64> busy;        // busy cycles of each unit
  u64 sampled = 0, moved = 0;             // work in software: limbs of random numbers, copied words
  double clock = 0;                       // assumed clock rate in Hz

  /// Adds or subtracts the counters of another device or an earlier time. The sum has the larger of the two clocks.
  Cycles& operator+=(const Cycles& o) { return add(o, 1); }
  Cycles& operator-=(const Cycles& o) { return add(o, ~u64{0}); }

 private:
  Cycles& add(const Cycles& o, u64 times);
};

/// An instruction of a simulated device: its unit, and its cycles [begin, end) within its list.
struct Span {
  std::string unit;
  u64 begin = 0, end = 0;
};

/// Returns "81,234 cycles, 0.406 ms at an assumed 200 MHz (82,000 by the model), ...".
std::string readable(const Cycles& cycles);

/// Counters and timeline of a simulated device.
class Simulation {
 public:
  virtual ~Simulation() = default;
  /// Runs all pending work and returns the counters since the device was opened.
  virtual Cycles cycles() = 0;
  /// Returns the instructions of the last list in order, with their cycles by the timing model.
  virtual std::vector<Span> timeline() = 0;
};

/// The processes of a device that several processes share (docs/ranks.md). All processes make the same calls in the same
/// order. Only rank 0, the key holder, has secret keys and the values to encrypt.
class Processes {
 public:
  virtual ~Processes() = default;
  /// Returns the device on which the key holder computes with secrets; null in the other processes. Each call of this
  /// function returns the same device.
  virtual Device* key_holder() = 0;
  /// Calls `make` in the key holder and returns its result in every process. An exception of `make` is thrown in every
  /// process.
  virtual std::vector<std::byte> broadcast(const std::function<std::vector<std::byte>()>& make) = 0;
  /// Uploads `bytes` bytes from the key holder to the device. `from` is empty in the other processes. Each process stores
  /// its own part of the tensor.
  virtual void scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to) = 0;
  /// Downloads to the key holder's memory; `to` is empty in the other processes. Waits for the queue.
  virtual void gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) = 0;
  /// Throws MismatchError in all processes if their values differ; `what` names the value in the message, such as "the
  /// parameters".
  virtual void confirm(const std::string& what, const std::string& value) = 0;
};

/// Opens channels between devices of several processes.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// Returns an identity of this device that is unique among all hosts; empty if the device cannot have channels now. A set
  /// of channels must not contain a device twice.
  virtual std::string identity() const = 0;
  /// Returns bytes that let the devices of one set of channels find each other. One device makes the invitation and sends it
  /// to all others.
  virtual std::vector<std::byte> invite() = 0;
  /// Returns this device's end of the channels, after all `places` devices have called connect(). Throws DeviceError.
  virtual std::unique_ptr<Channel> connect(std::span<const std::byte> invitation, std::size_t place, std::size_t places,
                                           const WaitLimit& wait_limit) = 0;
};

/// Measurements of a device's speed.
class Measurement {
 public:
  virtual ~Measurement() = default;
  /// Modular products per second of one thread (or of the whole device) with operands in registers, measured by this call; 0
  /// if unknown.
  virtual double product_ceiling() { return 0; }
  /// Like product_ceiling, for products that are summed before one reduction.
  virtual double sum_ceiling() { return 0; }
  virtual Rates measure_rates() = 0;
};

/// Counts of a device's transfers from and to the host, and of its requests. All are zero if the device is the host.
struct Traffic {
  u64 uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  u64 launches = 0, allocations = 0, waits = 0;
};

class TransferCounter {
 public:
  virtual ~TransferCounter() = default;
  /// Counts since the device was opened.
  virtual Traffic traffic() const = 0;
};

/// A barrier between queues of several devices, which the devices execute without the host.
class Meeting {
 public:
  virtual ~Meeting() = default;
  /// Later work of `queue` starts after all work that each member enqueued before its own call of meet(). The results of the
  /// earlier work are then visible to the later work. Every member calls meet() equally often, each from one thread.
  virtual void meet(std::size_t member, Queue& queue) = 0;
};

/// Access of a device to the memory and the queues of others.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Whether kernels of this device may read memory of `other` by address.
  virtual bool reaches(const Device& other) const = 0;
  /// Makes a barrier of one queue of each of several devices, including this one. The result is null if the devices cannot
  /// synchronise without the host.
  virtual std::shared_ptr<Meeting> make_meeting(std::span<Device* const> /*members*/, std::span<Queue* const> /*queues*/) {
    return nullptr;
  }
};

/// The optional capabilities of a device; a null pointer is a capability that the device lacks.
struct Capabilities {
  Counter* counter = nullptr;
  Simulation* simulation = nullptr;
  Processes* processes = nullptr;
  Endpoint* endpoint = nullptr;
  Measurement* measurement = nullptr;
  TransferCounter* transfers = nullptr;
  Peers* peers = nullptr;
  TfheKernels* tfhe = nullptr;
};

}  // namespace heliograph::device
