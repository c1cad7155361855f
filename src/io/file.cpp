#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "io/layout.h"

namespace heliograph::io {
namespace {

[[noreturn]] void fail(const std::string& verb, const std::string& path, int code) {
  throw FileError("cannot " + verb + " '" + path + "': " + std::generic_category().message(code), code);
}

void check_path(const std::string& verb, const std::string& path) {
  if (path.find('\0') != path.npos) throw FileError("cannot " + verb + " a path with a zero byte in it", EINVAL);
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int close() { return ::close(std::exchange(descriptor_, -1)); }

 private:
  int descriptor_;
};

/// A file open for reading, with its size.
struct Input {
  explicit Input(const std::string& path) : path(path), file(open(path)) {
    struct stat status;
    if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
    if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
    if (!S_ISREG(status.st_mode)) throw FileError("cannot read '" + path + "': not a regular file", EINVAL);
    size = static_cast<std::size_t>(status.st_size);
  }

  /// Fills `out` with the next bytes; DamagedFileError where the file ends first.
  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t got = ::read(file.get(), out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path, errno);
      if (got == 0) throw DamagedFileError("truncated while it was read");
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

  layout::Prefix read_prefix(std::span<std::byte, layout::prefix_bytes> out) {
    const auto first = out.first(std::min(size, layout::prefix_bytes));
    read(first);
    return layout::read_prefix(first, size);
  }

  const std::string& path;
  File file;
  std::size_t size = 0;

 private:
  static int open(const std::string& path) {
    check_path("read", path);
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not block here
    if (descriptor < 0) fail("read", path, errno);
    return descriptor;
  }
};

/// Runs `body`, putting the path before the message of a file that cannot be read.
template <class Body>
auto naming(const std::string& path, Body body) {
  const auto with_path = [&](const Error& error) { return "'" + path + "': " + error.what(); };
  try {
    return body();
  } catch (const DamagedFileError& error) {
    throw DamagedFileError(with_path(error));
  } catch (const VersionError& error) {
    throw VersionError(with_path(error));
  } catch (const FormatError& error) {
    throw FormatError(with_path(error));
  }
}

/// Where a save ends up: through links, so that a link stays one. Only regular files are replaced.
std::string target_of(const std::string& path) {
  check_path("write", path);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) fail("write", path, errno);
    return path;
  }
  if (S_ISDIR(status.st_mode)) fail("write", path, EISDIR);
  if (!S_ISREG(status.st_mode)) throw FileError("cannot write '" + path + "': not a regular file", EINVAL);
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real != nullptr ? std::string(real.get()) : path;
}

/// A new file beside the target that disappears unless it is moved there.
class Temporary {
 public:
  Temporary(const std::string& path, bool secret) : path_(path), target_(target_of(path)) {
    const std::size_t slash = target_.rfind('/');
    const std::string folder = slash == target_.npos ? "" : target_.substr(0, slash + 1);
    int descriptor = -1;
    for (int attempt = 0; descriptor < 0 && attempt < 100; ++attempt) {
      std::array<unsigned char, 8> random;
      if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) continue;
      name_ = folder + ".heliograph-" + to_hex(random) + ".tmp";
      descriptor = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0600 : 0666);
      if (descriptor < 0 && errno != EEXIST && errno != EINTR) fail("write", path_, errno);
    }
    if (descriptor < 0) fail("write", path_, EEXIST);
    file_.emplace(descriptor);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file_->get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }

  void move_to_target(bool to_disk) {
    if (to_disk && ::fsync(file_->get()) != 0) fail("write", path_, errno);
    if (file_->close() != 0) fail("write", path_, errno);
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("write", path_, errno);
    name_.clear();
  }

 private:
  const std::string& path_;
  std::string target_, name_;
  std::optional<File> file_;
};

}  // namespace

void save(const std::string& path, const Container& container, bool secret) {
  const layout::Plan plan = layout::plan(container);
  Temporary temporary(path, secret);
  layout::emit(container, plan, [&](std::span<const std::byte> bytes) { temporary.write(bytes); });
  temporary.move_to_target(secret);
}

Container load(const std::string& path, bool secret, std::size_t most_bytes) {
  // Read, not mapped: a file cut short or changed by another process is then an error, not a signal or a surprise.
  return naming(path, [&] {
    Input input(path);
    std::array<std::byte, layout::prefix_bytes> first{};
    const layout::Prefix prefix = input.read_prefix(first);
    layout::require_within(prefix, most_bytes);
    const std::shared_ptr<std::byte> storage = layout::allocate(prefix.total_bytes, secret);
    const std::span<std::byte> whole(storage.get(), prefix.total_bytes);
    std::copy(first.begin(), first.end(), whole.begin());
    Sha256 hash;
    hash.update(first);
    const std::size_t end = whole.size() - layout::digest_bytes;
    for (std::size_t here = first.size(); here < end;) {
      const auto chunk = whole.subspan(here, std::min(layout::chunk_bytes, end - here));
      input.read(chunk);
      hash.update(chunk);
      here += chunk.size();
    }
    input.read(whole.subspan(end));
    Container container = layout::read_whole(whole, prefix, hash.finish());
    container.storage = storage;
    return container;
  });
}

Container peek(const std::string& path) {
  return naming(path, [&] {
    Input input(path);
    std::array<std::byte, layout::prefix_bytes> first{};
    const layout::Prefix prefix = input.read_prefix(first);
    std::vector<std::byte> text(prefix.header_bytes);
    input.read(text);
    std::vector<std::size_t> offsets;
    Container container = layout::read_header(text, prefix, offsets);
    container.verified = false;
    return container;
  });
}

}  // namespace heliograph::io
