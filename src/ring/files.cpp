#include "ring/files.h"

#include "io/sha256.h"

namespace heliograph::ring {

FileType parts_of(const std::string& type) {
  constexpr std::string_view project = "heliograph.";
  const std::size_t dot = type.find('.', project.size());
  if (!type.starts_with(project) || dot == std::string::npos) return {};
  return {.scheme = type.substr(project.size(), dot - project.size()), .kind = type.substr(dot + 1)};
}

void check_hash(const io::Container& from, const std::function<std::string(bool named)>& hash) {
  const std::string& stored = from.header.string_at("parameter_hash", 64);
  if (stored != hash(false) && (from.version > 1 || stored != hash(true)))
    throw DamagedFileError("the parameters do not match their hash");
}

KeyId key_of(const io::Container& from) { return io::bytes_from_hex<16>(from.header.string_at("key", 32), "the key id"); }

math::Key256 seed_from(const io::Json& json, std::string_view what) {
  return io::bytes_from_hex<32>(json.as_string(what, 64), "a seed");
}

void require_arrays(const io::Container& from, std::size_t count) {
  if (from.arrays.size() != count) throw DamagedFileError("the number of arrays does not match the kind of object");
}

device::Shape read_shape(const io::Container& from, std::size_t each, std::size_t limit, const device::Session& session) {
  constexpr std::size_t kMaxLength = std::size_t{1} << 32;
  device::Shape shape;
  for (const std::uint64_t s : from.header.unsigned_array_at("shape", device::kMaxAxes, kMaxLength)) shape.push_back(s);
  std::size_t bytes = 0;
  try {
    bytes = device::bounded_product(each, shape);
  } catch (const ShapeError&) {
    throw DamagedFileError("impossible shape: " + device::to_string(shape));
  }
  if (bytes > limit) {
    throw LimitError("a tensor of shape " + device::to_string(shape) + " needs " + readable_bytes(bytes) + " in memory, " +
                     readable_bytes(limit) + " are allowed; pass a larger limit=");
  }
  session.require_memory(device::element_count(shape) * each, "loading this tensor");
  return shape;
}

void require_parameters(const std::string& hash, const std::string& wanted) {
  if (wanted.empty() || hash == wanted) return;
  throw MismatchError("the tensor and these keys have different parameters (hashes " + hash.substr(0, 16) + " and " +
                      wanted.substr(0, 16) + ")");
}

}  // namespace heliograph::ring
