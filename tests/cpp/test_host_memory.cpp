// Memory limits of the process, read from trees of control groups as on machines and in containers.
#include "base/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace heliograph {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
namespace fs = std::filesystem;

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("heliograph-memory-" + std::to_string(getpid()))).string();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(HostMemory, WithoutControlGroupsHasNoLimit) {
  EXPECT_EQ(group_memory(root_).limit, kNone);
  EXPECT_EQ(group_memory(root_).room, kNone);
}

TEST_F(HostMemory, InAContainerIsTheContainersLimit) {  // cgroup v2 with its own namespace: the path is the root
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "4096000\n");
  write("/sys/fs/cgroup/memory.current", "1000000\n");
  write("/sys/fs/cgroup/memory.stat", "anon 400000\ninactive_file 100000\nactive_file 200000\nslab_reclaimable 1000\n");
  EXPECT_EQ(group_memory(root_).limit, 4096000u);
  EXPECT_EQ(group_memory(root_).room, 4096000u - (1000000 - 301000));
}

TEST_F(HostMemory, InASystemdUnitIsTheSmallestLimitOnItsPath) {  // cgroup v2, MemoryMax= of a systemd slice
  write("/proc/self/cgroup", "0::/system.slice/heliograph.service\n");
  write("/sys/fs/cgroup/system.slice/heliograph.service/memory.max", "max\n");
  write("/sys/fs/cgroup/system.slice/memory.max", "8000000\n");
  write("/sys/fs/cgroup/system.slice/memory.current", "9000000\n");
  EXPECT_EQ(group_memory(root_).limit, 8000000u);
  EXPECT_EQ(group_memory(root_).room, 0u);
  write("/sys/fs/cgroup/system.slice/heliograph.service/memory.max", "2000000\n");
  EXPECT_EQ(group_memory(root_).limit, 2000000u);
}

TEST_F(HostMemory, WithVersion1IsTheGroupsLimit) {  // the path is that of the host; in the container its folder is missing
  write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n1:name=systemd:/docker/0123\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
  EXPECT_EQ(group_memory(root_).limit, 5000000u);
  EXPECT_EQ(group_memory(root_).room, 3500000u);
  write("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "3000000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // this number means no limit in cgroup v1
  EXPECT_EQ(group_memory(root_).limit, 3000000u);
}

TEST_F(HostMemory, IsAtMostTheMachinesMemory) {
  EXPECT_GT(host_memory(), 0u);
  EXPECT_LE(host_memory(),
            static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_LE(available_host_memory(), host_memory());
}

}  // namespace
}  // namespace heliograph
