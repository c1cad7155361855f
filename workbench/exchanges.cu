// Exchanges between two GPUs. `dis` and `rcv`: each GPU sends its half of the limbs to the other. `joi`: each GPU sums one half of limbs
// whose parts both GPUs hold. Methods: peer loads by a kernel, peer copies, NCCL, and copies through host memory, pinned or pageable.
//
//   exchanges OUT.json [REPEATS=25]
//
// Limbs are 2^16 words of 4 bytes, residues of 28-bit primes. Each method is timed as a sequence of dependent exchanges, as consecutive
// calls and, if it can be captured, as one graph. A time is thus what one exchange adds to a program. All results are checked.
#include <nccl.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "report.h"

namespace workbench {

using u32 = std::uint32_t;

constexpr std::size_t kN = 1 << 16;
constexpr u32 kPrime = 268369921;  // 28 bits; sums of two stay below 2^32
constexpr int kRow = 20;           // exchanges in a timed sequence

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
void check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(status));
}

__global__ void load(const uint4* from, uint4* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = from[i];
}
__device__ u32 reduced(u32 x) { return x >= kPrime ? x - kPrime : x; }
__device__ uint4 sum(uint4 a, uint4 b) {
  return {reduced(a.x + b.x), reduced(a.y + b.y), reduced(a.z + b.z), reduced(a.w + b.w)};
}
__global__ void add(const uint4* a, const uint4* b, uint4* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = sum(a[i], b[i]);
}
__global__ void reduce(uint4* x, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    x[i] = sum(x[i], uint4{0, 0, 0, 0});
}

enum class Way { loads, copies, nccl, pinned, pageable };
const char* name(Way way) {
  constexpr std::array names = {"peer loads", "peer copies", "NCCL", "pinned host memory", "host memory"};
  return names[static_cast<std::size_t>(way)];
}

/// Two GPUs with memory for `limbs` limbs each. For dis, half of the limbs are valid on each GPU; for joi, each GPU has a
/// summand of every limb.
class Pair {
 public:
  explicit Pair(std::size_t limbs) : half_(limbs / 2 * kN) {
    int devices[2] = {0, 1};
    check(ncclCommInitAll(comms_, 2, devices), "ncclCommInitAll");
    for (int d = 0; d < 2; ++d) {
      use(d);
      const cudaError_t peer = cudaDeviceEnablePeerAccess(1 - d, 0);
      if (peer != cudaErrorPeerAccessAlreadyEnabled) check(peer, "peer access");
      cudaGetLastError();
      check(cudaMalloc(&x_[d], bytes()), "cudaMalloc");
      check(cudaMalloc(&result_[d], bytes()), "cudaMalloc");
      check(cudaMalloc(&arrived_[d], bytes()), "cudaMalloc");
      check(cudaMallocHost(&pinned_[d], bytes()), "cudaMallocHost");
      pageable_[d].resize(bytes());
      check(cudaStreamCreateWithFlags(&stream_[d], cudaStreamNonBlocking), "stream");
      for (auto& e : events_[d]) check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
      host_[d].resize(2 * half_);
      for (std::size_t i = 0; i < host_[d].size(); ++i)
        host_[d][i] = static_cast<u32>((i * 2654435761U + 977U * static_cast<u32>(d)) % kPrime);
      check(cudaMemcpy(x_[d], host_[d].data(), bytes(), cudaMemcpyHostToDevice), "upload");
    }
  }
  ~Pair() {
    for (int d = 0; d < 2; ++d) {
      use(d);
      ncclCommDestroy(comms_[d]);
      cudaFree(x_[d]), cudaFree(result_[d]), cudaFree(arrived_[d]), cudaFreeHost(pinned_[d]), cudaStreamDestroy(stream_[d]);
      for (auto& e : events_[d]) cudaEventDestroy(e);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Writes to GPU d's `result` the other GPU's half (dis), or the sums of half d (joi).
  void exchange(Way way, bool joins) {
    if (way == Way::nccl) return by_nccl(joins);
    if (way == Way::pinned || way == Way::pageable) return by_host(way, joins);
    meet(0);
    for (int d = 0; d < 2; ++d) {
      use(d);
      // Offset of the peer's half (dis), or of the peer's summands of this GPU's half (joi).
      const std::size_t at = half_ * static_cast<std::size_t>(joins ? d : 1 - d);
      if (way == Way::loads && joins) {
        add<<<264, 256, 0, stream_[d]>>>(quads(x_[d] + at), quads(x_[1 - d] + at), quads(result_[d] + at), half_ / 4);
      } else if (way == Way::loads) {
        load<<<264, 256, 0, stream_[d]>>>(quads(x_[1 - d] + at), quads(result_[d] + at), half_ / 4);
      } else {
        u32* const to = (joins ? arrived_[d] : result_[d]) + at;
        check(cudaMemcpyAsync(to, x_[1 - d] + at, half_ * 4, cudaMemcpyDefault, stream_[d]), "peer copy");
        if (joins) add<<<264, 256, 0, stream_[d]>>>(quads(x_[d] + at), quads(to), quads(result_[d] + at), half_ / 4);
      }
    }
    meet(1);
  }

  bool right(bool joins) {
    bool same = true;
    std::vector<u32> found(2 * half_);
    for (int d = 0; d < 2; ++d) {
      use(d);
      check(cudaDeviceSynchronize(), "an exchange");
      check(cudaMemcpy(found.data(), result_[d], bytes(), cudaMemcpyDeviceToHost), "download");
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t owner = i / half_;
        if (joins != (owner == static_cast<std::size_t>(d))) continue;  // dis: a GPU's own half is not exchanged
        const u32 expected = joins ? (host_[0][i] + host_[1][i]) % kPrime : host_[owner][i];
        same = same && found[i] == expected;
      }
      check(cudaMemset(result_[d], 0, bytes()), "memset");
      check(cudaDeviceSynchronize(), "memset");
    }
    return same;
  }

  /// Returns the seconds of one exchange within a sequence; negative if the method cannot be captured in a graph.
  double seconds(Way way, bool joins, bool graph, int repeats) {
    if (graph && way == Way::pageable) return -1;
    cudaGraphExec_t made = nullptr;
    if (graph) {
      use(0);
      check(cudaStreamBeginCapture(stream_[0], cudaStreamCaptureModeRelaxed), "capture");
      check(cudaEventRecord(events_[0][2], stream_[0]), "fork");
      check(cudaStreamWaitEvent(stream_[1], events_[0][2], 0), "fork");
      for (int i = 0; i < kRow; ++i) exchange(way, joins);
      use(1);
      check(cudaEventRecord(events_[1][2], stream_[1]), "join");
      check(cudaStreamWaitEvent(stream_[0], events_[1][2], 0), "join");
      use(0);
      cudaGraph_t captured = nullptr;
      check(cudaStreamEndCapture(stream_[0], &captured), "capture");
      check(cudaGraphInstantiate(&made, captured, 0), "graph");
      check(cudaGraphDestroy(captured), "graph");
    }
    std::vector<double> taken;
    for (int i = -2; i < repeats; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      if (graph) {
        use(0);
        check(cudaGraphLaunch(made, stream_[0]), "replay");
      } else {
        for (int k = 0; k < kRow; ++k) exchange(way, joins);
      }
      for (int d = 0; d < 2; ++d) check(cudaStreamSynchronize(stream_[d]), "an exchange");
      if (i >= 0) taken.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kRow);
    }
    if (made) check(cudaGraphExecDestroy(made), "graph");
    return median(taken);
  }

 private:
  static void use(int d) { check(cudaSetDevice(d), "cudaSetDevice"); }
  static uint4* quads(u32* x) { return reinterpret_cast<uint4*>(x); }
  std::size_t bytes() const { return 2 * half_ * 4; }
  /// Makes each GPU's stream wait for the preceding work of the other GPU.
  void meet(int number) {
    for (int d = 0; d < 2; ++d) {
      use(d);
      check(cudaEventRecord(events_[d][number], stream_[d]), "event");
    }
    for (int d = 0; d < 2; ++d) check(cudaStreamWaitEvent(stream_[d], events_[1 - d][number], 0), "event");
  }
  void by_nccl(bool joins) {
    check(ncclGroupStart(), "NCCL");
    for (int d = 0; d < 2; ++d) {
      use(d);
      const std::size_t at = half_ * static_cast<std::size_t>(d);
      if (joins)
        check(ncclReduceScatter(x_[d], result_[d] + at, half_, ncclUint32, ncclSum, comms_[d], stream_[d]), "NCCL");
      else
        check(ncclAllGather(x_[d] + at, result_[d], half_, ncclUint32, comms_[d], stream_[d]), "NCCL");
    }
    check(ncclGroupEnd(), "NCCL");
    for (int d = 0; d < 2 && joins; ++d) {
      use(d);
      reduce<<<264, 256, 0, stream_[d]>>>(quads(result_[d] + half_ * static_cast<std::size_t>(d)), half_ / 4);
    }
  }

  void by_host(Way way, bool joins) {
    void* staged[2];
    for (int d = 0; d < 2; ++d) staged[d] = way == Way::pinned ? static_cast<void*>(pinned_[d]) : pageable_[d].data();
    meet(0);  // the staging buffers' previous readers have finished
    for (int d = 0; d < 2; ++d) {
      use(d);
      const std::size_t gives = half_ * static_cast<std::size_t>(joins ? 1 - d : d);
      check(cudaMemcpyAsync(staged[d], x_[d] + gives, half_ * 4, cudaMemcpyDeviceToHost, stream_[d]), "down");
    }
    if (way == Way::pageable) {
      for (int d = 0; d < 2; ++d) check(cudaStreamSynchronize(stream_[d]), "down");
    }
    meet(1);
    for (int d = 0; d < 2; ++d) {
      use(d);
      const std::size_t takes = half_ * static_cast<std::size_t>(joins ? d : 1 - d);
      u32* const to = (joins ? arrived_[d] : result_[d]) + takes;
      check(cudaMemcpyAsync(to, staged[1 - d], half_ * 4, cudaMemcpyHostToDevice, stream_[d]), "up");
      if (joins) add<<<264, 256, 0, stream_[d]>>>(quads(x_[d] + takes), quads(to), quads(result_[d] + takes), half_ / 4);
    }
  }

  std::size_t half_;
  u32 *x_[2] = {}, *result_[2] = {}, *arrived_[2] = {}, *pinned_[2] = {};
  std::vector<std::byte> pageable_[2];
  std::vector<u32> host_[2];
  cudaStream_t stream_[2] = {};
  cudaEvent_t events_[2][3] = {};
  ncclComm_t comms_[2] = {};
};

int run(int argc, char** argv) {
  if (argc < 2) throw std::runtime_error("usage: exchanges OUT.json [REPEATS=25]");
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 25;
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "devices");
  if (devices < 2) throw std::runtime_error("exchanges needs two GPUs, found " + std::to_string(devices));
  Report report("exchanges");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "properties");
  int version = 0;
  check(ncclGetVersion(&version), "NCCL");
  report.settings.add("device", properties.name).add("devices", 2).add("nccl", version).add("n", kN).add("word_bytes", 4);
  report.settings.add("exchanges_in_a_row", kRow).add("repeats", repeats);
  bool right = true;
  for (const std::size_t limbs : {2, 4, 8, 16, 32, 64}) {
    Pair pair(limbs);
    for (const bool joins : {false, true}) {
      for (const Way way : {Way::loads, Way::copies, Way::nccl, Way::pinned, Way::pageable}) {
        pair.exchange(way, joins);
        const bool same = pair.right(joins);
        const double calls = pair.seconds(way, joins, false, repeats), graph = pair.seconds(way, joins, true, repeats);
        right = right && same;
        const double bytes = static_cast<double>(limbs / 2 * kN * 4);
        Record record;
        record.add("instruction", joins ? "joi" : "dis").add("way", name(way)).add("limbs", limbs).add("right", same);
        record.add("bytes_each_way", bytes).add("seconds", calls);
        if (graph >= 0) record.add("seconds_in_a_graph", graph);
        report.row("exchanges") = record;
        std::printf("%s %2zu limbs  %-20s %8.1f us%s", joins ? "joi" : "dis", limbs, name(way), calls * 1e6,
                    same ? "" : "  WRONG");
        graph >= 0 ? std::printf("  in a graph %8.1f us\n", graph * 1e6) : std::printf("  in no graph\n");
      }
    }
  }
  report.settings.add("right", right);
  report.write(argv[1]);
  return right ? 0 : 1;
}

}  // namespace workbench

int main(int argc, char** argv) {
  return workbench::told("exchanges", [&] { return workbench::run(argc, argv); });
}
