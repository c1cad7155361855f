// The operations of Frame's thesis (2015) on DoubleCRT objects (rows of residues, one prime each): add, subtract and multiply by an
// object and by a constant, on three levels, with resident data and, as in the thesis, with copies around each operation.
//   doublecrt [--device cpu] [--rows 8] [--edition w64] [--sizes 1000,...] [--rings 1024,...] [--batch 8]
//             [--levels function,phase,circuit] [--operations add,...] [--seconds 0.05] [--json FILE]
// Writes one JSON object per line, to the file (on rank 0) or to stdout. Levels:
//   function  one operation in place, a = a op b, on `items` objects in one call
//   phase     the same on one object whose operands come from rank 0's host memory and whose result returns there: set-up (memory,
//             queue), in, compute, out. Over ranks the rows are scattered and gathered; with the option /limb each row goes to the
//             member that received work least recently ("rolling round-robin")
//   circuit   ciphertexts of two parts: sums and the product of three parts of raw rows; BGV's relinearized product of rings
// `sizes` are numbers of residues per row, of any value (stored to the next multiple of 64 residues); `rings` are powers of
// two. Times are in seconds: `median_s` of a call that all ranks wait for, `pipe_s` per call of many. `bytes` and `products`
// are the minimum of a call. `moved` are bytes between members in a call (Mesh::moved), `sent` bytes from rank 0 to other
// ranks, in `exchanges`; `dealt` bytes of phases from and to rank 0's host. Every result is compared with one in 128-bit
// integers before it is timed.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "device/kernels.h"
#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "math/primes.h"
#include "mesh/mesh.h"
#include "tools.h"

namespace heliograph::bench {

using device::Buffer;
using device::LimbConstants;
using device::PrimeList;
using device::RingConstant;
using device::View;
using math::u128;
using math::u64;
using math::Word;

constexpr double kStretch = 5e-3;                       // limit of the calls enqueued before one wait, in seconds
constexpr std::size_t kLargest = std::size_t{1} << 20;  // largest object, in bytes, for which a batch is also measured
// the distribution of rows over members starts again after each of these numbers of rows
constexpr std::size_t kTurns = 64;

struct Settings {
  std::string device, json;
  std::size_t rows = 8, batch = 8;
  Word word = Word::w64;
  // The thesis's row sizes, and the neighbouring powers of two up to the largest ring.
  std::vector<std::size_t> sizes = {1000, 10'000, 100'000, 200'000, 300'000, 400'000};
  std::vector<std::size_t> rings = {1024, 8192, 16384, 65536, 131072};
  std::vector<std::string> levels = {"function", "phase", "circuit"}, operations;
  double seconds = 0.05;

  int bits() const { return word == Word::w64 ? 50 : 30; }
  std::string edition() const { return word == Word::w64 ? "w64" : "w32"; }
  static bool among(const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  }
  bool measures(const std::string& level) const { return among(levels, level); }
  bool measures_operation(const std::string& name) const { return operations.empty() || among(operations, name); }
};

/// An operation on rows of residues. `constant`: the operand b is one number modulo each prime.
enum class Kind { add, sub, mul, neg, tensor };
struct Operation {
  const char* name;
  Kind kind;
  bool constant = false;
};
constexpr Operation kOperations[] = {
    {"add", Kind::add},
    {"sub", Kind::sub},
    {"mul", Kind::mul},
    {"add constant", Kind::add, true},
    {"sub constant", Kind::sub, true},
    {"mul constant", Kind::mul, true},
    {"neg", Kind::neg},  // the fastest operation on a row, from which floors follow
};

/// Circuits on raw rows, which cannot be relinearized, because raw rows have no NTT.
constexpr Operation kCircuits[] = {{"add", Kind::add}, {"sub", Kind::sub}, {"tensor", Kind::tensor}};

/// Objects of one shape: `items` objects of `components` polynomials, each stored as rows of residues.
struct Shape {
  std::size_t size, items, components;
  bool ring;
};

/// Rows modulo their primes on the device, and their expected values.
class Rows {
 public:
  Rows(device::Device& device, const Settings& s, std::size_t size, bool ring) : device_(device), size_(size) {
    const std::size_t n = ring ? size : (size + 63) / 64 * 64;
    std::vector<u64> primes = math::largest_primes(s.bits(), s.rows, ring ? 2 * n : 2);
    ring_ = std::make_shared<math::Ring>(ring ? math::Ring(n, s.word, primes) : math::Ring::rows(n, s.word, primes));
    prepared_ = device.kernels().prepare(ring_);
    u64 state = size;
    for (std::size_t r = 0; r < s.rows; ++r) constants_[r] = random(state) % ring_->prime(static_cast<math::PrimeIndex>(r));
  }

  const math::Ring& ring() const { return *ring_; }
  const RingConstant& prepared() const { return *prepared_; }
  PrimeList primes() const { return PrimeList::range(0, ring_->primes().size()); }
  View view(std::size_t items, std::size_t components) const {
    return View::dense(nullptr, ring_->word(), {items}, components, ring_->primes().size(), ring_->n());
  }

  /// Returns the residues of all polynomials of one object; the words after a row's last residue are zero.
  std::vector<u64> object(std::size_t components, u64 state) const {
    std::vector<u64> words;
    for (std::size_t c = 0; c < components; ++c) {
      for (const u64 q : ring_->primes()) {
        for (std::size_t i = 0; i < ring_->n(); ++i) words.push_back(i < size_ ? random(state) % q : 0);
      }
    }
    return words;
  }
  /// Returns the words in memory order.
  std::vector<std::byte> bytes(const std::vector<u64>& words) const {
    const std::size_t word = math::word_bytes(ring_->word());
    std::vector<std::byte> all(words.size() * word);
    for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(all.data() + i * word, &words[i], word);  // little-endian
    return all;
  }

  using Bytes = std::vector<std::byte>;
  /// Returns the first or second operand in memory order; the operand is made once.
  const Bytes& operand(std::size_t components, u64 which) const {
    Bytes& made = made_[{which == 1 ? "a" : "b", components}];
    if (made.empty()) made = bytes(object(components, which));
    return made;
  }
  /// Returns the expected result of an operation; the result is computed once.
  const Bytes& wanted(const Operation& op, std::size_t components) const {
    Bytes& made = made_[{op.name, components}];
    if (!made.empty()) return made;
    const std::vector<u64> a = object(components, 1), b = object(components, 2);
    return made = bytes(op.kind == Kind::tensor ? tensor(a, b) : expected(op, a, b));
  }

  void enqueue(const Operation& op, device::Queue& q, const View& a, const View& b, const View& out) const {
    const PrimeList list = primes();
    LimbConstants c = constants_;
    if (op.constant && op.kind == Kind::sub)
      for (std::size_t r = 0; r < list.size(); ++r) c[r] = c[r] ? ring_->primes()[r] - c[r] : 0;
    if (op.kind == Kind::neg) return q.enqueue(device::Neg{prepared_, list, a, out});
    if (op.kind == Kind::tensor) return q.enqueue(device::Tensor{prepared_, list, a, b, out});
    if (op.constant && op.kind == Kind::mul) return q.enqueue(device::MulConstants{prepared_, list, a, c, out});
    if (op.constant) return q.enqueue(device::AddConstants{prepared_, list, a, c, math::Domain::ntt, out});
    if (op.kind == Kind::add) return q.enqueue(device::Add{prepared_, list, a, b, out});
    if (op.kind == Kind::sub) return q.enqueue(device::Sub{prepared_, list, a, b, out});
    q.enqueue(device::Mul{prepared_, list, a, b, out});
  }

 private:
  /// The expected result is computed in 128-bit integers.
  std::vector<u64> expected(const Operation& op, const std::vector<u64>& a, const std::vector<u64>& b) const {
    std::vector<u64> out(a.size());
    const std::size_t n = ring_->n(), rows = ring_->primes().size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / n % rows;
      out[i] = apply(op.kind, a[i], op.constant ? constants_[row] : b[i], ring_->primes()[row]);
      if (i % n >= size_ && !op.constant) out[i] = 0;
    }
    return out;
  }
  /// Returns the product of two objects of two parts: a0 b0, a0 b1 + a1 b0, a1 b1.
  std::vector<u64> tensor(const std::vector<u64>& a, const std::vector<u64>& b) const {
    const std::size_t part = a.size() / 2, n = ring_->n();
    std::vector<u64> out(3 * part);
    for (std::size_t i = 0; i < part; ++i) {
      const u64 q = ring_->primes()[i / n];
      out[i] = apply(Kind::mul, a[i], b[i], q);
      out[2 * part + i] = apply(Kind::mul, a[part + i], b[part + i], q);
      out[part + i] = static_cast<u64>((u128{a[i]} * b[part + i] + u128{a[part + i]} * b[i]) % q);
    }
    return out;
  }

  static u64 apply(Kind kind, u64 a, u64 b, u64 q) {
    if (kind == Kind::neg) return (q - a) % q;
    if (kind == Kind::add) return static_cast<u64>((u128{a} + b) % q);
    if (kind == Kind::sub) return static_cast<u64>((u128{a} + q - b) % q);
    return static_cast<u64>(u128{a} * b % q);
  }
  static u64 random(u64& state) {
    u64 z = state += 0x9e3779b97f4a7c15ULL;  // splitmix64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }

  device::Device& device_;
  std::size_t size_;
  std::shared_ptr<const math::Ring> ring_;
  std::shared_ptr<const RingConstant> prepared_;
  LimbConstants constants_{};
  mutable std::map<std::pair<std::string, std::size_t>, Bytes> made_;
};

struct Times {
  double alone = 0, among = 0, moved = 0, sent = 0, exchanges = 0;
  std::size_t runs = 0;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : s_(settings),
        device_(mesh::default_device()),
        mesh_(dynamic_cast<mesh::Mesh*>(&device_)),
        queue_(device_.make_queue()) {
    if (!s_.json.empty() && rank() == 0) {
      file_.open(s_.json);
      if (!file_) throw Error(s_.json + " cannot be written");
    }
  }

  void run() {
    print(std::ostringstream() << "{\"device\": \"" << device_.name() << "\", \"description\": \"" << device_.description()
                               << "\", \"members\": " << (mesh_ ? mesh_->size() : 1) << ", \"ranks\": " << ranks()
                               << ", \"edition\": \"" << s_.edition() << "\", \"prime_bits\": " << s_.bits()
                               << ", \"rows\": " << s_.rows << ", \"products_s\": " << device_.product_ceiling() << "}");
    for (const bool ring : {false, true}) {
      for (const std::size_t size : ring ? s_.rings : s_.sizes) {
        {
          const Rows rows(device_, s_, size, ring);
          if (s_.measures("function")) operations(rows, "function", {size, 1, 1, ring}, kOperations);
          if (s_.measures("circuit") && !ring) operations(rows, "circuit", {size, 1, 2, ring}, kCircuits);
          if (s_.measures("phase") && !ring) phases(rows, {size, 1, 1, ring});
        }
        if (s_.measures("circuit") && ring) ciphertexts(size);
      }
    }
  }

 private:
  std::size_t rank() const { return mesh_ ? mesh_->rank() : 0; }
  std::size_t ranks() const { return mesh_ ? mesh_->ranks() : 1; }
  /// Returns one object, and also a batch if an object is small enough.
  std::vector<std::size_t> counts(std::size_t size) const {
    return s_.batch > 1 && size * s_.rows <= kLargest ? std::vector<std::size_t>{1, s_.batch} : std::vector<std::size_t>{1};
  }

  /// Returns the number of rank 0 on every rank, because all ranks must make the same number of calls.
  std::size_t agreed(std::size_t number) const {
    const std::vector<std::byte> said = device_.broadcast([&] {
      std::vector<std::byte> bytes(sizeof number);
      std::memcpy(bytes.data(), &number, sizeof number);
      return bytes;
    });
    std::memcpy(&number, said.data(), sizeof number);
    return number;
  }
  std::size_t times_in(double seconds, double one, std::size_t least, std::size_t most) const {
    const double wanted = std::clamp(seconds / std::max(one, 1e-9), static_cast<double>(least), static_cast<double>(most));
    return agreed(static_cast<std::size_t>(wanted));
  }
  /// Waits until all ranks have computed the enqueued calls.
  void wait_all() {
    queue_->wait();
    device_.confirm("barrier of the benchmark", "");
  }
  double moved() const { return mesh_ ? static_cast<double>(mesh_->moved().bytes) : 0; }
  mesh::Moved counted() const { return mesh_ ? mesh_->moved() : mesh::Moved{}; }

  Times timed(const std::function<void()>& call) {
    Times t;
    std::vector<double> times;
    const auto once = [&] {
      const auto start = Clock::now();
      call(), wait_all();
      times.push_back(seconds_since(start));
    };
    for (int i = 0; i < 2; ++i) once();
    const double first = *std::min_element(times.begin(), times.end());
    times.clear();
    t.runs = times_in(s_.seconds, first, 3, 5000);
    const mesh::Moved before = counted();
    for (std::size_t i = 0; i < t.runs; ++i) once();
    const mesh::Moved after = counted();
    const auto each = [&](device::u64 from, device::u64 to) {
      return static_cast<double>(to - from) / static_cast<double>(t.runs);
    };
    t.moved = each(before.bytes, after.bytes);
    t.sent = each(before.sent_bytes, after.sent_bytes);
    t.exchanges = each(before.exchanges, after.exchanges);
    t.alone = t.among = median(times);
    if (agreed(t.alone > 0.1 ? 1 : 0)) return t;  // long calls are waited for one by one, because the wait is negligible
    const std::size_t repeats = times_in(kStretch, t.alone, 2, 500);
    const std::size_t rounds = times_in(s_.seconds, t.alone * static_cast<double>(repeats), 3, 500);
    times.clear();
    for (std::size_t r = 0; r < rounds; ++r) {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < repeats; ++i) call();
      wait_all();
      times.push_back(seconds_since(start) / static_cast<double>(repeats));
    }
    t.among = median(times);
    return t;
  }

  void print(const std::ostream& text) {
    if (rank() != 0) return;
    (file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout)
        << static_cast<const std::ostringstream&>(text).str() << std::endl;
  }
  static std::ostringstream head(const char* level, const std::string& operation, const Shape& shape) {
    std::ostringstream out;
    out << "{\"level\": \"" << level << "\", \"operation\": \"" << operation << "\", \"row_size\": " << shape.size
        << ", \"ring\": " << (shape.ring ? "true" : "false") << ", \"items\": " << shape.items
        << ", \"parts\": " << shape.components;
    return out;
  }
  void print(const char* level, const std::string& operation, const Shape& shape, const Times& t, double bytes,
             double products) {
    std::ostringstream out = head(level, operation, shape);
    out << ", \"median_s\": " << t.alone << ", \"pipe_s\": " << t.among << ", \"runs\": " << t.runs
        << ", \"bytes\": " << bytes << ", \"products\": " << products << ", \"moved\": " << t.moved
        << ", \"sent\": " << t.sent << ", \"exchanges\": " << t.exchanges << "}";
    print(out);
  }

  /// The memory and view of a tensor on the device.
  struct Held {
    Buffer buffer;
    View view;
  };
  Held held(const Rows& rows, std::size_t items, std::size_t components, std::size_t first_row = 0) {
    Held h{.buffer = nullptr, .view = rows.view(items, components)};
    h.buffer = device_.allocate(h.view, PrimeList::range(first_row, h.view.limbs), *queue_);
    h.view.data = h.buffer->address();
    return h;
  }
  /// Copies an operand to every item, from rank 0's memory.
  void upload(const Rows& rows, const Held& to, u64 which) {
    const std::size_t bytes = item_bytes(to);
    for (std::size_t item = 0; item < to.view.items(); ++item) {
      device_.scatter(*queue_, rank() == 0 ? std::span<const std::byte>(rows.operand(to.view.components, which)) : none(),
                      bytes, to.view.data + item * bytes);
    }
  }
  /// Compares on rank 0, and broadcasts the result to all ranks.
  void check(const Rows& rows, const Operation& op, const Held& out, std::size_t components) {
    std::vector<std::byte> got(rank() == 0 ? item_bytes(out) : 0);
    for (std::size_t item = 0; item < out.view.items(); ++item) {
      device_.gather(*queue_, out.view.data + item * item_bytes(out), item_bytes(out), got);
      require_equal(op.name, [&] { return got == rows.wanted(op, components); });
    }
  }
  void require_equal(const std::string& what, const std::function<bool()>& equal) {
    device_.broadcast([&] {
      if (!device_.counter() && !equal()) throw Error(what + ": the result differs from that in 128-bit integers");
      return std::vector<std::byte>();
    });
  }
  static std::span<const std::byte> none() { return {}; }
  static std::size_t item_bytes(const Held& h) { return h.view.words() / h.view.items() * h.view.word_size(); }

  double words(const Shape& shape) const {
    return static_cast<double>(shape.size * s_.rows * shape.components * shape.items);
  }

  /// Times each operation and prints one line per number of items; all items are equal.
  void operations(const Rows& rows, const char* level, Shape shape, std::span<const Operation> list) {
    const std::size_t parts = shape.components;
    for (const std::size_t items : counts(shape.size)) {
      shape.items = items;
      const Held x = held(rows, items, parts), y = held(rows, items, parts);
      const Held three = parts == 2 ? held(rows, items, 3) : Held{};
      upload(rows, y, 2);
      for (const Operation& op : list) {
        if (!s_.measures_operation(op.name)) continue;
        const bool tensor = op.kind == Kind::tensor, alone = op.constant || op.kind == Kind::neg;
        const Held& out = tensor ? three : x;
        upload(rows, x, 1);
        const auto call = [&] { rows.enqueue(op, *queue_, x.view, y.view, out.view); };
        call();
        check(rows, op, out, parts);
        const double word = static_cast<double>(math::word_bytes(s_.word)), count = words(shape);
        print(level, op.name, shape, timed(call),
              count * word *
                  (tensor  ? 3.5
                   : alone ? 2
                           : 3),
              tensor                 ? 2 * count
              : op.kind == Kind::mul ? count
                                     : 0);
      }
    }
  }

  /// Times operations as in the thesis: each call copies operands from the host and the result back.
  void phases(const Rows& rows, const Shape& shape) {
    const bool keeps = rank() == 0;
    const View one = rows.view(1, 1);
    const std::size_t bytes = one.words() * one.word_size();
    const std::span<const std::byte> a = keeps ? std::span<const std::byte>(rows.operand(1, 1)) : none(),
                                     b = keeps ? std::span<const std::byte>(rows.operand(1, 2)) : none();
    std::vector<std::byte> result(keeps ? bytes : 0);
    std::size_t turn = 0;
    for (const Operation& op : kOperations) {
      if (!s_.measures_operation(op.name) || op.kind == Kind::neg) continue;
      // median seconds of: allocation, copies in, computation, copy out, all together
      std::array<std::vector<double>, 5> times;
      double dealt = 0;
      const auto once = [&] {
        const auto start = Clock::now();
        auto last = start;
        const auto lap = [&](std::size_t phase) {
          wait_all();
          times[phase].push_back(seconds_since(last));
          last = Clock::now();
        };
        // The next row is stored on the member after that of the last row.
        const Held x = held(rows, 1, 1, turn), y = held(rows, 1, 1, turn);
        dealt += away(turn, bytes) * (op.constant ? 2 : 3);
        turn = (turn + s_.rows) % kTurns;
        lap(0);
        device_.scatter(*queue_, a, bytes, x.view.data);
        if (!op.constant) device_.scatter(*queue_, b, bytes, y.view.data);
        lap(1);
        rows.enqueue(op, *queue_, x.view, y.view, x.view);
        lap(2);
        device_.gather(*queue_, x.view.data, bytes, result);
        lap(3);
        times[4].push_back(seconds_since(start));
      };
      once();
      require_equal(op.name, [&] { return result == rows.wanted(op, 1); });
      const double first = times[4][0];
      const std::size_t runs = times_in(s_.seconds, first, 5, 1000);
      for (auto& t : times) t.clear();
      dealt = 0;
      const double before = moved();
      for (std::size_t i = 0; i < runs; ++i) once();
      std::ostringstream out = head("phase", op.name, shape);
      out << ", \"setup_s\": " << median(times[0]) << ", \"in_s\": " << median(times[1])
          << ", \"compute_s\": " << median(times[2]) << ", \"out_s\": " << median(times[3])
          << ", \"median_s\": " << median(times[4]) << ", \"runs\": " << runs
          << ", \"dealt\": " << dealt / static_cast<double>(runs)
          << ", \"moved\": " << (moved() - before) / static_cast<double>(runs) << "}";
      print(out);
    }
  }
  /// Returns the bytes of an object that are not on rank 0's members; all members have equal shares.
  double away(std::size_t first_row, std::size_t bytes) const {
    if (ranks() == 1) return 0;
    const double others = 1 - 1 / static_cast<double>(ranks());
    const std::string name = device_.name();
    if (name.find("/coefficient") != std::string::npos) return static_cast<double>(bytes) * others;
    if (name.find("/limb") == std::string::npos) return 0;  // with items as layout, a single item is on the first member
    const std::size_t members = mesh_->size(), mine = members / ranks();
    std::size_t sent = 0;
    for (std::size_t r = 0; r < s_.rows; ++r) sent += (first_row + r) % members >= mine;
    return static_cast<double>(sent * (bytes / s_.rows));
  }

  /// Times multiplications of BGV ciphertexts in a ring.
  void ciphertexts(std::size_t n) {
    // The gadget is short: three special primes, and digits of three primes. The sets are insecure, as in the thesis.
    const bgv::Spec spec = bgv::make_spec(n, static_cast<int>(s_.rows) * s_.bits(), std::min<std::size_t>(3, s_.rows),
                                          {65537}, s_.word == Word::w64 ? 64 : 32, 0, true);
    if (spec.chain.size() != s_.rows) throw Error("the chain has a different number of primes");
    const bgv::Parameters parameters(spec);
    const bgv::SecretKey secret = bgv::SecretKey::generate(parameters);
    const bgv::EvaluationKeys keys = secret.evaluation_keys(true, {}, false);
    for (const std::size_t items : counts(n)) {
      constexpr std::size_t kWidth = 16;
      bfv::Values values{.data = {}, .shape = {items}, .width = kWidth};
      for (std::size_t i = 0; i < items * kWidth; ++i) values.data.push_back(static_cast<std::int64_t>(i % 97 + 1));
      const auto encrypted = [&] { return secret.encrypt(values, bfv::Packing::coefficients); };
      // After one operation the operands are in the NTT domain.
      const bgv::Ciphertext a = add(encrypted(), encrypted()), b = encrypted();
      const auto product = [&] { return relinearize(multiply(a, b, &keys), keys); };
      const auto right = [&](const bgv::Ciphertext& c, auto wanted) {
        const std::vector<std::uint64_t> got = secret.decrypt(c);
        if (rank() != 0 || device_.counter()) return;
        const std::size_t width = got.size() / items;
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (got[i] != wanted(values.data.data() + i / width * kWidth, i % width))
            throw Error("a ciphertext decrypts to wrong values");
        }
      };
      const auto at = [](const std::int64_t* v, std::size_t i) { return i < kWidth ? static_cast<u64>(v[i]) : 0; };
      right(add(a, b), [&](const std::int64_t* v, std::size_t i) { return 3 * at(v, i); });
      right(subtract(a, b), [&](const std::int64_t* v, std::size_t i) { return at(v, i); });
      right(product(), [&](const std::int64_t* v, std::size_t i) {
        u128 sum = 0;
        for (std::size_t j = 0; j <= i && j < kWidth; ++j) sum += u128{2} * at(v, j) * at(v, i - j);
        return static_cast<u64>(sum % 65537);
      });
      const Shape shape{n, items, 2, true};
      const double word = static_cast<double>(math::word_bytes(s_.word)), count = words(shape);
      bgv::Ciphertext c;
      if (s_.measures_operation("add")) print("circuit", "add", shape, timed([&] { c = add(a, b); }), 3 * count * word, 0);
      if (s_.measures_operation("sub"))
        print("circuit", "sub", shape, timed([&] { c = subtract(a, b); }), 3 * count * word, 0);
      if (s_.measures_operation("multiply"))
        print("circuit", "multiply", shape, timed([&] { c = product(); }), 3 * count * word, multiplication(spec, n, items));
    }
  }
  /// Returns butterflies and products of a multiplication with its key switch. Operands are in the NTT domain. The third
  /// polynomial is transformed to coefficients, raised to all primes digit by digit, transformed, multiplied by the key and
  /// divided.
  static double multiplication(const bgv::Spec& spec, std::size_t n, std::size_t items) {
    const auto q = static_cast<double>(spec.chain.size()), p = static_cast<double>(spec.special.size()),
               d = static_cast<double>(spec.digits.size()), degree = static_cast<double>(n);
    const double transforms = q + (d * (q + p) - q) + 2 * p + 2 * q;
    const double raise = q * (q + p), divide = 2 * p * q;
    return static_cast<double>(items) * degree *
           (transforms * std::log2(degree) / 2 + raise + divide + 4 * q + 2 * d * (q + p));
  }

  const Settings& s_;
  device::Device& device_;
  mesh::Mesh* mesh_;
  std::unique_ptr<device::Queue> queue_;
  std::ofstream file_;
};

int run(int argc, char** argv) {
  Settings s;
  const auto edition = [&](const std::string& value) {
    if (value != "w64" && value != "w32") throw Error("--edition must be w64 or w32");
    s.word = value == "w64" ? Word::w64 : Word::w32;
  };
  read_options(argc, argv,
               {{"--device", into(s.device)},
                {"--rows", into(s.rows)},
                {"--edition", edition},
                {"--sizes", into(s.sizes)},
                {"--rings", into(s.rings)},
                {"--batch", into(s.batch)},
                {"--levels", into(s.levels)},
                {"--operations", into(s.operations)},
                {"--seconds", into(s.seconds)},
                {"--json", into(s.json)}});
  if (s.rows < 1 || s.rows > kTurns) throw Error("--rows must be between 1 and 64");
  if (!s.device.empty()) setenv("HELIOGRAPH_DEVICE", s.device.c_str(), 1);
  Bench(s).run();
  return 0;
}

}  // namespace heliograph::bench

int main(int argc, char** argv) { return heliograph::bench::run_and_report(heliograph::bench::run, argc, argv); }
