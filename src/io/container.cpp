#include "io/container.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>

#include "base/checked.h"
#include "base/secret.h"
#include "base/sizes.h"
#include "io/layout.h"
#include "io/utf8.h"

namespace heliograph::io {

static_assert(std::endian::native == std::endian::little, "arrays are written in memory order");

namespace {

constexpr std::array<unsigned char, 8> magic = {0x89, 'H', 'E', 'L', 'I', 'O', '\r', '\n'};
constexpr std::size_t max_type = 64, max_name = 256, max_axes = 16, max_arrays = std::size_t{1} << 16;
constexpr std::size_t max_axis = std::size_t{1} << 62;

template <class T>
T load_le(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void store_le(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

std::size_t aligned(std::size_t bytes) {
  return checked_add(bytes, layout::alignment - 1) / layout::alignment * layout::alignment;
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

[[noreturn]] void damaged(const std::string& why) { throw DamagedFileError("damaged Heliograph file: " + why); }

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void check_writable(const Container& container) {
  require<InternalError>(!container.type.empty() && container.type.size() <= max_type,
                         "a container's type must have 1 to 64 bytes");
  require<InternalError>(container.header.is_object(), "a container's header must be a JSON object");
  require<FormatError>(container.arrays.size() <= max_arrays, "cannot write this file: it must have at most 65,536 arrays");
  std::set<std::string_view> names;
  for (const Array& array : container.arrays) {
    require<InternalError>(!array.name.empty() && array.name.size() <= max_name, "an array's name must have 1 to 256 bytes");
    require<InternalError>(names.insert(array.name).second, "the names of a container's arrays must differ");
    require<InternalError>(dtype_size(array.dtype) != 0, "an array has an unknown dtype");
    require<InternalError>(array.shape.size() <= max_axes, "an array has too many axes");
    for (const std::size_t axis : array.shape) require<InternalError>(axis <= max_axis, "an array's axis is too long");
    require<InternalError>(array.elsewhere || array.data.size() == array.bytes(),
                           "an array's data must have the length of its shape");
  }
}

/// Reads the header's entry of one array. `offset` is the offset that this array must have; the function advances it to the
/// next array's offset.
Array read_entry(const Json& entry, std::size_t& offset, std::size_t end) {
  entry.require_only({"name", "dtype", "shape", "offset", "bytes"}, "arrays");
  Array array;
  array.name = entry.string_at("name", max_name);
  array.dtype = entry.string_at("dtype", 8);
  if (array.name.empty()) damaged("an array has no name");
  const std::size_t element = dtype_size(array.dtype);
  if (element == 0) damaged("array '" + array.name + "' has an unknown dtype");
  for (const std::uint64_t axis : entry.unsigned_array_at("shape", max_axes, max_axis)) array.shape.push_back(axis);
  std::size_t bytes = element;
  for (const std::size_t axis : array.shape) {
    if (__builtin_mul_overflow(bytes, axis, &bytes)) damaged("the size of array '" + array.name + "' overflows");
  }
  if (entry.unsigned_at("bytes") != bytes) damaged("the length of array '" + array.name + "' does not match its shape");
  if (entry.unsigned_at("offset") != offset) damaged("array '" + array.name + "' has the wrong offset");
  if (offset > end || bytes > end - offset) damaged("array '" + array.name + "' ends beyond the file");
  array.offset = offset;
  offset = aligned(offset + bytes);
  return array;
}

}  // namespace

std::size_t dtype_size(std::string_view dtype) {
  if (dtype == "u8" || dtype == "i8") return 1;
  if (dtype == "u32") return 4;
  if (dtype == "u64" || dtype == "i64") return 8;
  return 0;
}

std::size_t Array::count() const {
  std::size_t product = 1;
  for (const std::size_t axis : shape) product = checked_mul(product, axis);
  return product;
}

std::size_t Array::bytes() const {
  std::size_t product = dtype_size(dtype);
  for (const std::size_t axis : shape) product = checked_mul(product, axis);
  return product;
}

Held Held::owned() const {
  if (owner) return *this;
  try {
    return of(std::vector<std::byte>(bytes.begin(), bytes.end()));
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes.size()));
  }
}

Array Array::owned() const {
  Array same = *this;
  if (elsewhere) return same;
  const Held held = read().owned();
  same.data = held.bytes, same.owner = held.owner;
  return same;
}

void Held::require_elements(std::size_t bytes_each) const {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  require<InternalError>(address % bytes_each == 0 && bytes.size() % bytes_each == 0, "an array's values must be aligned");
}

void Array::check_values(const char* expected_dtype) const {
  require<InternalError>(dtype == expected_dtype, "an array was accessed as another dtype");
  require<InternalError>(data.size() == bytes(), "an array was accessed that was not loaded");
}

const Array* Container::find(std::string_view name) const {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const Array& array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

const Array& Container::array(std::string_view name, std::string_view dtype,
                              const std::vector<std::size_t>& expected_shape) const {
  const Array* found = find(name);
  if (found == nullptr) damaged("the file of type '" + type + "' lacks its array '" + std::string(name) + "'");
  if (found->dtype != dtype || found->shape != expected_shape) {
    damaged("array '" + found->name + "' is " + found->dtype + shape_text(found->shape) + ", expected " +
            std::string(dtype) + shape_text(expected_shape));
  }
  return *found;
}

Held Container::take(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape) {
  Array& from = arrays[static_cast<std::size_t>(&array(name, dtype, expected_shape) - arrays.data())];
  Held taken = from.read();
  from.data = {}, from.owner = {};
  return taken;
}

namespace layout {

Plan plan(const Container& container) {
  check_writable(container);
  Plan plan;
  // Offsets depend on the header's length, and the header contains the offsets. Therefore repeat until the length no longer
  // changes.
  std::size_t header_guess = 0;
  std::string text;
  do {
    header_guess = text.size();
    plan.offsets.clear();
    std::size_t offset = aligned(prefix_bytes + header_guess);
    Json entries = Json::array();
    for (const Array& array : container.arrays) {
      entries.push_back(Json::object({{"name", array.name},
                                      {"dtype", array.dtype},
                                      {"shape", Json::array_of(array.shape)},
                                      {"offset", offset},
                                      {"bytes", array.bytes()}}));
      plan.offsets.push_back(offset);
      offset = aligned(checked_add(offset, array.bytes()));
    }
    plan.total = checked_add(offset, digest_bytes);
    text = Json::object({{"type", container.type}, {"header", container.header}, {"arrays", std::move(entries)}}).dump();
  } while (text.size() != header_guess);
  plan.head.assign(aligned(prefix_bytes + text.size()), std::byte{0});
  std::memcpy(plan.head.data(), magic.data(), magic.size());
  store_le<std::uint32_t>(plan.head, 8, format_version);
  store_le<std::uint32_t>(plan.head, 12, 0);
  store_le<std::uint64_t>(plan.head, 16, text.size());
  store_le<std::uint64_t>(plan.head, 24, plan.total);
  std::memcpy(plan.head.data() + prefix_bytes, text.data(), text.size());
  return plan;
}

Prefix read_prefix(std::span<const std::byte> first, std::size_t size) {
  if (size == 0) throw DamagedFileError("truncated: the file is empty");
  if (std::memcmp(first.data(), magic.data(), std::min(first.size(), magic.size())) != 0) {
    throw FormatError("not a Heliograph file");
  }
  const auto truncated = [&](std::uint64_t expected) {
    throw DamagedFileError("truncated: " + std::to_string(size) + " bytes of at least " + std::to_string(expected));
  };
  if (first.size() < 12) truncated(prefix_bytes);
  const auto version = load_le<std::uint32_t>(first, 8);
  if (version < 1 || version > format_version) {
    throw VersionError("unsupported file format version " + std::to_string(version) +
                       "; this release reads versions 1 to 3. Use a newer release");
  }
  if (first.size() < prefix_bytes) truncated(prefix_bytes);
  if (load_le<std::uint32_t>(first, 12) != 0) damaged("the reserved field is not zero");
  const auto header = load_le<std::uint64_t>(first, 16), total = load_le<std::uint64_t>(first, 24);
  if (header > Json::max_text) damaged("the header has " + std::to_string(header) + " bytes; at most 1 MiB is allowed");
  if (total < aligned(prefix_bytes + header) + digest_bytes) damaged("the header is longer than the file");
  if (size < total) {
    throw DamagedFileError("truncated: " + std::to_string(size) + " of " + std::to_string(total) + " bytes");
  }
  if (size > total) {
    throw DamagedFileError("oversized: " + std::to_string(size) + " bytes, but the file states " + std::to_string(total));
  }
  return {header, total, version};
}

std::size_t array_bytes(const Prefix& prefix) {
  return prefix.total_bytes - digest_bytes - aligned(prefix_bytes + prefix.header_bytes);
}

void require_within(const Prefix& prefix, std::size_t most_bytes) {
  if (array_bytes(prefix) > most_bytes)
    throw LimitError("the file has " + readable_bytes(prefix.total_bytes) + ", but " + readable_bytes(most_bytes) +
                     " without its header are allowed; pass a larger limit=");
}

std::string read_type(std::span<const std::byte> first) {
  if (first.size() < prefix_bytes) damaged("it is shorter than the prefix of 32 bytes");
  const Prefix prefix = read_prefix(first.first(prefix_bytes), load_le<std::uint64_t>(first, 24));
  if (first.size() - prefix_bytes < prefix.header_bytes) damaged("it ends within the header");
  const auto text = first.subspan(prefix_bytes, prefix.header_bytes);
  return Json::parse({reinterpret_cast<const char*>(text.data()), text.size()}).string_at("type", max_type);
}

Container read_header(std::span<const std::byte> text, const Prefix& prefix) {
  const std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
  const Json root = Json::parse(view);
  root.require_only({"type", "header", "arrays"}, "(whole header)");
  if (root.dump() != view) damaged("the header is not in its canonical form");
  Container container;
  container.type = root.string_at("type", max_type);
  if (container.type.empty()) damaged("the type is empty");
  container.header = root.object_at("header");
  std::size_t offset = aligned(prefix_bytes + prefix.header_bytes);
  const std::size_t end = prefix.total_bytes - digest_bytes;
  std::set<std::string> names;
  for (const Json& entry : root.array_at("arrays", max_arrays)) {
    container.arrays.push_back(read_entry(entry, offset, end));
    if (!names.insert(container.arrays.back().name).second) damaged("two arrays have the same name");
  }
  if (offset != end) damaged("the arrays do not fill the file up to its digest");
  container.file_bytes = prefix.total_bytes;
  container.version = prefix.version;
  return container;
}

namespace {

class Hashing {
 public:
  Hashing(Stream& from, std::span<const std::byte> first, bool secret)
      : from_(from),
        here_(first.size()),
        room_bytes_(secret ? std::size_t{1} << 12 : chunk_bytes),
        room_(allocate(room_bytes_, secret)) {
    hash_.update(first);
  }
  std::size_t here() const { return here_; }
  /// Reads the bytes up to position `to` and calls `see` with one piece of these bytes after another. Stores the bytes in
  /// `into` unless it is null.
  template <class See>
  void pass(std::size_t to, std::byte* into, See see) {
    while (here_ < to) {
      const std::size_t count = std::min(into ? chunk_bytes : room_bytes_, to - here_);
      const std::span<const std::byte> piece = from_.next({into ? into : room_.get(), count});
      hash_.update(piece);
      see(piece);
      if (into && piece.data() != into) std::memcpy(into, piece.data(), count);
      if (into) into += count;
      here_ += count;
    }
  }
  void pass(std::size_t to, std::byte* into = nullptr) {
    pass(to, into, [](std::span<const std::byte>) {});
  }
  /// Returns whether the next bytes are the digest of all previous bytes. Sets `all` to the digest of all bytes, including
  /// the digest.
  bool ends(Digest& all) {
    Sha256 whole = hash_;
    const Digest digest = hash_.finish();
    const std::span<const std::byte> stored = from_.next({room_.get(), digest_bytes});
    whole.update(stored);
    all = whole.finish();
    return std::memcmp(stored.data(), digest.data(), digest_bytes) == 0;
  }

 private:
  Stream& from_;
  std::size_t here_;
  std::size_t room_bytes_;
  std::shared_ptr<std::byte> room_;
  Sha256 hash_;
};

}  // namespace

Pass read(Stream& from, const Prefix& prefix, std::span<const std::byte> first, Place place, bool digests) {
  const std::size_t end = prefix.total_bytes - digest_bytes;
  const bool secret = place == Place::secret_memory;
  Hashing bytes(from, first, secret);
  std::vector<std::byte> text(prefix.header_bytes);
  bytes.pass(first.size() + text.size(), text.data());
  Pass pass;
  std::exception_ptr fault;  // error of the header, thrown only after the digest has been checked
  try {
    pass.container = read_header(text, prefix);
  } catch (const DamagedFileError&) {
    fault = std::current_exception();
  }
  bool padded = true;
  const auto padding = [&](std::size_t to) {
    bytes.pass(to, nullptr, [&](std::span<const std::byte> zeros) { padded = padded && all_zero(zeros); });
  };
  for (std::size_t i = 0; i < pass.container.arrays.size() && !fault; ++i) {
    Array& array = pass.container.arrays[i];
    padding(array.offset);
    const std::size_t size = array.bytes();
    if (place == Place::nowhere) {
      Sha256 own;
      bytes.pass(array.offset + size, nullptr, [&](std::span<const std::byte> piece) {
        if (digests) own.update(piece);
      });
      if (digests) pass.digests.push_back(own.finish());
    } else {
      const std::shared_ptr<std::byte> storage = allocate(size, secret);
      bytes.pass(array.offset + size, storage.get());
      array.data = {storage.get(), size}, array.owner = storage;
    }
  }
  fault ? bytes.pass(end) : padding(end);
  if (!bytes.ends(pass.container.digest)) damaged("its digest does not match; bytes were changed after it was written");
  if (fault) std::rethrow_exception(fault);
  if (!padded) damaged("the padding is not zero");
  return pass;
}

std::shared_ptr<std::byte> allocate(std::size_t bytes, bool secret) {
  if (secret) {
    void* const memory = allocate_secret(bytes);
    return {static_cast<std::byte*>(memory), [bytes](std::byte* owned) { free_secret(owned, bytes); }};
  }
  const auto found = [&](void* memory) {
    if (memory == nullptr || memory == MAP_FAILED)
      throw OutOfMemoryError("cannot allocate memory for an array of " + readable_bytes(bytes));
    return static_cast<std::byte*>(memory);
  };
  static constexpr std::size_t large = std::size_t{1} << 20, huge = std::size_t{1} << 23;
  if (bytes < large) {
    std::byte* const memory = found(std::aligned_alloc(alignment, std::max(alignment, aligned(bytes))));
    return {memory, [](std::byte* owned) { std::free(owned); }};
  }
  // Separate pages return to the system when they are freed; a heap may keep aligned blocks without reusing them.
  constexpr int rights = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
  std::byte* const memory = found(::mmap(nullptr, bytes, rights, kind, -1, 0));
  if (bytes >= huge) ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint, for fewer page faults
  return {memory, [bytes](std::byte* owned) { ::munmap(owned, bytes); }};
}

}  // namespace layout

std::size_t byte_size(const Container& container) { return layout::plan(container).total; }

namespace {

void write_planned(const Container& container, const layout::Plan& plan, std::byte* out) {
  layout::emit(container, plan, [&](std::span<const std::byte> bytes) {
    std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  });
}

}  // namespace

void write_bytes(const Container& container, std::span<std::byte> out) {
  const layout::Plan plan = layout::plan(container);
  require<InternalError>(out.size() == plan.total, "the memory for a container must have byte_size() bytes");
  write_planned(container, plan, out.data());
}

std::vector<std::byte> to_bytes(const Container& container) {
  const layout::Plan plan = layout::plan(container);
  try {
    std::vector<std::byte> out(plan.total);
    write_planned(container, plan, out.data());
    return out;
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError("cannot allocate memory for a container of " + readable_bytes(plan.total));
  }
}

void write(const Container& container, const Sink& sink) { layout::emit(container, layout::plan(container), sink); }

namespace {

class Memory final : public layout::Stream {
 public:
  Memory(std::span<const std::byte> all, const std::function<void(std::size_t)>& arrived) : all_(all), arrived_(arrived) {}
  std::span<const std::byte> next(std::span<std::byte> room) override { return next(room.size()); }
  std::span<const std::byte> next(std::size_t count) {
    if (arrived_) arrived_(here_ + count);
    here_ += count;
    return all_.subspan(here_ - count, count);
  }

 private:
  std::span<const std::byte> all_;
  std::size_t here_ = 0;
  const std::function<void(std::size_t)>& arrived_;
};

}  // namespace

Container from_bytes(std::span<const std::byte> bytes, bool copy, std::size_t most_bytes,
                     const std::function<void(std::size_t)>& arrived) {
  Memory from(bytes, arrived);
  const auto first = from.next(std::min(bytes.size(), layout::prefix_bytes));
  const auto prefix = layout::read_prefix(first, bytes.size());
  layout::require_within(prefix, most_bytes);
  const bool in_place = !copy && reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0;
  layout::Pass pass = layout::read(from, prefix, first, in_place ? layout::Place::nowhere : layout::Place::memory);
  if (in_place)
    for (Array& array : pass.container.arrays) array.data = bytes.subspan(array.offset, array.bytes());
  return std::move(pass.container);
}

Container verify(std::span<const std::byte> bytes) {
  const std::function<void(std::size_t)> none;
  Memory from(bytes, none);
  const auto first = from.next(std::min(bytes.size(), layout::prefix_bytes));
  return layout::read(from, layout::read_prefix(first, bytes.size()), first, layout::Place::nowhere).container;
}

}  // namespace heliograph::io
