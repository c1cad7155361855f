// Transfers between the members of a mesh, and their rates:
//   mesh --members cuda:0,cuda:1,cuda:2,cuda:3 --counts 1,2,4 [--only repartition,exchange,link] [--seconds 0.1]
// For each count it uses a mesh of the first members, all with equal shares. Prints one JSON object per line. Groups:
//   repartition  a matrix from rows to columns and back (Al Badawi 2020, Algorithms 1 and 2; 40 x 2^16 words of four bytes is that
//                paper's Figure 4), directly and through the host
//   exchange     whole items to every layout, and to all members
//   link         reads by one member of the memory of others, without a mesh
// Times are medians in microseconds, of one call with the wait, and per call of many before one wait. `bytes` is the traffic between
// members in a call. Every result is compared with the expected one before it is timed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>

#include "device/kernels.h"
#include "mesh/mesh.h"
#include "tools.h"

namespace heliograph::bench {

using device::Buffer;
using device::PrimeList;
using device::View;
using math::Word;
using mesh::Layout;
using mesh::Mesh;

constexpr double kStretch = 5000;  // limit of the calls enqueued before one wait, in microseconds

/// Returns the median of `time()`, called for `seconds` and at least five times.
template <class Once>
double medians(double seconds, Once once) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || (microseconds_since(start) < seconds * 1e6 && times.size() < 5000)) times.push_back(once());
  return median(std::move(times));
}

struct Settings {
  std::vector<std::string> members, only;
  std::vector<std::size_t> counts;
  double seconds = 0.1;
  bool quick = false;  // whether to use small sizes, for tests

  bool wants(const std::string& group) const { return only.empty() || std::count(only.begin(), only.end(), group) > 0; }
};

struct Times {
  double alone = 0, among = 0;
  double bytes = 0;  // bytes moved between members, per call
};

/// Times calls up to a wait. `back`, if given, moves the data back, so that each call moves as many bytes as the first call.
/// The time `alone` excludes `back`; the time among many calls counts it as one more call.
Times time_calls(double seconds, const std::function<void()>& call, const std::function<void()>& back,
                 const std::function<void()>& wait) {
  Times t;
  const auto undo = [&] {
    if (back) back(), wait();
  };
  call(), wait(), undo();
  t.alone = medians(seconds, [&] {
    const auto start = Clock::now();
    call(), wait();
    const double time = microseconds_since(start);
    undo();
    return time;
  });
  const auto repeats = static_cast<std::size_t>(std::clamp(kStretch / t.alone, 2.0, 500.0));
  t.among = medians(seconds, [&] {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < repeats; ++i) {
      call();
      if (back) back();
    }
    wait();
    return microseconds_since(start) / static_cast<double>(repeats * (back ? 2 : 1));
  });
  return t;
}

/// A tensor of words on a mesh.
struct Tensor {
  Buffer buffer;
  View view;
  PrimeList primes;
};

class Bench {
 public:
  Bench(const Settings& settings, std::size_t count, bool staged) : settings_(settings), count_(count), staged_(staged) {
    std::string name;
    for (std::size_t m = 0; m < count; ++m) name += (m ? "," : "") + settings.members[m];
    name_ = name;
    device_ = mesh::open_device(name + (staged ? "/staged/uncalibrated" : "/uncalibrated"));
    mesh_ = dynamic_cast<Mesh*>(device_.get());
    if (mesh_ == nullptr) throw Error(name + " is not a mesh");
    queue_ = mesh_->make_queue();
  }

  void run() {
    if (settings_.wants("repartition")) repartitions();
    if (settings_.wants("exchange") && !staged_) exchanges();
    if (settings_.wants("link") && !staged_) links();
  }

 private:
  Tensor tensor(Layout layout, Word word, std::size_t items, std::size_t limbs, std::size_t n) {
    Tensor t{
        .buffer = nullptr, .view = View::dense(nullptr, word, {items}, 1, limbs, n), .primes = PrimeList::range(0, limbs)};
    const Buffer any = mesh_->allocate(t.view, t.primes, *queue_);
    View from = t.view;
    from.data = any->address();
    queue_->enqueue(device::Zero{from});
    t.buffer = mesh_->reshard(from, t.primes, layout, *queue_);
    t.view.data = t.buffer->address();
    queue_->wait();
    return t;
  }

  /// Throws unless `call` copies the words of `from`, in order, `times` times in sequence, to `to`.
  void check(const std::string& what, const Tensor& from, const Tensor& to, std::size_t times,
             const std::function<void()>& call) {
    const std::size_t bytes = from.view.words() * from.view.word_size();
    std::vector<std::byte> sent(bytes), received(bytes * times);
    math::u32 state = 1;
    for (std::byte& b : sent) b = static_cast<std::byte>((state = state * 1664525U + 1013904223U) >> 24);
    mesh_->upload(*queue_, sent, from.view.data);
    call();
    mesh_->download(*queue_, to.view.data, received);
    for (std::size_t i = 0; i < times; ++i) {
      if (std::memcmp(sent.data(), received.data() + i * bytes, bytes) != 0)
        throw Error(what + ": the copied words differ from the original ones");
    }
  }

  Times timed(const std::function<void()>& call, const std::function<void()>& back) {
    const auto wait = [this] { queue_->wait(); };
    Times t = time_calls(settings_.seconds, call, back, wait);
    const double before = static_cast<double>(mesh_->moved().bytes);
    for (int i = 0; i < 4; ++i) {
      call();
      if (back) back();
    }
    wait();
    t.bytes = (static_cast<double>(mesh_->moved().bytes) - before) / (back ? 8 : 4);
    return t;
  }

  /// Prints one JSON line; `shape` has additional fields of the line.
  void print(const char* group, const std::string& what, std::size_t tensor_bytes, const std::string& shape,
             const Times& t) {
    std::printf(
        "{\"exchange\": \"%s\", \"what\": \"%s\", \"devices\": %zu, \"members\": \"%s\", \"path\": \"%s\", "
        "\"tensor_bytes\": %zu, "
        "%s\"median_s\": %.4g, \"pipe_s\": %.4g, \"bytes\": %.0f, \"bytes_s\": %.4g}\n",
        group, what.c_str(), count_, name_.c_str(), staged_ ? "host" : "direct", tensor_bytes, shape.c_str(), t.alone * 1e-6,
        t.among * 1e-6, t.bytes, t.bytes / (t.among * 1e-6));
    std::fflush(stdout);
  }

  void repartitions() {
    struct Shape {
      const char* name;
      std::size_t rows, log_columns;
      Word word;
    };
    std::vector<Shape> shapes = {
        {"Figure 4", 40, 16, Word::w32},          {"N=2^15, log q 600", 20, 15, Word::w32},
        {"N=2^14, log q 330", 11, 14, Word::w32}, {"N=2^13, log q 300", 10, 13, Word::w32},
        {"N=2^15, log q 600", 12, 15, Word::w64}, {"N=2^16, log q 1200", 24, 16, Word::w64},
    };
    if (settings_.quick) shapes = {{"small", 8, 10, Word::w32}};
    for (const Shape& s : shapes) {
      const std::size_t n = std::size_t{1} << s.log_columns;
      const Tensor rows = tensor(Layout::limb, s.word, 1, s.rows, n),
                   columns = tensor(Layout::coefficient, s.word, 1, s.rows, n);
      const auto there = [&] { queue_->enqueue(device::Copy{rows.view, columns.view}); };
      const auto back = [&] { queue_->enqueue(device::Copy{columns.view, rows.view}); };
      check("rows to columns", rows, columns, 1, there);
      check("columns to rows", columns, rows, 1, back);
      const std::size_t bytes = rows.view.words() * rows.view.word_size();
      char shape[128];
      std::snprintf(shape, sizeof shape, "\"matrix\": \"%s\", \"rows\": %zu, \"columns\": %zu, \"word_bytes\": %zu, ",
                    s.name, s.rows, n, rows.view.word_size());
      // Calls alternate: unchanged words may be cached after the first read and would not be transferred again.
      print("repartition", "rows to columns", bytes, shape, timed(there, back));
      print("repartition", "columns to rows", bytes, shape, timed(back, there));
    }
  }

  void exchanges() {
    std::vector<std::size_t> sizes = {1, 4, 8, 16, 64};
    if (settings_.quick) sizes = {1};
    constexpr std::size_t limbs = 8;
    for (const std::size_t megabytes : sizes) {
      // Chooses the size nearest to the requested size at which every member has items.
      const std::size_t n = (megabytes << 20) / (8 * limbs * count_) / 64 * 64;
      const Tensor items = tensor(Layout::batch, Word::w64, count_, limbs, n);
      const std::size_t bytes = items.view.words() * 8;
      char shape[48];
      std::snprintf(shape, sizeof shape, "\"megabytes\": %zu, ", megabytes);
      for (const Layout layout : {Layout::limb, Layout::coefficient}) {
        const std::string what = layout == Layout::limb ? "items to limbs" : "items to columns";
        const Tensor to = tensor(layout, Word::w64, count_, limbs, n);
        const auto there = [&] { queue_->enqueue(device::Copy{items.view, to.view}); };
        const auto back = [&] { queue_->enqueue(device::Copy{to.view, items.view}); };
        check(what, items, to, 1, there);
        print("exchange", what, bytes, shape, timed(there, back));
      }
      // Every member gets all items. A call then writes the result, so that no item stays cached on a member.
      const Tensor all = tensor(Layout::batch, Word::w64, count_ * count_, limbs, n);
      View repeated = items.view, into = all.view;
      repeated.axes = into.axes = 2;
      repeated.shape[0] = repeated.shape[1] = into.shape[0] = into.shape[1] = count_;
      repeated.stride[0] = 0, repeated.stride[1] = limbs * n;
      into.stride[0] = count_ * limbs * n, into.stride[1] = limbs * n;
      const auto gather = [&] { queue_->enqueue(device::Copy{repeated, into}); };
      check("items to all", items, all, count_, gather);
      print("exchange", "items to all", bytes, shape, timed(gather, {}));
    }
  }

  /// Measures reads by single members into their own memory, without the mesh.
  void links() {
    std::vector<std::size_t> sizes = {1, 4, 16, 64, 256};
    if (settings_.quick) sizes = {1};
    for (const std::size_t megabytes : sizes) {
      const std::size_t n = (megabytes << 20) / 8;
      struct End {
        std::unique_ptr<device::Queue> queue;
        Buffer from, to;
        View source, target;
      };
      std::vector<End> ends(count_);
      for (std::size_t m = 0; m < count_; ++m) {
        End& e = ends[m];
        e.queue = mesh_->member(m).make_queue();
        e.from = mesh_->member(m).allocate(n * 8, *e.queue), e.to = mesh_->member(m).allocate(n * 8, *e.queue);
        e.source = View::dense(e.from->address(), Word::w64, {1}, 1, 1, n);
        e.target = View::dense(e.to->address(), Word::w64, {1}, 1, 1, n);
        e.queue->enqueue(device::Zero{e.source});
        e.queue->wait();
      }
      char shape[48];
      std::snprintf(shape, sizeof shape, "\"megabytes\": %zu, ", megabytes);
      // Member m reads from member m + distance.
      const auto reads = [&](const std::string& what, std::size_t readers, std::size_t distance) {
        for (std::size_t m = 0; m < readers; ++m) {
          if (!mesh_->member(m).reaches(mesh_->member((m + distance) % count_))) return;
        }
        const auto call = [&] {
          for (std::size_t m = 0; m < readers; ++m) {
            const device::Piece piece{ends[(m + distance) % count_].source, ends[m].target};
            ends[m].queue->enqueue(device::Gather{{piece}});
          }
        };
        const auto wait = [&] {
          for (std::size_t m = 0; m < readers; ++m) ends[m].queue->wait();
        };
        Times t = time_calls(settings_.seconds, call, {}, wait);
        t.bytes = static_cast<double>(readers * n * 8);
        print("link", what, n * 8, shape, t);
      };
      reads("a member its own memory", 1, 0);
      if (count_ > 1) reads("one member another's", 1, 1);
      if (count_ > 1) reads("each member its neighbour's", count_, 1);
    }
  }

  const Settings& settings_;
  std::size_t count_;
  bool staged_;
  std::string name_;
  std::unique_ptr<device::Device> device_;
  Mesh* mesh_ = nullptr;
  std::unique_ptr<device::Queue> queue_;
};

int run(int argc, char** argv) {
  Settings settings;
  read_options(argc, argv,
               {{"--members", into(settings.members)},
                {"--counts", into(settings.counts)},
                {"--only", into(settings.only)},
                {"--seconds", into(settings.seconds)},
                {"--quick", [&](const std::string& value) { settings.quick = value == "1"; }}});
  if (settings.members.empty()) throw Error("--members is missing: name the devices, for example cuda:0,cuda:1");
  if (settings.counts.empty()) settings.counts = {settings.members.size()};
  for (const std::size_t count : settings.counts) {
    if (count < 1 || count > settings.members.size()) {
      std::fprintf(stderr, "cannot use %zu members: --members names %zu\n", count, settings.members.size());
      continue;
    }
    for (const bool staged : {false, true}) {
      if (staged && count == 1) continue;
      std::fprintf(stderr, "%zu member(s)%s\n", count, staged ? ", through the host" : "");
      Bench(settings, count, staged).run();
    }
  }
  return 0;
}

}  // namespace heliograph::bench

int main(int argc, char** argv) { return heliograph::bench::run_and_report(heliograph::bench::run, argc, argv); }
