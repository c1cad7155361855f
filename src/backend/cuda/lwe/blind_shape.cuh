// The kernels of one shape, and the choice between them.
#pragma once

#include "backend/cuda/lwe/blind_quick.cuh"

namespace heliograph::backend::cuda {

/// Maximum number of samples in a batch for which the sums over the values of a group of key bits are computed in advance.
inline constexpr u32 kBundled = 4;

/// Samples per thread, if the batch has enough samples.
template <u32 GADGET_LENGTH, u32 GROUP>
inline constexpr u32 kTogether = GADGET_LENGTH == 1 && GROUP <= 2 ? 2 : 1;

template <u32 LOG_N, u32 K, u32 GADGET_LENGTH, u32 GROUP>
struct BlindShape {
  template <u32 S>
  static u32 sets(const State& state, u32 n) {
    using B = Blind<LOG_N, K, GADGET_LENGTH, GROUP, S>;
    u32 r = B::kMostSets;
    while (r > 1 && B::shared_bytes(r, n) > state.properties().shared_bytes_a_block) --r;
    return r;
  }
  template <u32 S>
  static void launch_with(device::Queue& queue, const BlindArguments& a, u32 sets) {
    using B = Blind<LOG_N, K, GADGET_LENGTH, GROUP, S>;
    const u32 samples = S * sets;
    launch(queue, "bootstrap", blind_rotation<LOG_N, K, GADGET_LENGTH, GROUP, S>, (a.count + samples - 1) / samples,
           B::kSet * sets, B::shared_bytes(sets, a.n), a);
  }
  template <u32 VALUES>
  static void rotate_quickly(device::Queue& queue, const State& state, const BlindArguments& a) {
    using Q = Quick<LOG_N, K, GROUP, VALUES>;
    const u32 depth = Q::depth(state, a.n);
    launch(queue, "bootstrap", quick_rotation<LOG_N, K, GROUP, VALUES>, a.count, Q::kThreads,
           depth * Q::kTileBytes + Q::fixed_bytes(a.n), a, depth);
  }
  static void rotate_bundled(device::Queue& queue, BlindArguments a) {
    CudaQueue& q = own(queue);
    State& state = q.state();
    using Q = Quick<LOG_N, K, GROUP, 1>;
    const StreamHandle stream = q.stream()->handle();
    const std::size_t size = Pool::size_class(std::size_t{a.count} * (a.n / GROUP) * 16 * Q::kTileBytes);
    void* sums = state.pool().take(stream, size);
    if (sums == nullptr) q.check(state.allocate(size, stream, &sums), "memory for sums of the bootstrapping key");
    launch(queue, "bootstrap", bundle<LOG_N, K, GROUP>, u64{a.count} * (a.n / GROUP) * (K + 1) * 16,
           BlindTransform<LOG_N>::kThreads, 0, a, static_cast<double2*>(sums));
    a.key = static_cast<const Complex*>(sums);
    rotate_quickly<1>(queue, state, a);
    state.pool().keep(stream, sums, size);  // the memory stays reserved for later calls on this stream
  }
  static void rotate(device::Queue& queue, const State& state, const BlindArguments& a) {
    constexpr u32 S = kTogether<GADGET_LENGTH, GROUP>;
    const u32 processors = static_cast<u32>(state.properties().processors), most = sets<S>(state, a.n);
    if constexpr (GADGET_LENGTH == 1) {
      if (state.properties().major >= 9) {
        if (a.count <= kBundled) return rotate_bundled(queue, a);
        if (a.count <= processors) return rotate_quickly<1u << GROUP>(queue, state, a);
      }
    }
    // Distributes few samples over all multiprocessors.
    const u32 each = (a.count + processors - 1) / processors;
    if (S > 1 && each < S) return launch_with<1>(queue, a, 1);
    launch_with<S>(queue, a, std::min(most, (each + S - 1) / S));
  }
  static u32 samples_a_processor(const State& state) {
    constexpr u32 S = kTogether<GADGET_LENGTH, GROUP>;
    return S * sets<S>(state, 1024);
  }
  static void transform(device::Queue& queue, const device::BootstrapShape& shape, const u64* words, const Complex* twiddles,
                        Complex* key) {
    const u64 polynomials = shape.words() >> LOG_N;
    launch(queue, "bootstrap key", transform_key<LOG_N, K, GADGET_LENGTH, GROUP>, polynomials,
           BlindTransform<LOG_N>::kThreads, 0, words, reinterpret_cast<const double2*>(twiddles),
           reinterpret_cast<double2*>(key));
  }
  static constexpr BlindKernel kernel() {
    return {.log_degree = LOG_N,
            .k = K,
            .gadget_length = GADGET_LENGTH,
            .group = GROUP,
            .transform = transform,
            .rotate = rotate,
            .twiddles = BlindTransform<LOG_N>::twiddles,
            .samples_a_processor = samples_a_processor};
  }
};

}  // namespace heliograph::backend::cuda
