// The members of a mesh as placement targets of recorded programs.
#pragma once

#include "device/members.h"
#include "device/session.h"
#include "mesh/queue.h"

namespace heliograph::mesh {

class MeshMembers final : public device::Members {
 public:
  /// Both arguments must outlive the object.
  MeshMembers(MeshQueue& queue, const MeshTfheKernels& lwe);

  std::size_t size() const override { return state_.size(); }
  std::string name(std::size_t member) const override { return state_.member(member).device->name(); }
  double seconds(const device::Call& call, const device::Count& work, u64 bytes, std::size_t executor) const override;
  Link link(std::size_t from, std::size_t to) const override;
  Host host(std::size_t executor) const override;
  std::size_t memory(std::size_t member) const override { return state_.memory_of(member).total; }
  std::size_t holder(const View& view) const override;
  std::unique_ptr<device::Moves> moves() override;
  Buffer copy(const Buffer& memory, std::size_t member) override;
  void on(std::size_t executor, const std::function<void()>& body) override;
  const device::Session* session(std::size_t member) override;
  void prepare(const device::Call& call, std::size_t member) override;
  void alone(std::size_t member, const std::function<void()>& body) override;
  Buffer local(const Buffer& memory, std::size_t member) override;
  std::byte* address(const View& view, std::size_t member) override;
  Buffer key(const Buffer& key, std::size_t member) override;
  Buffer adopt(const View& from, const View& shape, std::size_t member) override;

 private:
  double seconds_alone(const device::Call& call, const device::Count& work, u64 bytes) const;
  double bootstrap_seconds(const device::Evaluate& call, const device::Count& work, std::size_t executor) const;
  MeshMemory& memory_of(const Buffer& memory) const;

  MeshQueue& queue_;
  State& state_;
  const MeshTfheKernels& lwe_;
  const bool always_;  // tests set it: members in host memory then also run their own programs
  std::mutex mutex_;
  std::vector<std::unique_ptr<const device::Session>> sessions_;  // made at first use
};

}  // namespace heliograph::mesh
