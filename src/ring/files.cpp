#include "ring/files.h"

namespace heliograph::ring {

device::Shape read_shape(const io::Container& from, std::size_t each, std::size_t limit, const device::Session& session) {
  constexpr std::size_t kMaxLength = std::size_t{1} << 32;
  device::Shape shape;
  for (const std::uint64_t s : from.header.unsigned_array_at("shape", device::kMaxAxes, kMaxLength)) shape.push_back(s);
  std::size_t bytes = 0;
  try {
    bytes = device::bounded_product(each, shape);
  } catch (const ShapeError&) {
    throw DamagedFileError("no tensor has the shape " + device::to_string(shape));
  }
  if (bytes > limit) {
    throw LimitError("a tensor of shape " + device::to_string(shape) + " needs " + device::readable_bytes(bytes) +
                     " in memory, " + device::readable_bytes(limit) + " are allowed");
  }
  session.require_memory(device::element_count(shape) * each, "loading this tensor");
  return shape;
}

void require_parameters(const std::string& hash, const std::string& wanted) {
  if (wanted.empty() || hash == wanted) return;
  throw MismatchError("the tensor is of other parameters (hash " + hash.substr(0, 16) + ") than these keys (hash " +
                      wanted.substr(0, 16) + ")");
}

}  // namespace heliograph::ring
