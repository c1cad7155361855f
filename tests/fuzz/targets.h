// Fuzz targets. A target accepts any bytes. A target must return or throw a typed error, in bounded time and memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "sign.h"

namespace heliograph::fuzz {

struct Target {
  std::string name;
  void (*run)(std::span<const std::byte> input);  // runs one input; throws an untyped error if the library has a fault
  /// Returns valid inputs from which the fuzzer starts; they are made only once.
  const std::vector<Bytes>& (*bases)();
  bool container;  // whether inputs are containers: these are mutated as documents and get a new digest
};

const std::vector<Target>& targets();
/// Returns the target of this name. Throws a ParameterError that lists the existing targets.
const Target& target(const std::string& name);

/// Whether every program that loads is also called. By default only some programs are called, because calls are slow. Tests
/// of the corpus set this variable.
inline bool call_every_program = false;

std::vector<Target> io_targets();
std::vector<Target> exact_targets();
std::vector<Target> ckks_targets();
std::vector<Target> tfhe_targets();
std::vector<Target> cinnamon_targets();
std::vector<Target> program_targets();
std::vector<Target> switching_targets();

/// Runs `use` and catches typed errors. InternalError propagates, because it is a fault of the library.
template <class Use>
bool attempt(Use use) {
  try {
    use();
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

/// Throws std::logic_error, which no target catches, if `holds` is false.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// A file in memory with these bytes. The file has a path, for functions that read only from paths.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

/// Returns the bytes of an object that can be saved only to a path.
Bytes saved(const std::function<void(const std::string& path)>& save);

/// Returns the number of the slow operation to run on an input. The number is below `count` and depends on the input's
/// content.
std::size_t choice(std::span<const std::byte> input, std::size_t count);

}  // namespace heliograph::fuzz
