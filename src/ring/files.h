// Files of ring objects: common header fields, and limits on tensors from files.
#pragma once

#include "device/session.h"
#include "device/shape.h"
#include "io/container.h"
#include "ring/entropy.h"

namespace heliograph::ring {

/// The processes that read a tensor's words for a file: all processes, or only the key holder, which then writes the words.
enum class Words : unsigned char { everywhere, at_key_holder };

/// The parts of a type "heliograph.SCHEME.KIND"; both are empty if the type has another form.
struct FileType {
  std::string scheme, kind;
};
FileType parts_of(const std::string& type);

/// Checks the header's parameter hash. In format 2 it must be hash(false), which excludes the set's name; in format 1 it may
/// also be hash(true). Throws DamagedFileError.
void check_hash(const io::Container& from, const std::function<std::string(bool named)>& hash);
KeyId key_of(const io::Container& from);
math::Key256 seed_from(const io::Json& json, std::string_view what);
/// Throws DamagedFileError unless the file has `count` arrays.
void require_arrays(const io::Container& from, std::size_t count);

/// Reads and checks a tensor's "shape" before memory is allocated; an item needs `each` bytes. An axis of length zero counts
/// as one, because a sum over it has the size of the other axes. Throws DamagedFileError for an impossible shape, LimitError
/// if the tensor exceeds `limit` bytes, and OutOfMemoryError if it exceeds the free memory.
device::Shape read_shape(const io::Container& from, std::size_t each, std::size_t limit, const device::Session& session);

/// Throws MismatchError if the parameter hash differs from `wanted` (empty: accepts any). Called before parameters are
/// opened.
void require_parameters(const std::string& hash, const std::string& wanted);

}  // namespace heliograph::ring
