#include "targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace heliograph::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> found;
    for (const auto& list : {io_targets(), exact_targets(), ckks_targets(), tfhe_targets(), cinnamon_targets(),
                             program_targets(), switching_targets()})
      found.insert(found.end(), list.begin(), list.end());
    return found;
  }();
  return all;
}

const Target& target(const std::string& name) {
  std::string known;
  for (const Target& t : targets()) {
    if (t.name == name) return t;
    known += (known.empty() ? "" : ", ") + t.name;
  }
  throw ParameterError("there is no target \"" + name + "\"; the targets are " + known);
}

MemoryFile::MemoryFile(std::span<const std::byte> bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  expect(file_ >= 0, "cannot make a file in memory");
  path_ = "/proc/self/fd/" + std::to_string(file_);
  expect(::write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "no memory for a file in memory");
}

MemoryFile::~MemoryFile() { ::close(file_); }

Bytes saved(const std::function<void(const std::string& path)>& save) {
  std::string path = std::filesystem::temp_directory_path() / "heliograph-fuzz-XXXXXX";
  const int file = ::mkstemp(path.data());
  expect(file >= 0, "cannot make a temporary file");
  ::close(file);
  save(path);
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::size_t choice(std::span<const std::byte> input, std::size_t count) {
  std::uint64_t tail = 0;  // the last bytes of a container, which belong to its digest
  std::memcpy(&tail, input.last(std::min(input.size(), sizeof tail)).data(), std::min(input.size(), sizeof tail));
  return static_cast<std::size_t>(tail % count);
}

}  // namespace heliograph::fuzz
