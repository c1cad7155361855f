#include "ring/key_holder.h"

#include <mutex>
#include <set>

#include "io/sha256.h"
#include "mesh/mesh.h"

namespace heliograph::ring {

void require_own_process() { mesh::require_own_process(); }

namespace {

using Bytes = std::vector<std::byte>;

/// What `make` returns in the key holder of the process's own device.
Bytes broadcast_by_own(const std::function<Bytes()>& make) {
  return mesh::over_ranks() ? mesh::default_device().broadcast(make) : make();
}

std::string broadcast_text(const std::function<std::string()>& make) {
  const Bytes bytes = broadcast_by_own([&] {
    const std::string text = make();
    const auto all = std::as_bytes(std::span(text));
    return Bytes(all.begin(), all.end());
  });
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

io::Container load(const std::string& path, std::size_t most_bytes) {
  if (!mesh::over_ranks()) return io::load(path, false, most_bytes);
  return io::from_bytes(broadcast_by_own([&] { return io::to_bytes(io::load(path, false, most_bytes)); }));
}

io::Container load_secret(const std::string& path) {
  if (!mesh::over_ranks()) return io::load(path, true);
  io::Container whole;
  const Bytes open = broadcast_by_own([&] {
    whole = io::load(path, true);
    io::Container k;
    k.type = whole.type, k.header = whole.header;
    return io::to_bytes(k);
  });
  return mesh::default_device().key_holder() != nullptr ? whole : io::from_bytes(open);
}

io::Container from_bytes(std::span<const std::byte> bytes, std::size_t most_bytes) {
  if (mesh::over_ranks()) mesh::default_device().confirm("bytes of digest", io::to_hex(io::sha256(bytes)));
  return io::from_bytes(bytes, false, most_bytes);
}

void save(device::Device& device, const std::string& path, const io::Container& container, bool secret) {
  broadcast(device, std::span<std::byte>(), [&] { io::save(path, container, secret); });
}

std::string inspect(const std::string& path) {
  return broadcast_text([&] {
    const io::Container k = io::peek(path);
    io::Json j = io::Json::object({{"type", k.type}, {"header", k.header}, {"file_bytes", k.file_bytes}});
    io::Json arrays = io::Json::array();
    for (const io::Array& a : k.arrays) {
      arrays.push_back(io::Json::object(
          {{"name", a.name}, {"dtype", a.dtype}, {"shape", io::Json::array_of(a.shape)}, {"bytes", a.bytes()}}));
    }
    j["arrays"] = arrays;
    return j.dump();
  });
}

std::string file_type(const std::string& path) {
  return broadcast_text([&] { return io::peek(path).type; });
}

void confirm_parameters(const std::string& what, const std::string& hash) {
  require_own_process();
  if (!mesh::over_ranks()) return;
  static std::mutex mutex;
  static std::set<std::string> confirmed;
  const std::lock_guard lock(mutex);
  if (confirmed.contains(hash)) return;
  mesh::default_device().confirm("the parameters", what + ", hash " + hash.substr(0, 16));
  confirmed.insert(hash);
}

}  // namespace heliograph::ring
