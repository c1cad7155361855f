#include "ring/key_holder.h"

#include <exception>
#include <mutex>
#include <set>

#include "io/sha256.h"
#include "mesh/mesh.h"

namespace heliograph::ring {

void require_own_process() { mesh::require_own_process(); }

namespace {

using Bytes = std::vector<std::byte>;

/// Runs `make` in the key holder of the process's default device, and broadcasts its result.
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

constexpr std::size_t kAny = ~std::size_t{0};

/// Returns the description of a container (header, names and shapes of arrays) without the arrays' bytes.
io::Json summary(const io::Container& k) {
  io::Json arrays = io::Json::array();
  for (const io::Array& a : k.arrays) {
    arrays.push_back(io::Json::object(
        {{"name", a.name}, {"dtype", a.dtype}, {"shape", io::Json::array_of(a.shape)}, {"bytes", a.bytes()}}));
  }
  return io::Json::object({{"type", k.type}, {"header", k.header}, {"file_bytes", k.file_bytes}, {"arrays", arrays}});
}

}  // namespace

io::Container load(const std::string& path, io::Reading how) {
  if (!mesh::over_ranks()) return io::load(path, how);
  how.most_bytes = std::min(how.most_bytes, how.most_held);
  io::Container whole;
  const io::Json said = io::Json::parse(broadcast_text([&] {
    whole = io::load(path, how);
    io::Json all = summary(whole);
    all["version"] = whole.version;
    return all.dump();
  }));
  const bool is_holder = mesh::default_device().key_holder() != nullptr;
  if (!is_holder) {
    whole.type = said.string_at("type", kAny), whole.header = said.object_at("header");
    whole.version = static_cast<std::uint32_t>(said.unsigned_at("version")),
    whole.file_bytes = said.unsigned_at("file_bytes");
  }
  const io::Json::Array& arrays = said.array_at("arrays", kAny);
  for (std::size_t i = 0; i < arrays.size() && !how.secret; ++i) {
    Bytes sent = broadcast_by_own([&] { return Bytes(whole.arrays[i].data.begin(), whole.arrays[i].data.end()); });
    if (is_holder) continue;
    const io::Held held = io::Held::of(std::move(sent));
    whole.arrays.push_back({arrays[i].string_at("name", kAny), arrays[i].string_at("dtype", kAny),
                            arrays[i].unsigned_array_at("shape", kAny), held.bytes, held.owner});
  }
  return whole;
}

io::Container from_bytes(std::span<const std::byte> bytes, std::size_t most_bytes) {
  if (mesh::over_ranks()) mesh::default_device().confirm("bytes of digest", io::to_hex(io::sha256(bytes)));
  return io::from_bytes(bytes, false, most_bytes);
}

void save(device::Device& device, const std::string& path, const io::Container& container, bool secret) {
  require_own_process();
  if (is_whole(device)) return io::save(path, container, secret);
  // All processes take part in reading data from the device, in the same order, even if the key holder cannot write the
  // file.
  std::size_t read = 0;
  std::exception_ptr fault;
  if (device.key_holder() != nullptr) {
    io::Container counted = container;
    for (io::Array& array : counted.arrays) {
      array.pieces = {};  // read whole arrays, as the other processes do
      if (array.elsewhere) array.elsewhere = [&read, from = array.elsewhere] { return ++read, from(); };
    }
    try {
      io::save(path, counted, secret);
    } catch (...) {
      fault = std::current_exception();
    }
  }
  for (const io::Array& array : container.arrays) {
    if (!array.elsewhere) continue;
    if (read > 0)
      --read;
    else
      array.elsewhere();
  }
  broadcast(device, std::span<std::byte>(), [&] {
    if (fault) std::rethrow_exception(fault);
  });
}

std::string inspect(const std::string& path) {
  return broadcast_text([&] { return summary(io::peek(path)).dump(); });
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
