// What is fuzzed: each target takes any bytes and must end, in bounded time and memory, with a result or a typed error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "sign.h"

namespace heliograph::fuzz {

struct Target {
  std::string name;
  void (*run)(std::span<const std::byte> input);  // throws what is a fault
  /// Valid inputs to begin from; made once.
  const std::vector<Bytes>& (*bases)();
  bool container;  // inputs are containers: they are mutated as such and signed again
};

const std::vector<Target>& targets();
/// ParameterError naming those there are.
const Target& target(const std::string& name);

std::vector<Target> io_targets();
std::vector<Target> exact_targets();
std::vector<Target> ckks_targets();
std::vector<Target> tfhe_targets();
std::vector<Target> cinnamon_targets();
std::vector<Target> program_targets();

/// Runs `use`, which may refuse by a typed error. InternalError is none: it is a broken promise of our own.
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

/// Throws what no target forgives.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Bytes as a file of their own, in memory: what is read by its path alone.
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

/// The bytes of what can only be saved to a path.
Bytes saved(const std::function<void(const std::string& path)>& save);

/// Which of the costly uses an input is put to: a number below `count`, by its content.
std::size_t choice(std::span<const std::byte> input, std::size_t count);

}  // namespace heliograph::fuzz
