// Barrier of queues of several GPUs: each queue sets a flag in every other GPU's memory and waits for all flags in its
// own.
#include "backend/cuda/runtime/launch.cuh"
#include "backend/cuda/runtime/meeting.h"

namespace heliograph::backend::cuda {

namespace {

struct Arguments {
  u32* flags[CudaMeeting::kMost];  // flags of each member, in the member's memory
  u32 member, members, round;
};

__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__global__ void meet_kernel(const __grid_constant__ Arguments a) {
  take_turn();
  const u32 other = threadIdx.x;
  if (other >= a.members) return;
  u32* const theirs = a.flags[other] + a.member;
  const u32* const mine = a.flags[a.member] + other;
  __threadfence_system();  // makes earlier work of this queue visible to readers of the flag
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(a.round) : "memory");
  constexpr u64 kPatience = 60'000'000'000;  // ns; a longer wait for a member ends in a fault
  const u64 start = nanoseconds();
  for (;;) {
    u32 seen;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
    if (static_cast<int>(seen - a.round) >= 0) break;
    if (nanoseconds() - start > kPatience) __trap();
  }
}

}  // namespace

CudaMeeting::CudaMeeting(std::span<device::Device* const> members, std::span<device::Queue* const> queues)
    : rounds_(members.size()) {
  const std::vector<u32> none(kMost);
  for (std::size_t m = 0; m < members.size(); ++m) {
    flags_.push_back(members[m]->allocate(none.size() * sizeof(u32), *queues[m]));
    members[m]->upload(*queues[m], std::as_bytes(std::span(none)), flags_[m]->address());
  }
  for (device::Queue* q : queues) q->wait();  // flags must be zero before any member sets its flag
}

void CudaMeeting::meet(std::size_t member, device::Queue& queue) {
  Arguments a{};
  a.member = static_cast<u32>(member), a.members = static_cast<u32>(flags_.size()), a.round = ++rounds_[member];
  for (std::size_t m = 0; m < flags_.size(); ++m) a.flags[m] = reinterpret_cast<u32*>(flags_[m]->address());
  launch(queue, "meet", &meet_kernel, 1, 32, 0, a);
}

}  // namespace heliograph::backend::cuda
