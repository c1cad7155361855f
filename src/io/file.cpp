#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/random.h"
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
  void swap(File& other) { std::swap(descriptor_, other.descriptor_); }
  int close() { return ::close(std::exchange(descriptor_, -1)); }

 private:
  int descriptor_;
};

/// A file open for reading, and its size.
struct Input final : layout::Stream {
  explicit Input(const std::string& path) : path(path), file(open(path)) {
    struct stat status;
    if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
    if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
    if (!S_ISREG(status.st_mode)) throw FileError("cannot read '" + path + "': not a regular file", EINVAL);
    size = static_cast<std::size_t>(status.st_size);
  }

  /// Fills `out` with the next bytes. Throws DamagedFileError if the file ends first.
  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t got = ::read(file.get(), out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path, errno);
      if (got == 0) throw DamagedFileError("the file was truncated while it was read");
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

  /// Fills `out` with the bytes from `offset` on; does not change the read position.
  void read_at(std::size_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path, errno);
      if (got == 0) throw DamagedFileError("the file was truncated after it was loaded");
      out = out.subspan(static_cast<std::size_t>(got)), offset += static_cast<std::size_t>(got);
    }
  }

  std::span<const std::byte> next(std::span<std::byte> room) override {
    read(room);
    return room;
  }

  layout::Prefix read_prefix(std::span<std::byte, layout::prefix_bytes> out) {
    const auto first = out.first(std::min(size, layout::prefix_bytes));
    read(first);
    return layout::read_prefix(first, size);
  }

  const std::string path;
  const File file;
  std::size_t size = 0;

 private:
  static int open(const std::string& path) {
    check_path("read", path);
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: no wait for a named pipe
    if (descriptor < 0) fail("read", path, errno);
    return descriptor;
  }
};

/// Runs `body`, and puts the path in front of messages of errors in the file's contents.
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

/// Returns the file that a save replaces, with links resolved, so that links are kept. Throws FileError if that file is not
/// a regular file.
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

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

/// Returns the path of a random new name in the folder.
std::string random_name(const std::string& folder) {
  std::array<unsigned char, 8> random;
  fill_random(random);
  return folder + "/.heliograph-" + to_hex(random) + ".tmp";
}

/// Gives the open file at `from` (a link in /proc) the name `target`, and replaces any file of that name. No system call
/// replaces an existing name by an unnamed file, so the file temporarily has the name `between`. Returns an errno; 0 on
/// success.
int link_over(const char* from, const char* between, const char* target) {
  if (::linkat(AT_FDCWD, from, AT_FDCWD, between, AT_SYMLINK_FOLLOW) != 0) return errno;
  if (::rename(between, target) == 0) return 0;
  const int code = errno;
  ::unlink(between);
  return code;
}

/// Calls link_over in a child process that shares this process's memory, and waits for the child. So no secret remains under
/// the temporary name if this process is killed. The file remains only if both processes end within these microseconds, for
/// example with the control group or the machine.
int link_over_apart(const char* from, const char* between, const char* target) {
  struct Names {
    const char *from, *between, *target;
  } names{from, between, target};
  const auto run = [](void* given) {
    const auto* const n = static_cast<const Names*>(given);
    return link_over(n->from, n->between, n->target);
  };
  constexpr std::size_t stack_bytes = std::size_t{1} << 16;
  const std::unique_ptr<std::byte[]> stack(new std::byte[stack_bytes]);
  sigset_t all, before;  // block signals: this process's handlers must not run in the child
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // The child has no exit signal, so that a program that waits for its own children does not see this one.
  const pid_t helper = ::clone(run, stack.get() + stack_bytes, CLONE_VM | CLONE_VFORK, &names);
  int status = 0;
  pid_t waited = -1;
  while (helper > 0 && (waited = ::waitpid(helper, &status, __WCLONE)) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (helper < 0) return link_over(from, between, target);  // the system could not start a process
  return waited == helper && WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/// A new file that disappears unless it gets the target's name. The new file is unnamed if the target's file system supports
/// this (O_TMPFILE: ext4, xfs, btrfs, tmpfs). On other file systems the new file has a temporary name in the target's
/// folder, and remains if the process is killed.
class Temporary {
 public:
  Temporary(const std::string& path, bool secret)
      : path_(path), target_(target_of(path)), folder_(folder_of(target_)), file_(open_nameless(secret)) {
    if (file_.get() >= 0) return;
    for (int attempt = 0; file_.get() < 0; ++attempt) {  // if the name exists, another process has it
      name_ = random_name(folder_);
      File named(::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode(secret)));
      const int code = errno;
      file_.swap(named);
      if (file_.get() >= 0 || ((code == EEXIST || code == EINTR) && attempt < 100)) continue;
      name_.clear();
      fail("write", path_, code);
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }

  void move_to_target(bool to_disk) {
    if (to_disk && ::fsync(file_.get()) != 0) fail("write", path_, errno);
    if (name_.empty()) return give_name();
    if (file_.close() != 0) fail("write", path_, errno);
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("write", path_, errno);
    name_.clear();
  }

 private:
  static mode_t mode(bool secret) { return secret ? 0600 : 0666; }

  int open_nameless(bool secret) const {
    if (::faccessat(AT_FDCWD, "/proc/self/fd", X_OK, AT_EACCESS) != 0) return -1;  // /proc is needed later to link the file
    // If open() fails for another reason, the later attempt with a temporary name reports this reason.
    return ::open(folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode(secret));
  }

  void give_name() {
    const std::string link = "/proc/self/fd/" + std::to_string(file_.get());
    if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, target_.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
    int code = errno;
    if (code == EEXIST) code = link_over_apart(link.c_str(), random_name(folder_).c_str(), target_.c_str());
    if (code != 0) fail("write", path_, code);
  }

  const std::string& path_;
  std::string target_, folder_;
  std::string name_;  // temporary name; empty if the file is unnamed
  File file_;
};

/// Reads an array's bytes again from the file and compares their digest with `digest`.
Held read_again(const Input& from, const std::string& name, std::size_t offset, std::size_t bytes, const Digest& digest) {
  const std::shared_ptr<std::byte> memory = layout::allocate(bytes, false);
  const std::span<std::byte> all(memory.get(), bytes);
  Sha256 hash;
  for (std::size_t here = 0; here < bytes; here += layout::chunk_bytes) {
    const auto chunk = all.subspan(here, std::min(layout::chunk_bytes, bytes - here));
    from.read_at(offset + here, chunk);
    hash.update(chunk);
  }
  if (hash.finish() != digest) throw DamagedFileError("array '" + name + "' was changed after the file was loaded");
  return {all, memory};
}

}  // namespace

void save(const std::string& path, const Container& container, bool secret) {
  const layout::Plan plan = layout::plan(container);
  Temporary temporary(path, secret);
  layout::emit(container, plan, [&](std::span<const std::byte> bytes) { temporary.write(bytes); });
  temporary.move_to_target(secret);
}

Container load(const std::string& path, const Reading& how) {
  // The file is read, not mapped: if another process truncates or changes it, reading gives an error instead of a signal or
  // wrong data.
  return naming(path, [&] {
    const auto input = std::make_shared<Input>(path);
    std::array<std::byte, layout::prefix_bytes> first{};
    const layout::Prefix prefix = input->read_prefix(first);
    layout::require_within(prefix, how.most_bytes);
    const bool stays = layout::array_bytes(prefix) > how.most_held;
    const layout::Place place = stays        ? layout::Place::nowhere
                                : how.secret ? layout::Place::secret_memory
                                             : layout::Place::memory;
    layout::Pass pass = layout::read(*input, prefix, first, place, stays);
    for (std::size_t i = 0; stays && i < pass.container.arrays.size(); ++i) {
      Array& array = pass.container.arrays[i];
      array.elsewhere = [input, name = array.name, bytes = array.bytes(), offset = array.offset, digest = pass.digests[i]] {
        return naming(input->path, [&] { return read_again(*input, name, offset, bytes, digest); });
      };
    }
    return std::move(pass.container);
  });
}

Container verify(const std::string& path) {
  return naming(path, [&] {
    Input input(path);
    std::array<std::byte, layout::prefix_bytes> first{};
    const layout::Prefix prefix = input.read_prefix(first);
    return layout::read(input, prefix, first, layout::Place::nowhere).container;
  });
}

Container peek(const std::string& path) {
  return naming(path, [&] {
    Input input(path);
    std::array<std::byte, layout::prefix_bytes> first{};
    const layout::Prefix prefix = input.read_prefix(first);
    std::vector<std::byte> text(prefix.header_bytes);
    input.read(text);
    Container container = layout::read_header(text, prefix);
    container.verified = false;
    return container;
  });
}

}  // namespace heliograph::io
