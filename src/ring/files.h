// Objects of rings as files: what all of them say of themselves, and what a tensor from a file may be and cost.
#pragma once

#include "device/session.h"
#include "device/shape.h"
#include "io/container.h"
#include "ring/entropy.h"

namespace heliograph::ring {

/// For whom a tensor's words are read: every process, or the key holder alone, which then writes them.
enum class Words : unsigned char { everywhere, at_key_holder };

/// "heliograph.SCHEME.KIND" taken apart; both empty where a file's type is no such name.
struct FileType {
  std::string scheme, kind;
};
FileType parts_of(const std::string& type);

/// The header's hash is that of the numbers: `hash(false)` without the set's name, as format 2 takes it, or in files of format
/// 1 `hash(true)` with it. DamagedFileError.
void check_hash(const io::Container& from, const std::function<std::string(bool named)>& hash);
/// The header's key id. DamagedFileError.
KeyId key_of(const io::Container& from);
math::Key256 seed_from(const io::Json& json, std::string_view what);
/// DamagedFileError unless there are so many.
void require_arrays(const io::Container& from, std::size_t count);

/// The header's "shape" of a tensor whose items take `each` bytes in memory, before any is taken. An axis of length zero
/// counts as one: a sum over it is as large as the others make it.
/// DamagedFileError: a shape that no tensor has. LimitError: more than `limit`. OutOfMemoryError: more than there is.
device::Shape read_shape(const io::Container& from, std::size_t each, std::size_t limit, const device::Session& session);

/// Throws MismatchError where parameters of that hash are not the wanted ones (empty: any are), before they are opened.
void require_parameters(const std::string& hash, const std::string& wanted);

}  // namespace heliograph::ring
