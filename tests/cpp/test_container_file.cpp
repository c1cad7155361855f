// Containers on disk are saved and loaded, and failures of the file system are errors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "base/errors.h"
#include "container_sample.h"
#include "io/container.h"

namespace heliograph::io {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "heliograph-io-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream(path(name), std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Bytes read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  std::size_t entries() const { return std::distance(fs::directory_iterator(folder_), {}); }
  template <class Body>
  void expect_file_error(int code, Body body) const {
    try {
      body();
      ADD_FAILURE() << "no error";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  }
  fs::path folder_;
};
using ContainerFile = Folder;

TEST_F(ContainerFile, SaveAndLoad) {
  const Container before = sample();
  save(path("a.hg"), before);
  EXPECT_EQ(read("a.hg"), to_bytes(before));
  EXPECT_EQ(entries(), 1u);
  const Container after = load(path("a.hg"));
  EXPECT_TRUE(same(before, after) && after.verified);
  EXPECT_TRUE(same(load(path("a.hg"), {.secret = true}), before));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(after.array("words", "u64", {2, 3}).data.data()) % 64, 0u);
}

TEST_F(ContainerFile, LargeArraysCrossEveryBuffer) {
  std::vector<std::uint64_t> large((std::size_t{9} << 17) + 3);  // over 8 MiB, with an odd length
  std::iota(large.begin(), large.end(), 1);
  Container c = sample();
  c.arrays.push_back(Array::of<std::uint64_t>("large", {large.size()}, large));
  save(path("a.hg"), c);
  EXPECT_EQ(read("a.hg"), to_bytes(c));
  EXPECT_TRUE(same(load(path("a.hg")), c));
  Bytes bytes = read("a.hg");
  bytes[5'000'000] ^= std::byte{4};
  write("b.hg", bytes);
  EXPECT_THROW(load(path("b.hg")), DamagedFileError);
  EXPECT_FALSE(peek(path("b.hg")).verified);  // peek() reads no arrays
}

TEST_F(ContainerFile, Peek) {
  save(path("a.hg"), sample());
  const Container seen = peek(path("a.hg"));
  EXPECT_FALSE(seen.verified);
  EXPECT_EQ(seen.type, "test.sample");
  EXPECT_TRUE(seen.header == sample().header);
  EXPECT_EQ(seen.file_bytes, byte_size(sample()));
  EXPECT_EQ(seen.array("words", "u64", {2, 3}).bytes(), 48u);
  EXPECT_TRUE(seen.array("words", "u64", {2, 3}).data.empty());
  EXPECT_THROW(seen.array("words", "u64", {2, 3}).values<std::uint64_t>(), InternalError);
}

TEST_F(ContainerFile, ErrorsNameTheDamagedFile) {
  const Bytes good = to_bytes(sample());
  const auto refused = [&]<class E>(const E*, std::span<const std::byte> bytes, bool peek_too = true) {
    write("bad.hg", bytes);
    EXPECT_THROW(load(path("bad.hg")), E);
    if (peek_too) {
      EXPECT_THROW(peek(path("bad.hg")), E);
    }
    try {
      load(path("bad.hg"));
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + path("bad.hg") + "'"), std::string::npos) << error.what();
    }
  };
  const std::span<const std::byte> all(good);
  for (std::size_t length = 0; length < good.size(); length += 7) {
    refused(static_cast<DamagedFileError*>(nullptr), all.first(length));
  }
  Bytes bad = good;
  bad[0] = std::byte{0};
  refused(static_cast<FormatError*>(nullptr), bad);
  bad = good;
  bad[8] = std::byte{4};
  refused(static_cast<VersionError*>(nullptr), bad);
  bad = good;
  bad[good.size() - 1] ^= std::byte{1};
  refused(static_cast<DamagedFileError*>(nullptr), bad, false);
  bad = good;
  bad.push_back(std::byte{0});
  refused(static_cast<DamagedFileError*>(nullptr), bad);
}

TEST_F(ContainerFile, RefusesFoldersPipesAndAbsentFiles) {
  fs::create_directory(path("folder"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const bool peeking : {false, true}) {
    const auto open = [&](const std::string& name) { peeking ? peek(name) : load(name); };
    expect_file_error(ENOENT, [&] { open(path("absent")); });
    expect_file_error(ENOENT, [&] { open(""); });
    expect_file_error(ENOTDIR, [&] { write("plain", {}), open(path("plain/inside")); });
    expect_file_error(EISDIR, [&] { open(path("folder")); });
    expect_file_error(EINVAL, [&] { open(path("pipe")); });
    expect_file_error(EINVAL, [&] { open("/dev/null"); });
    expect_file_error(EINVAL, [&] { open(std::string("a\0b", 3)); });
  }
  expect_file_error(ENOENT, [&] { save(path("absent/a.hg"), sample()); });
  expect_file_error(EISDIR, [&] { save(path("folder"), sample()); });
  expect_file_error(EINVAL, [&] { save(path("pipe"), sample()); });
  expect_file_error(EINVAL, [&] { save(std::string("a\0b", 3), sample()); });
  expect_file_error(ENOENT, [&] { save("", sample()); });
  EXPECT_EQ(entries(), 3u);
}

TEST_F(ContainerFile, Permissions) {
  save(path("a.hg"), sample());
  save(path("shared.hg"), sample());
  fs::permissions(path("a.hg"), fs::perms::none);
  fs::permissions(folder_, fs::perms(0555));
  const bool administrator = ::geteuid() == 0;  // permissions do not limit root, so the test becomes another user
  if (administrator && ::seteuid(65534) != 0) GTEST_SKIP() << "cannot switch to another user";
  expect_file_error(EACCES, [&] { load(path("a.hg")); });
  expect_file_error(EACCES, [&] { peek(path("a.hg")); });
  expect_file_error(EACCES, [&] { save(path("b.hg"), sample()); });
  expect_file_error(EACCES, [&] { save(path("shared.hg"), sample()); });
  EXPECT_TRUE(same(load(path("shared.hg")), sample()));
  ASSERT_EQ(::seteuid(administrator ? 0 : ::geteuid()), 0);
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(ContainerFile, SecretFilesAreReadableByTheirOwnerOnly) {
  const auto mode = [&](const std::string& name) {
    struct stat status;
    return ::stat(path(name).c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  };
  const mode_t before = ::umask(0);
  save(path("open.hg"), sample());
  save(path("secret.hg"), sample(), true);
  save(path("was_open.hg"), sample());
  save(path("was_open.hg"), sample(), true);
  ::umask(before);
  EXPECT_EQ(mode("open.hg"), 0666u);
  EXPECT_EQ(mode("secret.hg"), 0600u);
  EXPECT_EQ(mode("was_open.hg"), 0600u);
  EXPECT_TRUE(same(load(path("secret.hg"), {.secret = true}), sample()));
}

TEST_F(ContainerFile, SavingToALinkKeepsTheLink) {
  save(path("real.hg"), sample());
  fs::create_symlink("real.hg", path("link.hg"));
  Container other = sample();
  other.type = "test.other";
  save(path("link.hg"), other);
  EXPECT_TRUE(fs::is_symlink(path("link.hg")));
  EXPECT_EQ(load(path("real.hg")).type, "test.other");
}

// Simulates a disk that becomes full: RLIMIT_FSIZE makes write() fail with EFBIG.
TEST_F(ContainerFile, AFailedSaveLeavesTheOldFile) {
  save(path("a.hg"), sample());
  const Bytes old = read("a.hg");
  std::vector<std::uint8_t> large(1 << 20, 7);
  Container c = sample();
  c.arrays.push_back(Array::of<std::uint8_t>("large", {large.size()}, large));
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 300'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_file_error(EFBIG, [&] { save(path("a.hg"), c); });
  expect_file_error(EFBIG, [&] { save(path("new.hg"), c, true); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read("a.hg"), old);
  EXPECT_EQ(entries(), 1u);  // the folder has neither a temporary file nor a new file
  save(path("a.hg"), c);
  EXPECT_TRUE(same(load(path("a.hg")), c));
}

/// Saves are killed at arbitrary moments. The folder is on tmpfs if available. Then no step waits for a disk, so kills occur
/// at every step.
class KilledSave : public ContainerFile {
 protected:
  void SetUp() override {
    const fs::path quick = "/dev/shm";
    std::string name = ((::access(quick.c_str(), W_OK) == 0 ? quick : fs::temp_directory_path()) / "heliograph-io-XXXXXX");
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    const int nameless = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0600);
    if (nameless < 0) GTEST_SKIP() << "the file system does not support unnamed files (O_TMPFILE)";
    ::close(nameless);
  }
  static Container version(const std::vector<std::uint8_t>& words, const char* type) {
    Container c = sample();
    c.type = type;
    c.arrays.push_back(Array::of<std::uint8_t>("key", {words.size()}, words));
    return c;
  }
  /// Calls `save_again` in a child process and kills it.
  template <class Save>
  void kill_while(Save save_again, std::size_t round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) save_again();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 137 * round % 3000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  /// Waits for the process that links a file to its name, which may start late, and returns the number of files.
  std::size_t settled_entries() {
    std::size_t seen = entries();
    for (int wait = 0; wait < 400 && seen > 1; ++wait, seen = entries())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return seen;
  }
  static constexpr std::size_t kRounds = 200;
  const std::vector<std::uint8_t> words_ = std::vector<std::uint8_t>(200'000, 0xa7);
};

TEST_F(KilledSave, LeavesTheOldOrTheNewFileAndNoOther) {
  const Container a = version(words_, "test.a"), b = version(words_, "test.b");
  save(path("key.hg"), a, true);
  std::size_t changed = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::size_t turn = 0;
    kill_while([&] { save(path("key.hg"), ++turn % 2 ? b : a, true); }, round);
    ASSERT_EQ(settled_entries(), 1u) << "round " << round;
    const Container c = load(path("key.hg"), {.secret = true});
    changed += c.type == "test.b";
    ASSERT_TRUE(same(c, c.type == "test.a" ? a : b)) << "round " << round;
  }
  EXPECT_GT(changed, 0u);
}

TEST_F(KilledSave, LeavesACompleteNewFileOrNone) {
  const Container a = version(words_, "test.a");
  std::size_t there = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    kill_while(
        [&] {
          fs::remove(path("key.hg")), save(path("key.hg"), a, true);
          std::this_thread::sleep_for(std::chrono::microseconds(300));
        },
        round);
    ASSERT_EQ(entries(), fs::exists(path("key.hg")) ? 1u : 0u) << "round " << round;
    if (!fs::exists(path("key.hg"))) continue;
    ASSERT_TRUE(same(load(path("key.hg"), {.secret = true}), a)) << "round " << round;
    ++there;
  }
  EXPECT_GT(there, 0u);
}

// The process that links a file must not be a child of the calling process, and must not run its signal handlers.
TEST_F(ContainerFile, ReplacingAFileUsesNoChildOfTheHost) {
  static volatile std::sig_atomic_t ended = 0;
  const auto handler = std::signal(SIGCHLD, [](int) { ended = ended + 1; });
  save(path("a.hg"), sample());
  save(path("a.hg"), sample(), true);
  std::signal(SIGCHLD, handler);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ContainerFile, AFileMayBeReplacedByItsOwnArrays) {
  save(path("a.hg"), sample());
  Container c = load(path("a.hg"));
  c.header["more"] = true;
  save(path("a.hg"), c);
  EXPECT_TRUE(load(path("a.hg")).header.bool_at("more"));
}

// ---- Memory

/// Returns a value of /proc/self/status in bytes.
std::size_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

/// Checks that `work` increases the process's memory by less than `limit` at any moment. Checks nothing if the kernel
/// reports no peak memory or a sanitizer keeps freed memory.
template <class Work>
void expect_peak_below(std::size_t limit, Work work) {
  bool told = (std::ofstream("/proc/self/clear_refs") << 5).flush().good();
#ifdef __SANITIZE_ADDRESS__
  told = false;
#endif
  const std::size_t before = status("VmRSS");
  work();
  const std::size_t peak = status("VmHWM");
  if (told) {
    EXPECT_LT(peak, before + limit);
  }
}

class LargeFile : public ContainerFile {
 protected:
  static constexpr std::size_t kArrays = 6, kEach = std::size_t{6} << 20, kSlack = std::size_t{3} << 20;

  /// Returns a container whose arrays are made while they are written.
  static Container large() {
    Container c = sample();
    for (std::size_t i = 0; i < kArrays; ++i) {
      c.arrays.push_back(Array::made("large" + std::to_string(i), "u8", {kEach}, [i] {
        return Held::of(std::vector<std::uint8_t>(kEach, static_cast<std::uint8_t>(i + 1)));
      }));
    }
    return c;
  }
  static bool holds(const Held& held, std::size_t i) {
    const auto expected = static_cast<std::byte>(i + 1);
    return held.bytes.size() == kEach &&
           std::all_of(held.bytes.begin(), held.bytes.end(), [&](std::byte b) { return b == expected; });
  }
  void change(const std::string& name, std::size_t offset) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset)).put('\x7f');
  }
};

TEST_F(LargeFile, SavingHoldsOneArrayInMemory) {
  expect_peak_below(kEach + kSlack, [&] { save(path("a.hg"), large()); });
  const Container c = load(path("a.hg"));
  for (std::size_t i = 0; i < kArrays; ++i)
    EXPECT_TRUE(holds(c.array("large" + std::to_string(i), "u8", {kEach}).read(), i));
  EXPECT_EQ(read("a.hg"), to_bytes(large()));
}

TEST_F(LargeFile, LoadingHasBoundedMemory) {
  save(path("a.hg"), large());
  expect_peak_below(kArrays * kEach + kSlack, [&] { load(path("a.hg")); });
  expect_peak_below(kEach + kSlack, [&] {
    // The arrays stay in the file; `take` reads one array, which is released before the next array is read.
    Container c = load(path("a.hg"), {.most_held = kArrays * kEach});
    for (std::size_t i = 0; i < kArrays; ++i) EXPECT_TRUE(holds(c.take("large" + std::to_string(i), "u8", {kEach}), i));
  });
  expect_peak_below((kArrays + 1) * kEach + kSlack, [&] {
    Container c = load(path("a.hg"));
    std::vector<Bytes> copies;
    for (std::size_t i = 0; i < kArrays; ++i) {
      const Held held = c.take("large" + std::to_string(i), "u8", {kEach});
      copies.emplace_back(held.bytes.begin(), held.bytes.end());
    }
  });
}

TEST_F(LargeFile, ArraysStayInTheFile) {
  save(path("a.hg"), large());
  const Bytes whole = read("a.hg");
  Container c;
  expect_peak_below(kSlack, [&] { c = load(path("a.hg"), {.most_held = kArrays * kEach}); });
  EXPECT_TRUE(c.verified && c.type == "test.sample");
  expect_peak_below(kEach + kSlack, [&] { save(path("b.hg"), c); });
  EXPECT_EQ(read("b.hg"), whole);
  save(path("a.hg"), sample());  // another file takes the name; the open file stays readable
  fs::remove(path("b.hg"));
  EXPECT_EQ(to_bytes(c), whole);
}

TEST_F(LargeFile, LaterChangesAreDetected) {
  save(path("a.hg"), large());
  const Container c = load(path("a.hg"), {.most_held = 0});
  const std::size_t last = fs::file_size(path("a.hg")) - 32 - kEach / 2;
  const auto told = [&](const Array& array, const std::string& why) {
    try {
      array.read();
      ADD_FAILURE() << "no error";
    } catch (const DamagedFileError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + path("a.hg") + "'"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  change("a.hg", last);
  told(c.arrays.back(), "'large5' was changed after the file was loaded");
  EXPECT_TRUE(holds(c.arrays[c.arrays.size() - 2].read(), kArrays - 2));  // the change does not affect the other arrays
  EXPECT_THROW(save(path("b.hg"), c), DamagedFileError);
  EXPECT_FALSE(fs::exists(path("b.hg")));
  fs::resize_file(path("a.hg"), last);
  told(c.arrays.back(), "truncated after it was loaded");
  EXPECT_THROW(load(path("a.hg"), {.most_held = 0}), DamagedFileError);
}

TEST_F(LargeFile, ADamagedFileYieldsNoArrays) {
  save(path("a.hg"), large());
  for (const std::size_t offset : {std::size_t{40}, fs::file_size(path("a.hg")) / 2, fs::file_size(path("a.hg")) - 1}) {
    change("a.hg", offset);  // changes a byte of the header, of an array, or of the digest
    for (const std::size_t held : {std::size_t{0}, kAnyBytes}) {
      try {
        load(path("a.hg"), {.most_held = held});
        ADD_FAILURE() << "no error";
      } catch (const DamagedFileError& error) {
        EXPECT_NE(std::string(error.what()).find("its digest does not match"), std::string::npos) << error.what();
      }
    }
    save(path("a.hg"), large());
  }
}

// Reads a file that another program wrote from docs/format.md alone. Files of every version remain readable.
TEST(ContainerKnownAnswer, Version1) {
  const std::string name = std::string(HELIOGRAPH_TEST_DATA) + "/container-v1.hg";
  const Container kept = load(name);
  EXPECT_TRUE(same(kept, sample()));
  EXPECT_EQ(kept.file_bytes, byte_size(sample()));
  std::ifstream file(name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(kept.version, 1u);
  const auto bytes = std::as_bytes(std::span(text));
  Bytes written = to_bytes(sample());  // version 3 has the same layout
  EXPECT_EQ(from_bytes(written).version, 3u);
  written[8] = std::byte{1};
  EXPECT_TRUE(std::equal(written.begin(), written.end() - 32, bytes.begin(), bytes.end() - 32));
}

}  // namespace
}  // namespace heliograph::io
