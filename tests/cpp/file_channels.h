// A processor device with channels to other processes' devices, simulated by files. The device tests how the mesh uses
// channels, without GPUs.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "device/device.h"

namespace heliograph::test {

class FileChannel final : public device::Channel {
 public:
  FileChannel(std::filesystem::path folder, std::size_t place, std::chrono::milliseconds limit)
      : folder_(std::move(folder)), place_(place), limit_(limit) {}

  void exchange(device::Queue& queue, std::span<const Part> sends, std::span<const Part> receives) override {
    queue.wait();
    for (const Part& p : sends) {
      const std::filesystem::path path = path_of(place_, p.place, sent_[p.place]++), aside = path.string() + ".part";
      std::ofstream(aside, std::ios::binary).write(reinterpret_cast<const char*>(p.address), static_cast<long>(p.bytes));
      std::filesystem::rename(aside, path);
    }
    for (const Part& p : receives) {
      const std::filesystem::path path = path_of(p.place, place_, received_[p.place]++);
      const auto until = std::chrono::steady_clock::now() + limit_;
      while (!std::filesystem::exists(path)) {
        if (aborted_) return;  // an aborted exchange ends without an error
        if (std::chrono::steady_clock::now() > until) throw DeviceError("an exchange between members did not end in time");
        usleep(200);
      }
      if (std::filesystem::file_size(path) != p.bytes) throw DeviceError("a message has another size than expected");
      std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(p.address), static_cast<long>(p.bytes));
      std::filesystem::remove(path);
    }
  }
  void check() override {}
  void abort() noexcept override { aborted_ = true; }

 private:
  std::filesystem::path path_of(std::size_t from, std::size_t to, std::size_t number) const {
    return folder_ / (std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(number));
  }

  std::filesystem::path folder_;
  std::size_t place_;
  std::chrono::milliseconds limit_;
  std::map<std::size_t, std::size_t> sent_, received_;
  std::atomic<bool> aborted_{false};
};

class ChannelProcessor final : public device::Device, private device::Endpoint {
 public:
  std::string name() const override { return cpu_->name(); }
  std::string description() const override { return cpu_->description(); }
  device::MemoryState memory() const override { return cpu_->memory(); }
  device::Buffer allocate(std::size_t bytes, device::Queue& q) override { return cpu_->allocate(bytes, q); }
  std::unique_ptr<device::Queue> make_queue() override { return cpu_->make_queue(); }
  void upload(device::Queue& q, std::span<const std::byte> from, std::byte* to) override { cpu_->upload(q, from, to); }
  void download(device::Queue& q, const std::byte* from, std::span<std::byte> to) override { cpu_->download(q, from, to); }
  device::Kernels& kernels() override { return cpu_->kernels(); }
  bool in_host_memory() const override { return true; }

  device::Capabilities capabilities() override { return {.endpoint = this}; }
  std::string identity() const override {
    return "file-" + std::to_string(getpid()) + "-" + std::to_string(reinterpret_cast<std::uintptr_t>(this));
  }
  std::vector<std::byte> invite() override {
    std::string folder = (std::filesystem::temp_directory_path() / "heliograph-channels-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) throw DeviceError("the folder for the channels' files is not set");
    std::vector<std::byte> bytes(folder.size());
    std::memcpy(bytes.data(), folder.data(), folder.size());
    return bytes;
  }
  std::unique_ptr<device::Channel> connect(std::span<const std::byte> invitation, std::size_t place, std::size_t places,
                                           const device::WaitLimit& wait_limit) override {
    const std::filesystem::path folder(std::string(reinterpret_cast<const char*>(invitation.data()), invitation.size()));
    std::ofstream(folder / ("here-" + std::to_string(place))) << place;
    const auto until = std::chrono::steady_clock::now() + wait_limit.limit;
    for (std::size_t p = 0; p < places; ++p) {  // the channels are ready when each member has written its file
      while (!std::filesystem::exists(folder / ("here-" + std::to_string(p)))) {
        wait_limit.check();
        if (std::chrono::steady_clock::now() > until) throw DeviceError("not all members joined the channels in time");
        usleep(200);
      }
    }
    return std::make_unique<FileChannel>(folder, place, wait_limit.limit);
  }

 private:
  std::unique_ptr<device::Device> cpu_ = device::open_device("cpu");
};

}  // namespace heliograph::test
