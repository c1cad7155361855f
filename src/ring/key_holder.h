// What the process with the secret keys (the key holder, rank 0: device/device.h) computes for all processes of a device: it
// alone has the secrets, and reads and writes files. Every process makes every call here; in one process nothing is copied.
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

/// Whether all of the device is this process's.
inline bool is_whole(device::Device& device) { return device.key_holder() == &device; }

/// Calls `compute`, which fills `out`, on the key holder alone, and broadcasts what it wrote or threw.
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
  require<DeviceError>(sent.size() == bytes.size(), "a rank does not run the same program");
  if (!sent.empty()) std::memcpy(bytes.data(), sent.data(), sent.size());
}
/// The same for a vector whose length only the key holder knows.
template <class T>
void broadcast(device::Device& device, std::vector<T>& out, const std::function<void()>& compute) {
  std::size_t size = 0;
  broadcast(device, std::span(&size, 1), [&] { compute(), size = out.size(); });
  out.resize(size);
  broadcast(device, std::span(out), [] {});
}
/// The same for one value.
template <class T>
T broadcast(device::Device& device, const std::function<T()>& compute) {
  T value{};
  broadcast(device, std::span(&value, 1), [&] { value = compute(); });
  return value;
}

// Files and bytes of the process's own device, which is not opened for them where this process is alone.

/// io::load of a file that the key holder reads; the others receive its arrays one after another, of a secret key the header
/// alone. Over several processes none stay in the file: LimitError where they would.
io::Container load(const std::string& path, io::Reading how = {});
/// io::from_bytes without a copy. Throws MismatchError where the processes do not have the same bytes.
io::Container from_bytes(std::span<const std::byte> bytes, std::size_t most_bytes = io::kAnyBytes);
/// io::save by the key holder of `device`; elsewhere the arrays' data is not looked at. Every process reads what is elsewhere.
void save(device::Device& device, const std::string& path, const io::Container& container, bool secret = false);
/// A JSON text of a file's header, and the type in it; its arrays are not read.
std::string inspect(const std::string& path);
std::string file_type(const std::string& path);

/// Throws MismatchError where the processes are about to open different parameters; asks them once for each hash.
void confirm_parameters(const std::string& what, const std::string& hash);

}  // namespace heliograph::ring
