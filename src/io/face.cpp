// Public functions for files of any type (include/heliograph/container.h).
#include "heliograph/container.h"
#include "io/layout.h"

namespace heliograph::container {

namespace {

Contents contents_of(const io::Container& from) {
  Contents c{.type = from.type, .header = from.header.dump(), .arrays = {}, .digest = io::to_hex(from.digest)};
  for (const io::Array& a : from.arrays) c.arrays.push_back({a.name, a.dtype, a.shape, a.offset, a.bytes()});
  return c;
}

}  // namespace

Contents read(std::span<const std::byte> bytes) { return contents_of(io::verify(bytes)); }

Contents read(const std::string& path) { return contents_of(io::verify(path)); }

std::size_t header_end(std::span<const std::byte> first, std::size_t size) {
  static_assert(kPrefixBytes == io::layout::prefix_bytes && kMaxHeaderBytes == io::Json::max_text);
  return kPrefixBytes +
         io::layout::read_prefix(first.first(std::min({first.size(), size, kPrefixBytes})), size).header_bytes;
}

std::optional<std::string> type_of(std::span<const std::byte> first) {
  try {
    return io::layout::read_type(first);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

struct Writer::State {
  io::Container container;
  io::layout::Plan plan;
  io::Sha256 hash;
  std::size_t written = 0;  // number of arrays that were written
};

Writer::Writer(const std::string& type, const std::string& header, const std::vector<Array>& arrays)
    : state_(std::make_unique<State>()) {
  if (header.size() > kMaxHeaderBytes) throw FormatError("cannot write this file: its header must have at most 1 MiB");
  state_->container.type = type;
  state_->container.header = io::Json::parse(header);
  for (const Array& a : arrays) {
    io::Array& made = state_->container.arrays.emplace_back();
    made.name = a.name, made.dtype = a.dtype, made.shape = a.shape;
    made.elsewhere = [] { return io::Held{}; };  // the caller writes the bytes
  }
  state_->plan = io::layout::plan(state_->container);
  state_->hash.update(state_->plan.head);
}

Writer::~Writer() = default;

const Bytes& Writer::head() const { return state_->plan.head; }

Bytes Writer::padding(std::span<const std::byte> array) {
  const std::vector<io::Array>& arrays = state_->container.arrays;
  require<InternalError>(state_->written < arrays.size(), "a file's writer must get as many arrays as were declared");
  const std::size_t n = state_->written++;
  require<InternalError>(array.size() == arrays[n].bytes(), "an array's bytes must have the length of its shape");
  Bytes zeros(state_->plan.end_of(n) - state_->plan.offsets[n] - array.size());
  state_->hash.update(array);
  state_->hash.update(zeros);
  return zeros;
}

Bytes Writer::digest() {
  require<InternalError>(state_->written == state_->container.arrays.size(), "a file's writer must get all arrays first");
  const io::Digest digest = state_->hash.finish();
  const auto bytes = std::as_bytes(std::span(digest));
  return {bytes.begin(), bytes.end()};
}

}  // namespace heliograph::container
