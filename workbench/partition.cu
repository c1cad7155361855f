// Methods to redistribute a matrix between row blocks and column blocks over several GPUs: Figure 4 and Algorithms 1 and 2 of Al Badawi
// and others (IEEE TPDS 2020). On one GPU both parts are in its memory, and the crossing bytes are zero.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "device.cuh"

namespace workbench {

using Word = std::uint32_t;
using Clock = std::chrono::steady_clock;

/// The matrix's size and the GPU of each part.
struct Shape {
  std::size_t rows, columns;
  std::vector<int> device;

  std::size_t parts() const { return device.size(); }
  std::size_t words() const { return rows * columns; }
  std::size_t part_words() const { return words() / parts(); }
  std::size_t height() const { return rows / parts(); }  // rows of a block that one part sends to another
  std::size_t width() const { return columns / parts(); }
};

/// The block of row part i and column part j, with its word offset in each part.
struct Block {
  std::size_t rows_part, columns_part;
  std::size_t in_rows, in_columns;
};

std::vector<Block> blocks(const Shape& s) {
  std::vector<Block> all;
  for (std::size_t i = 0; i < s.parts(); ++i) {
    for (std::size_t j = 0; j < s.parts(); ++j) all.push_back({i, j, j * s.width(), i * s.height() * s.width()});
  }
  return all;
}

enum class Kind { device, managed };

/// One buffer a GPU.
class Parts {
 public:
  Parts(const Shape& shape, Kind kind) : shape_(shape) {
    for (const int device : shape.device) {
      check(cudaSetDevice(device), "cudaSetDevice");
      Word*& part = parts_.emplace_back();
      const std::size_t bytes = shape.part_words() * sizeof(Word);
      check(kind == Kind::device ? cudaMalloc(&part, bytes) : cudaMallocManaged(&part, bytes), "memory of a part");
    }
  }
  ~Parts() {
    for (Word* part : parts_) cudaFree(part);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  Word* operator[](std::size_t i) const { return parts_[i]; }

 private:
  const Shape& shape_;
  std::vector<Word*> parts_;
};

/// A block's source and destination, with row pitches in words.
struct Move {
  const Word* from;
  Word* to;
  std::size_t from_pitch, to_pitch;
};

/// Copies a block by loads from the sender; runs on the receiving GPU.
__global__ void load(Move m, std::size_t height, std::size_t width) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < height * width; i += std::size_t{gridDim.x} * blockDim.x) {
    m.to[i / width * m.to_pitch + i % width] = m.from[i / width * m.from_pitch + i % width];
  }
}

/// Sets each word to its row-major index in the matrix. `first` is the part's first index, `width` its words a row. Pitch 0 writes
/// all ones, to detect words that a method does not write.
__global__ void fill(Word* part, std::size_t words, std::size_t first, std::size_t width, std::size_t pitch) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += std::size_t{gridDim.x} * blockDim.x)
    part[i] = pitch ? static_cast<Word>(first + i / width * pitch + i % width) : ~Word{0};
}

class Bench {
 public:
  Bench(Report& report, Shape shape, int repeats) : report_(report), shape_(std::move(shape)), repeats_(repeats) {
    for (const int to : shape_.device) {
      check(cudaSetDevice(to), "cudaSetDevice");
      for (std::size_t i = 0; i < shape_.parts(); ++i) check(cudaStreamCreate(&streams_.emplace_back()), "cudaStreamCreate");
      for (const int from : shape_.device) {
        int can = 0;
        if (from == to) continue;
        check(cudaDeviceCanAccessPeer(&can, to, from), "cudaDeviceCanAccessPeer");
        peers_ &= can != 0;
        if (can && cudaDeviceEnablePeerAccess(from, 0) == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
      }
    }
  }

  bool run() {
    const Parts a(shape_, Kind::device), b(shape_, Kind::device);
    bool right = true;
    if (peers_) right &= way("peer loads", a, b, [this](const std::vector<Move>& m) { loads(m); });
    right &= way("peer copies, one a block", a, b, [this](const std::vector<Move>& m) { copies(m, false); });
    right &= way("peer copies, one a row", a, b, [this](const std::vector<Move>& m) { copies(m, true); });
    std::vector<Word> pageable(shape_.words());
    right &= way("through the host", a, b, [&](const std::vector<Move>& m) { host(m, pageable.data()); });
    Word* pinned = nullptr;
    check(cudaMallocHost(&pinned, shape_.words() * sizeof(Word)), "cudaMallocHost");
    right &= way("through pinned host memory", a, b, [&](const std::vector<Move>& m) { host(m, pinned); });
    cudaFreeHost(pinned);
    const Parts c(shape_, Kind::managed), d(shape_, Kind::managed);
    right &= way("unified memory", c, d, [this](const std::vector<Move>& m) { loads(m); });
    return right;
  }

 private:
  using Mover = std::function<void(const std::vector<Move>&)>;

  cudaStream_t stream(std::size_t to, std::size_t from) const { return streams_[to * shape_.parts() + from]; }
  int device(std::size_t part) const { return shape_.device[part]; }

  void wait() {
    for (const int d : shape_.device) {
      check(cudaSetDevice(d), "cudaSetDevice");
      check(cudaDeviceSynchronize(), "a move");
    }
  }
  std::size_t line(bool columns) const { return columns ? shape_.width() : shape_.columns; }
  std::size_t first(bool columns, std::size_t part) const { return part * (columns ? shape_.width() : shape_.part_words()); }
  /// Writes each part on its own GPU, so that unified memory is resident there: matrix indices (`places`) or all ones.
  void write(const Parts& parts, bool columns, bool places) {
    for (std::size_t i = 0; i < shape_.parts(); ++i) {
      check(cudaSetDevice(device(i)), "cudaSetDevice");
      fill<<<256, 256>>>(parts[i], shape_.part_words(), first(columns, i), line(columns), places ? shape_.columns : 0);
    }
    wait();
  }
  std::vector<Move> moves(const Parts& rows, const Parts& columns, bool to_columns) const {
    std::vector<Move> all;
    for (const Block& b : blocks(shape_)) {
      Word* const of_rows = rows[b.rows_part] + b.in_rows;
      Word* const of_columns = columns[b.columns_part] + b.in_columns;
      all.push_back(to_columns ? Move{of_rows, of_columns, shape_.columns, shape_.width()}
                               : Move{of_columns, of_rows, shape_.width(), shape_.columns});
    }
    return all;
  }
  std::size_t to_of(std::size_t block) const { return to_columns_ ? block % shape_.parts() : block / shape_.parts(); }
  std::size_t from_of(std::size_t block) const { return to_columns_ ? block / shape_.parts() : block % shape_.parts(); }

  void loads(const std::vector<Move>& all) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      check(cudaSetDevice(device(to_of(k))), "cudaSetDevice");
      load<<<256, 256, 0, stream(to_of(k), from_of(k))>>>(all[k], shape_.height(), shape_.width());
      check(cudaGetLastError(), "a launch of loads");
    }
  }
  void copies(const std::vector<Move>& all, bool each_row) {
    const std::size_t line = shape_.width() * sizeof(Word);
    for (std::size_t k = 0; k < all.size(); ++k) {
      const Move& m = all[k];
      check(cudaSetDevice(device(to_of(k))), "cudaSetDevice");
      const cudaStream_t s = stream(to_of(k), from_of(k));
      for (std::size_t r = 0; each_row && r < shape_.height(); ++r) {
        check(cudaMemcpyPeerAsync(m.to + r * m.to_pitch, device(to_of(k)), m.from + r * m.from_pitch, device(from_of(k)),
                                  line, s),
              "cudaMemcpyPeerAsync");
      }
      if (!each_row) {
        check(cudaMemcpy2DAsync(m.to, m.to_pitch * sizeof(Word), m.from, m.from_pitch * sizeof(Word), line, shape_.height(),
                                cudaMemcpyDefault, s),
              "cudaMemcpy2DAsync");
      }
    }
  }
  /// Copies every block to the host in the target layout's order, then to its GPU.
  void host(const std::vector<Move>& all, Word* staged) {
    const std::size_t line = shape_.width() * sizeof(Word), block = shape_.height() * shape_.width();
    for (std::size_t k = 0; k < all.size(); ++k) {
      check(cudaSetDevice(device(from_of(k))), "cudaSetDevice");
      check(cudaMemcpy2DAsync(staged + k * block, line, all[k].from, all[k].from_pitch * sizeof(Word), line, shape_.height(),
                              cudaMemcpyDeviceToHost, stream(from_of(k), to_of(k))),
            "a copy to the host");
    }
    wait();
    for (std::size_t k = 0; k < all.size(); ++k) {
      check(cudaSetDevice(device(to_of(k))), "cudaSetDevice");
      check(cudaMemcpy2DAsync(all[k].to, all[k].to_pitch * sizeof(Word), staged + k * block, line, line, shape_.height(),
                              cudaMemcpyHostToDevice, stream(to_of(k), from_of(k))),
            "a copy from the host");
    }
  }

  /// Checks and times both directions; a time is from the call until all GPUs have finished.
  bool way(const char* name, const Parts& rows, const Parts& columns, const Mover& move) {
    bool right = true;
    for (const bool to_columns : {true, false}) {
      to_columns_ = to_columns;
      const std::vector<Move> there = moves(rows, columns, to_columns);
      std::vector<double> taken;
      for (int i = -2; i < repeats_; ++i) {
        write(rows, false, to_columns), write(columns, true, !to_columns);
        const auto start = Clock::now();
        move(there);
        wait();
        if (i >= 0) taken.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      const bool same = arrived(to_columns ? columns : rows, to_columns);
      right &= same;
      const double seconds = median(taken), bytes = crossing();
      report_.row("moves")
          .add("way", name)
          .add("direction", to_columns ? "rows to columns" : "columns to rows")
          .add("gpus", static_cast<int>(distinct()))
          .add("parts", shape_.parts())
          .add("seconds", seconds)
          .add("crossing_bytes", bytes)
          .add("right", same);
      std::printf("%-28s %-16s %9.1f us%s\n", name, to_columns ? "rows to columns" : "columns to rows", seconds * 1e6,
                  same ? "" : "  WRONG");
    }
    return right;
  }
  std::size_t distinct() const {
    std::vector<int> d = shape_.device;
    std::sort(d.begin(), d.end());
    return static_cast<std::size_t>(std::unique(d.begin(), d.end()) - d.begin());
  }
  double crossing() const {
    double words = 0;
    for (std::size_t i = 0; i < shape_.parts(); ++i) {
      for (std::size_t j = 0; j < shape_.parts(); ++j)
        words += device(i) != device(j) ? double(shape_.height() * shape_.width()) : 0;
    }
    return words * sizeof(Word);
  }
  bool arrived(const Parts& parts, bool columns) const {
    for (std::size_t p = 0; p < shape_.parts(); ++p) {
      std::vector<Word> got(shape_.part_words());
      check(cudaMemcpy(got.data(), parts[p], got.size() * sizeof(Word), cudaMemcpyDefault), "a download");
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t place = first(columns, p) + i / line(columns) * shape_.columns + i % line(columns);
        if (got[i] != place) return false;
      }
    }
    return true;
  }

  Report& report_;
  Shape shape_;
  int repeats_;
  bool peers_ = true, to_columns_ = true;
  std::vector<cudaStream_t> streams_;
};

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s OUT.json [GPUS=all] [ROWS=40] [COLUMNS=65536] [REPEATS=25]\n", argv[0]);
    return 2;
  }
  const auto number = [&](int at, std::size_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  int there = 0;
  check(cudaGetDeviceCount(&there), "cudaGetDeviceCount");
  const std::size_t gpus = number(2, static_cast<std::size_t>(there)), parts = std::max<std::size_t>(2, gpus);
  const std::size_t repeats = number(5, 25);
  Shape shape{number(3, 40), number(4, 65536), {}};
  if (gpus == 0 || gpus > static_cast<std::size_t>(there))
    throw std::runtime_error("GPUS must be 1 to " + std::to_string(there));
  if (shape.words() == 0 || shape.rows % parts || shape.columns % parts || repeats == 0)
    throw std::runtime_error(
        "ROWS and COLUMNS must be divisible by the number of parts (GPUs, at least 2), and REPEATS must be positive");
  for (std::size_t i = 0; i < parts; ++i) shape.device.push_back(static_cast<int>(i % gpus));
  Report report("partition");
  describe(report);
  report.settings.add("gpus", gpus).add("rows", shape.rows).add("columns", shape.columns).add("repeats", repeats);
  const bool right = Bench(report, shape, static_cast<int>(repeats)).run();
  report.settings.add("right", right);
  report.write(argv[1]);
  return right ? 0 : 1;
}

}  // namespace workbench

int main(int argc, char** argv) {
  return workbench::told("partition", [&] { return workbench::run(argc, argv); });
}
