// Computations that the key holder (rank 0: device/device.h) does for all processes of a device. Only the key holder has
// secrets and accesses files. Every process must call each function of this file. In a single process nothing is copied.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "device/device.h"
#include "io/container.h"

namespace heliograph::ring {

/// Throws ForkError in a child of the process that opened the device.
void require_own_process();

/// Returns whether this process has the whole device.
inline bool is_whole(device::Device& device) { return device.key_holder() == &device; }

/// Calls `compute` in the key holder, where it fills `out`. Broadcasts `out`, or the exception of `compute`, to all
/// processes.
template <class T>
void broadcast(device::Device& device, std::span<T> out, const std::function<void()>& compute) {
  static_assert(std::is_trivially_copyable_v<T>);
  require_own_process();
  if (is_whole(device)) return compute();
  const auto bytes = std::as_writable_bytes(out);
  const std::vector<std::byte> sent = device.broadcast([&] {
    compute();
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  require<DeviceError>(
      sent.size() == bytes.size(),
      "the ranks of this run make different calls; all ranks must run the same program with the same arguments");
  if (!sent.empty()) std::memcpy(bytes.data(), sent.data(), sent.size());
}
/// Broadcasts a vector whose length only the key holder knows; `compute` fills it there.
template <class T>
void broadcast(device::Device& device, std::vector<T>& out, const std::function<void()>& compute) {
  std::size_t size = 0;
  broadcast(device, std::span(&size, 1), [&] { compute(), size = out.size(); });
  out.resize(size);
  broadcast(device, std::span(out), [] {});
}
/// Broadcasts one value, which `compute` returns in the key holder.
template <class T>
T broadcast(device::Device& device, const std::function<T()>& compute) {
  T value{};
  broadcast(device, std::span(&value, 1), [&] { value = compute(); });
  return value;
}

// Functions that read and write files and bytes for the process's default device. A single process does not open the
// device for these functions.

/// Calls io::load in the key holder. The other processes receive the arrays one after another, but of a secret key only the
/// header. With several processes, throws LimitError if arrays would stay in the file.
io::Container load(const std::string& path, io::Reading how = {});
/// Calls io::from_bytes without copying `bytes`. Throws MismatchError if the processes have different bytes.
io::Container from_bytes(std::span<const std::byte> bytes, std::size_t most_bytes = io::kAnyBytes);
/// Calls io::save in the key holder of `device`. The other processes ignore the arrays' data, but take part in reading data
/// from the device.
void save(device::Device& device, const std::string& path, const io::Container& container, bool secret = false);
/// The first function returns a file's header as JSON; the second returns the type in the header. Neither function reads
/// arrays.
std::string inspect(const std::string& path);
std::string file_type(const std::string& path);

/// Throws MismatchError if the processes open different parameters. Communicates once for each hash.
void confirm_parameters(const std::string& what, const std::string& hash);

}  // namespace heliograph::ring
