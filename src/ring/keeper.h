// What one process of a device knows before, or better than, the others: the keeper (device/device.h), which has the secrets
// and is alone with files. Every call here is made by all processes; in one process none of them copies or sends anything.
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
inline bool is_whole(device::Device& device) { return device.keeper() == &device; }

/// Calls `compute`, which fills `out`, in the keeper alone; then all have what it wrote, or throw what it threw.
template <class T>
void tell(device::Device& device, std::span<T> out, const std::function<void()>& compute) {
  static_assert(std::is_trivially_copyable_v<T>);
  require_own_process();
  if (is_whole(device)) return compute();
  const auto bytes = std::as_writable_bytes(out);
  const std::vector<std::byte> told = device.told([&] {
    compute();
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  require<DeviceError>(told.size() == bytes.size(), "a rank does not run the same program");
  if (!told.empty()) std::memcpy(bytes.data(), told.data(), told.size());
}
/// The same for what has a length that only the keeper knows.
template <class T>
void tell(device::Device& device, std::vector<T>& out, const std::function<void()>& compute) {
  std::size_t size = 0;
  tell(device, std::span(&size, 1), [&] { compute(), size = out.size(); });
  out.resize(size);
  tell(device, std::span(out), [] {});
}
/// The same for one value.
template <class T>
T told(device::Device& device, const std::function<T()>& compute) {
  T value{};
  tell(device, std::span(&value, 1), [&] { value = compute(); });
  return value;
}

// Files and bytes of the process's own device, which is not opened for them where this process is alone.

/// io::load of a file that the keeper alone reads; the others have its bytes.
io::Container load(const std::string& path, std::size_t most_bytes = io::kAnyBytes);
/// The same for a secret key: the others have the header alone, no arrays.
io::Container load_secret(const std::string& path);
/// io::from_bytes without a copy. Throws MismatchError where the processes do not have the same bytes.
io::Container from_bytes(std::span<const std::byte> bytes, std::size_t most_bytes = io::kAnyBytes);
/// io::save by the keeper of `device`; elsewhere the arrays' data is not looked at.
void save(device::Device& device, const std::string& path, const io::Container& container, bool secret = false);
/// A JSON text of a file's header, and the type in it; its arrays are not read.
std::string inspect(const std::string& path);
std::string file_type(const std::string& path);

/// Throws MismatchError where the processes are about to open different parameters; asks them once for each hash.
void confirm_parameters(const std::string& what, const std::string& hash);

}  // namespace heliograph::ring
