// Copies operands to the GPU and results back around each operation, serially and pipelined row by row, as in section 3.3 of Frame's
// thesis (2015), which gives no times for it. An object has several rows; each row has residues of its own modulus, in host memory.
//   serial   one stream: all copies to the GPU, one kernel, the copy back
//   2-way    one stream for the copies of both directions, as with the thesis's single copy engine; kernels run concurrently
//   3-way    one stream a row: copies to the GPU, copies back and kernels run concurrently
// `all at once` issues the three phases of a row before the next row; `batched` issues each phase for all rows (listings 3.1, 3.2).
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>

#include "device.cuh"

namespace workbench {

using Word = std::uint64_t;
using Clock = std::chrono::steady_clock;
constexpr std::size_t kSizes[] = {1000, 10'000, 100'000, 200'000, 300'000, 400'000};

enum class Kind { add, sub, mul };
constexpr std::pair<Kind, const char*> kOperations[] = {{Kind::add, "add"}, {Kind::sub, "sub"}, {Kind::mul, "mul"}};

/// For q below 2^50: the quotient is rounded in doubles; fused multiply-adds give the exact remainder.
__device__ Word combined(Kind kind, Word a, Word b, Word q) {
  if (kind == Kind::add) return a + b >= q ? a + b - q : a + b;
  if (kind == Kind::sub) return a >= b ? a - b : a + q - b;
  const double x = static_cast<double>(a), y = static_cast<double>(b), m = static_cast<double>(q);
  const double high = x * y, low = fma(x, y, -high), quotient = floor(high / m);
  const double rest = fma(-quotient, m, high) + low;
  return static_cast<Word>(rest < 0 ? rest + m : rest >= m ? rest - m : rest);
}

/// Computes a[i] = a[i] op b[i] for consecutive rows; `primes` starts at the first row's modulus.
__global__ void apply(Kind kind, Word* a, const Word* b, const Word* primes, std::size_t size, std::size_t words) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += std::size_t{gridDim.x} * blockDim.x)
    a[i] = combined(kind, a[i], b[i], primes[i / size]);
}

/// Words on the host, pageable or pinned.
class HostWords {
 public:
  HostWords(std::size_t count, bool pinned) : pinned_(pinned), pageable_(pinned ? 0 : count) {
    if (pinned) check(cudaMallocHost(&data_, count * sizeof(Word)), "cudaMallocHost");
  }
  ~HostWords() { cudaFreeHost(data_); }
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;
  Word* data() { return pinned_ ? data_ : pageable_.data(); }

 private:
  bool pinned_;
  Word* data_ = nullptr;
  std::vector<Word> pageable_;
};

struct Way {
  const char* name;
  bool pinned, all_at_once;
};
constexpr Way kWays[] = {{"serial", false, false}, {"serial", true, false}, {"2-way", true, true},
                         {"2-way", true, false},   {"3-way", true, true},   {"3-way", true, false}};

std::vector<Word> primes_of(std::size_t rows) {
  std::vector<Word> found;
  for (Word q = (Word{1} << 50) - 1; found.size() < rows; q -= 2) found.push_back(q);  // any odd modulus is valid here
  return found;
}

class Bench {
 public:
  Bench(Report& report, std::size_t rows, std::size_t size, int repeats)
      : report_(report),
        rows_(rows),
        size_(size),
        repeats_(repeats),
        moduli_(primes_of(rows)),
        primes_(moduli_),
        a_(rows * size),
        b_(rows * size) {
    for (std::size_t i = 0; i < rows_ + 1; ++i) check(cudaStreamCreate(&streams_.emplace_back()), "cudaStreamCreate");
    for (std::size_t i = 0; i < 2 * rows_; ++i)
      check(cudaEventCreateWithFlags(&events_.emplace_back(), cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Bench() {
    for (const cudaStream_t s : streams_) cudaStreamDestroy(s);
    for (const cudaEvent_t e : events_) cudaEventDestroy(e);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  bool run() {
    bool right = true;
    for (const Way& way : kWays) {
      HostWords a(words(), way.pinned), b(words(), way.pinned), out(words(), way.pinned);
      draw(a.data(), 1), draw(b.data(), 2);
      for (const auto& [kind, name] : kOperations) right &= measure(way, kind, name, a.data(), b.data(), out.data());
    }
    return right;
  }

 private:
  std::size_t words() const { return rows_ * size_; }
  void draw(Word* to, Word state) const {
    for (std::size_t i = 0; i < words(); ++i) {
      Word z = state += 0x9e3779b97f4a7c15ULL;  // splitmix64
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
      to[i] = (z ^ z >> 27) % moduli_[i / size_];
    }
  }
  void in(std::size_t row, std::size_t rows, const Word* a, const Word* b, cudaStream_t s) {
    const std::size_t at = row * size_, bytes = rows * size_ * sizeof(Word);
    check(cudaMemcpyAsync(a_.data() + at, a + at, bytes, cudaMemcpyHostToDevice, s), "a copy in");
    check(cudaMemcpyAsync(b_.data() + at, b + at, bytes, cudaMemcpyHostToDevice, s), "a copy in");
  }
  void compute(std::size_t row, std::size_t rows, Kind kind, cudaStream_t s) {
    const std::size_t count = rows * size_;
    const int grid = static_cast<int>(std::min<std::size_t>(1024, (count + 255) / 256));
    apply<<<grid, 256, 0, s>>>(kind, a_.data() + row * size_, b_.data() + row * size_, primes_.data() + row, size_, count);
    check(cudaGetLastError(), "a launch");
  }
  void out(std::size_t row, std::size_t rows, Word* to, cudaStream_t s) {
    const std::size_t at = row * size_;
    check(cudaMemcpyAsync(to + at, a_.data() + at, rows * size_ * sizeof(Word), cudaMemcpyDeviceToHost, s), "a copy out");
  }

  void serial(Kind kind, const Word* a, const Word* b, Word* to) {
    in(0, rows_, a, b, streams_[0]), compute(0, rows_, kind, streams_[0]), out(0, rows_, to, streams_[0]);
  }
  /// Issues phase 0, 1 or 2 of a row. With one copy engine, copies share one stream and synchronize with the row's kernel by events.
  void phase(int which, std::size_t row, bool one_engine, Kind kind, const Word* a, const Word* b, Word* to) {
    const cudaStream_t own = streams_[row], copies = one_engine ? streams_[rows_] : own;
    const cudaEvent_t arrived = events_[2 * row], computed = events_[2 * row + 1];
    if (which == 0) {
      in(row, 1, a, b, copies);
      if (one_engine) check(cudaEventRecord(arrived, copies), "cudaEventRecord");
    } else if (which == 1) {
      if (one_engine) check(cudaStreamWaitEvent(own, arrived), "cudaStreamWaitEvent");
      compute(row, 1, kind, own);
      if (one_engine) check(cudaEventRecord(computed, own), "cudaEventRecord");
    } else {
      if (one_engine) check(cudaStreamWaitEvent(copies, computed), "cudaStreamWaitEvent");
      out(row, 1, to, copies);
    }
  }
  void pipelined(const Way& way, Kind kind, const Word* a, const Word* b, Word* to) {
    const bool one_engine = way.name[0] == '2';
    const std::size_t steps = 3 * rows_;
    for (std::size_t i = 0; i < steps; ++i) {
      const std::size_t row = way.all_at_once ? i / 3 : i % rows_;
      phase(static_cast<int>(way.all_at_once ? i % 3 : i / rows_), row, one_engine, kind, a, b, to);
    }
  }

  bool measure(const Way& way, Kind kind, const char* name, const Word* a, const Word* b, Word* to) {
    std::memset(to, 0xff, words() * sizeof(Word));
    std::vector<double> taken;
    for (int i = -2; i < repeats_; ++i) {
      const auto start = Clock::now();
      way.name[0] == 's' ? serial(kind, a, b, to) : pipelined(way, kind, a, b, to);
      check(cudaDeviceSynchronize(), "an operation");
      if (i >= 0) taken.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    const bool right = equal(kind, a, b, to);
    const char* order = way.name[0] == 's' ? "" : way.all_at_once ? "all at once" : "batched";
    report_.row("copies")
        .add("operation", name)
        .add("way", way.name)
        .add("order", order)
        .add("pinned", way.pinned)
        .add("row_size", size_)
        .add("rows", rows_)
        .add("seconds", median(taken))
        .add("right", right);
    std::printf("%-4s %8zu %-7s %-12s %-8s %10.1f us%s\n", name, size_, way.name, order, way.pinned ? "pinned" : "pageable",
                median(taken) * 1e6, right ? "" : "  WRONG");
    return right;
  }
  bool equal(Kind kind, const Word* a, const Word* b, const Word* got) const {
    using Wide = unsigned __int128;
    for (std::size_t i = 0; i < words(); ++i) {
      const Word q = moduli_[i / size_];
      const Word wanted = kind == Kind::add   ? (a[i] + b[i]) % q
                          : kind == Kind::sub ? (a[i] + q - b[i]) % q
                                              : static_cast<Word>(Wide{a[i]} * b[i] % q);
      if (got[i] != wanted) return false;
    }
    return true;
  }

  Report& report_;
  std::size_t rows_, size_;
  int repeats_;
  std::vector<Word> moduli_;
  Array<Word> primes_, a_, b_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s OUT.json [ROWS=8] [REPEATS=25] [LARGEST=400000]\n", argv[0]);
    return 2;
  }
  const auto number = [&](int at, std::size_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  const std::size_t rows = number(2, 8), repeats = number(3, 25), largest = number(4, 400'000);
  if (rows == 0 || rows > 64 || repeats == 0) throw std::runtime_error("ROWS must be 1 to 64 and REPEATS positive");
  Report report("copies");
  describe(report);
  report.settings.add("rows", rows).add("repeats", repeats);
  bool right = true;
  for (const std::size_t size : kSizes) {
    if (size <= largest) right &= Bench(report, rows, size, static_cast<int>(repeats)).run();
  }
  report.settings.add("right", right);
  report.write(argv[1]);
  return right ? 0 : 1;
}

}  // namespace workbench

int main(int argc, char** argv) {
  return workbench::told("copies", [&] { return workbench::run(argc, argv); });
}
