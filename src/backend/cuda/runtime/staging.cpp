#include "backend/cuda/runtime/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cuda/runtime/device.h"
#include "base/parallel.h"
#include "base/secret.h"

namespace heliograph::backend::cuda {

/// Reserves a block for one thread during its lifetime.
class Staging::Lease {
 public:
  explicit Lease(Staging& staging) : staging_(staging), block_(staging.taken()) {}
  ~Lease() { staging_.give(block_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::byte* memory(CudaQueue& queue) {
    if (!block_->pending) return block_->address;
    ++queue.state().counts.waits;
    queue.check(staging_.driver_.synchronize_event(block_->copied), "cannot wait for a copy between host and GPU");
    block_->pending = false;
    return block_->address;
  }
  void note(CudaQueue& queue, StreamHandle stream) {
    const Status status = staging_.driver_.record(block_->copied, stream);
    block_->pending = status == 0;
    if (status != 0)
      ++queue.state().counts.waits, staging_.driver_.synchronize(stream);  // after this wait the copy is complete
    queue.check(status, "cannot record a CUDA event");
  }

 private:
  Staging& staging_;
  Block* const block_;
};

Staging::~Staging() {
  for (const auto& block : blocks_) {
    if (block->pending) driver_.synchronize_event(block->copied);
    driver_.destroy_event(block->copied);
    driver_.unpin(block->address);
    wipe(block->address, kBlock);
    std::free(block->address);
  }
}

std::unique_ptr<Staging::Block> Staging::made() {
  auto block = std::make_unique<Block>();
  if (driver_.make_event(&block->copied) != 0) return nullptr;
  block->address = static_cast<std::byte*>(std::aligned_alloc(kBlock, kBlock));
  if (block->address != nullptr && driver_.pin(block->address, kBlock) == 0) {
    madvise(block->address, kBlock, MADV_DONTDUMP);
    return block;
  }
  std::free(block->address);
  driver_.destroy_event(block->copied);
  return nullptr;
}

bool Staging::usable() {
  const std::lock_guard lock(mutex_);
  if (!blocks_.empty() || exhausted_) return !blocks_.empty();
  if (auto block = made()) {
    free_.push_back(block.get());
    blocks_.push_back(std::move(block));
  }
  exhausted_ = blocks_.empty();
  return !exhausted_;
}

Staging::Block* Staging::taken() {
  std::unique_lock lock(mutex_);
  // Making a new block takes less time than waiting for a copy.
  if ((free_.empty() || free_.front()->pending) && blocks_.size() < kMost && !exhausted_) {
    if (auto block = made()) {
      blocks_.push_back(std::move(block));
      return blocks_.back().get();
    }
    exhausted_ = true;
  }
  given_.wait(lock, [&] { return !free_.empty(); });
  Block* const block = free_.front();
  free_.pop_front();
  return block;
}

void Staging::give(Block* block) {
  {
    const std::lock_guard lock(mutex_);
    block->pending ? free_.push_back(block) : free_.push_front(block);
  }
  given_.notify_one();
}

namespace {

/// Calls f(first byte, bytes) for each part of a block's size, on a few threads. These few threads saturate the memory; more
/// threads would wait for each other in the driver.
template <class F>
void each_part(std::size_t bytes, F f) {
  constexpr std::size_t kBlock = Staging::kBlock, kThreads = 8;
  const std::size_t parts = (bytes + kBlock - 1) / kBlock, threads = std::min(parts, kThreads);
  parallel_for(threads, bytes / sizeof(std::uint64_t), [&](std::size_t t) {
    for (std::size_t i = t; i < parts; i += threads) f(i * kBlock, std::min(kBlock, bytes - i * kBlock));
  });
}

}  // namespace

void Staging::upload(CudaQueue& queue, std::span<const std::byte> from, std::byte* to) {
  const StreamHandle stream = queue.stream()->handle();
  if (from.size() < kLeast || !usable()) {
    queue.check(driver_.upload(to, from.data(), from.size(), stream), "uploading");
    return;
  }
  each_part(from.size(), [&](std::size_t first, std::size_t bytes) {
    Lease block(*this);
    std::byte* const memory = block.memory(queue);
    std::memcpy(memory, from.data() + first, bytes);
    queue.check(driver_.upload(to + first, memory, bytes, stream), "uploading");
    block.note(queue, stream);
  });
}

void Staging::download(CudaQueue& queue, const std::byte* from, std::span<std::byte> to) {
  const StreamHandle stream = queue.stream()->handle();
  const auto copied = [&](std::byte* there, std::size_t first, std::size_t bytes) {
    queue.check(driver_.download(there, from + first, bytes, stream), "downloading");
  };
  if (to.size() < kLeast || !usable()) {
    copied(to.data(), 0, to.size());
    queue.wait();
    return;
  }
  queue.wait();  // wait once here instead of in each copying thread
  each_part(to.size(), [&](std::size_t first, std::size_t bytes) {
    Lease block(*this);
    std::byte* const memory = block.memory(queue);
    copied(memory, first, bytes);
    block.note(queue, stream);
    std::memcpy(to.data() + first, block.memory(queue), bytes);
  });
}

}  // namespace heliograph::backend::cuda
