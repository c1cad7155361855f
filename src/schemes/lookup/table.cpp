#include "schemes/lookup/table.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <optional>

#include "base/parallel.h"
#include "base/progress.h"
#include "heliograph/interrupt.h"
#include "ring/entropy.h"

namespace heliograph::lookup {

namespace {

using Block = std::vector<unsigned char>;
constexpr unsigned char kZero = 128;  // a byte b represents the number b - kZero

/// Returns kBlock columns of a matrix whose rows are `width` bytes long, padded with zeros.
Block block_of(std::span<const std::uint8_t> bytes, std::size_t width, const Size& size, std::size_t first) {
  Block block(TableData::kBlock * size.rows);
  if (first >= width) return block;
  const std::size_t count = std::min(TableData::kBlock, width - first), rows = (bytes.size() + width - 1) / width;
  constexpr std::size_t kTile = 256;
  parallel_for((rows + kTile - 1) / kTile, block.size(), [&](std::size_t tile) {
    for (std::size_t r = tile * kTile; r < std::min((tile + 1) * kTile, rows); ++r) {
      const std::size_t from = r * width + first;
      const std::size_t some = from < bytes.size() ? std::min(count, bytes.size() - from) : 0;
      for (std::size_t c = 0; c < some; ++c) block[c * size.rows + r] = bytes[from + c];
    }
  });
  return block;
}

/// Updates a column's hint after a change of row i of a part by delta: adds delta X^-i times the part's mask.
void add_turned(const std::vector<u32>& mask, std::size_t i, u32 delta, u32* hint) {
  for (std::size_t k = 0; k < i; ++k) hint[k + kDegree - i] -= delta * mask[k];
  for (std::size_t k = i; k < kDegree; ++k) hint[k - i] += delta * mask[k];
}

}  // namespace

TableData::TableData(const Size& given, const Key256& given_seed, const std::string& name)
    : size(given),
      seed(given_seed),
      device(device_of(name)),
      exact(std::make_shared<Engine>(*device, exact_ring())),
      packing(std::make_shared<Engine>(*device, packing_ring())),
      uploads(device->make_queue()),
      downloads(device->make_queue()) {
  packing->require_memory(size.rows * size.columns + (kTurns + 1) * packs() * kDegree * sizeof(u64), "this table");
  packing->require_host_memory(size.columns * kDegree * sizeof(u32), "the precomputed data of this table");
  masks = question_masks(exact, size, seed);
  bytes = device::View::dense(nullptr, math::Word::w32, {}, size.columns, 1, size.rows / 4);
  bytes = bytes.in(packing->allocate(bytes, {0}));
  hint.resize(size.columns * kDegree);
  answer_masks.resize(size.columns * kMaskBytes);
  digits = RnsTensor(packing, {}, kTurns * packs(), kQ, Domain::ntt);
  last = RnsTensor(packing, {}, packs(), kQ, Domain::ntt);
  std::vector<u64> way = {1}, galois;
  while (way.size() <= kSteps) way.push_back(way.back() * kGenerator % (2 * kDegree));
  for (std::size_t i = kSteps; i-- > 0;) galois.push_back(way[i]);
  for (std::size_t i = kSteps; i-- > 0;) galois.push_back(2 * kDegree - way[i]);
  for (const u64 t : galois) turns.push_back(t == 1 ? nullptr : packing->automorphism(t, Domain::ntt));
  galois.push_back(way[kSteps]), galois.push_back(2 * kDegree - way[kSteps]);
  for (const u64 t : galois) {
    const std::vector<u32> table = math::automorphism_table(kDegree, t);
    tables.insert(tables.end(), table.begin(), table.end());
  }
}

void TableData::prepare_hint(std::size_t first, std::span<const unsigned char> block) {
  const std::size_t parts = size.rows / kDegree;
  u32 residue[2][2][256];  // residue of a byte minus kZero, and of its negative, modulo each prime
  for (std::size_t l = 0; l < 2; ++l) {
    for (int b = 0; b < 256; ++b) {
      residue[l][0][b] =
          static_cast<u32>(math::signed_mod(b - kZero, exact_ring()->prime(static_cast<math::PrimeIndex>(l))));
      residue[l][1][b] =
          static_cast<u32>(math::signed_mod(kZero - b, exact_ring()->prime(static_cast<math::PrimeIndex>(l))));
    }
  }
  const RnsTensor columns(exact, {kBlock}, parts, kExact, Domain::coefficient),
      sums(exact, {kBlock}, 1, kExact, Domain::ntt);
  std::vector<u32> words(kBlock * parts * 2 * kDegree);
  parallel_for(kBlock * parts, words.size(), [&](std::size_t unit) {
    const unsigned char* const from = block.data() + unit * kDegree;
    for (std::size_t l = 0; l < 2; ++l) {
      u32* const to = words.data() + (2 * unit + l) * kDegree;
      to[0] = residue[l][0][from[0]];
      for (std::size_t i = 1; i < kDegree; ++i) to[kDegree - i] = residue[l][1][from[i]];
    }
  });
  ring::upload(columns, std::as_bytes(std::span(words)));
  exact->enqueue(device::ForwardNtt{exact->prepared(), kExact, columns.view(), columns.view()});
  exact->enqueue(
      device::InnerProduct{exact->prepared(), kExact, columns.view(), masks.view(), PrimeList(kExact), sums.view()});
  exact->enqueue(device::InverseNtt{exact->prepared(), kExact, sums.view(), sums.view()});
  words.resize(kBlock * 2 * kDegree);
  exact->download(sums.view(), std::as_writable_bytes(std::span(words)));
  const Joined joined;
  for (std::size_t c = 0; c < kBlock; ++c) {
    for (std::size_t i = 0; i < kDegree; ++i)
      hint[(first + c) * kDegree + i] = joined(words[2 * c * kDegree + i], words[(2 * c + 1) * kDegree + i]);
  }
}

Table::Table(const Size& size, const std::string& seed, std::span<const std::uint8_t> bytes, std::size_t width,
             const std::string& device) {
  check(size);
  require<ShapeError>(width > 0 && width <= size.columns && bytes.size() <= size.rows * width,
                      "the bytes exceed the table: width must be 1 to columns, with at most `rows` rows");
  ring::Entropy entropy;
  data_ = std::make_shared<TableData>(size, seed.empty() ? entropy.next() : seed_of(seed), device);
  TableData& d = *data_;
  constexpr double kHint = 0.9;  // share of the first loop
  ProgressSteps steps(1);
  for (std::size_t first = 0; first < size.columns; first += TableData::kBlock) {
    const Block block = block_of(bytes, width, size, first);
    d.packing->upload(std::as_bytes(std::span(block)), d.block(first));
    d.prepare_hint(first, block);
    steps.add_until(kHint * static_cast<double>(first + TableData::kBlock) / static_cast<double>(size.columns));
  }
  for (std::size_t p = 0; p < d.packs(); p += 4) {
    std::vector<std::size_t> some;
    for (std::size_t k = p; k < std::min(p + 4, d.packs()); ++k) some.push_back(k);
    d.pack(some);
    steps.add_until(kHint + (1 - kHint) * static_cast<double>(p + some.size()) / static_cast<double>(d.packs()));
  }
}

const Size& Table::size() const { return data_->size; }
std::string Table::seed() const { return {data_->seed.begin(), data_->seed.end()}; }
std::size_t Table::bytes() const { return data_->bytes.bytes() + data_->digits.bytes() + data_->last.bytes(); }

void Table::update(std::span<const std::uint64_t> rows, std::span<const std::uint64_t> columns, std::size_t width,
                   std::span<const std::uint8_t> bytes) {
  TableData& d = *data_;
  require<ShapeError>(columns.size() == rows.size() && bytes.size() == rows.size() * width,
                      "an update must have `width` bytes and one column for each row");
  for (std::size_t k = 0; k < rows.size(); ++k)
    require<ShapeError>(rows[k] < d.size.rows && columns[k] <= d.size.columns && width <= d.size.columns - columns[k],
                        "an update is outside the table's rows or columns");
  std::map<std::size_t, std::vector<std::size_t>> blocks;  // updates of each block of columns
  std::map<u64, std::vector<u32>> parts;
  for (std::size_t k = 0; k < rows.size() && width > 0; ++k) {
    for (std::size_t b = columns[k] / d.kBlock; b <= (columns[k] + width - 1) / d.kBlock; ++b)
      blocks[b * d.kBlock].push_back(k);
    std::vector<u32>& mask = parts[rows[k] / kDegree];
    if (mask.empty()) mask = mask_words(d.seed, rows[k] / kDegree);
  }
  const std::unique_lock lock(d.mutex);
  Block block(d.kBlock * d.size.rows);
  for (const auto& [first, updates] : blocks) {
    d.packing->download(d.block(first), std::as_writable_bytes(std::span(block)));
    for (const std::size_t k : updates) {
      for (std::size_t c = std::max<std::size_t>(first, columns[k]);
           c < std::min<std::size_t>(first + d.kBlock, columns[k] + width); ++c) {
        unsigned char& old = block[(c - first) * d.size.rows + rows[k]];
        const unsigned char now = bytes[k * width + c - columns[k]];
        if (old == now) continue;
        add_turned(parts[rows[k] / kDegree], rows[k] % kDegree, static_cast<u32>(now) - old, d.hint.data() + c * kDegree);
        old = now;
        d.stale.insert(c / kDegree);
      }
    }
    d.packing->upload(std::as_bytes(std::span(block)), d.block(first));
  }
  d.repack();
}

namespace {

/// A batch of questions in progress: its words, and its results on the device.
struct Asked {
  std::size_t first, count;
  device::View words, products;
  std::optional<RnsTensor> sums;
  std::shared_ptr<device::Event> done;
};

/// Uploads the keys of questions: [question][key], NTT domain.
RnsTensor keys_of(const TableData& d, std::span<const std::uint64_t> keys, std::size_t questions) {
  RnsTensor made(d.packing, {questions}, 2, kQ, Domain::ntt);
  ring::upload(made, std::as_bytes(keys));
  return made;
}

/// Uploads the words of questions on a separate queue, concurrently with the products of earlier questions.
device::View uploaded(const TableData& d, std::span<const std::uint32_t> words, std::size_t questions) {
  const Engine& e = *d.packing;
  device::View v = device::View::dense(nullptr, math::Word::w32, {questions}, 1, 1, d.size.rows);
  const device::Buffer buffer = e.with_room(v.bytes(), [&] { return d.device->allocate(v, {0}, *d.uploads); });
  v = v.in(buffer);
  d.device->upload(*d.uploads, std::as_bytes(words), v.data);
  e.queue().after(*d.uploads->record());
  e.queue().uses(buffer);
  return v;
}

Asked ask(const TableData& d, std::span<const std::uint32_t> words, std::span<const std::uint64_t> keys, std::size_t first,
          std::size_t count) {
  const Engine& e = *d.packing;
  Asked a{.first = first, .count = count, .words = uploaded(d, words, count), .products = {}, .sums = {}, .done = {}};
  a.products = device::View::dense(nullptr, math::Word::w32, {count}, 1, 1, d.size.columns);
  a.products = a.products.in(e.allocate(a.products, {0}));
  e.enqueue(device::ByteProduct{d.bytes, a.words, a.products, {}});
  const RnsTensor bodies = keys_of(d, keys, count);
  const RnsTensor& sums = a.sums.emplace(d.packing, ring::Shape{count}, d.packs(), kQ, Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(), kQ, bodies.with_components(0, 1).view(), d.digits.view(), PrimeList(kQ),
                                 sums.view(), d.turns});
  e.enqueue(device::MulAccumulate{e.prepared(), kQ, bodies.with_components(1, 1).view(), d.last.broadcast_to({count}).view(),
                                  sums.view()});
  e.enqueue(device::InverseNtt{e.prepared(), kQ, sums.view(), sums.view()});
  a.done = e.queue().record();
  return a;
}

struct Back {
  std::vector<u32> product;
  std::vector<u64> sum;
};

/// Downloads products and sums, concurrently with the products of later questions, and computes the answers' bodies.
void read(const TableData& d, const Asked& a, Back& back, std::span<std::uint16_t> bodies) {
  const std::size_t columns = d.size.columns;
  const u64 q = key_modulus();
  auto& [product, sum] = back;
  product.resize(a.count * columns), sum.resize(product.size());
  d.downloads->after(*a.done);
  d.device->download(*d.downloads, a.products.data, std::as_writable_bytes(std::span(product)));
  d.device->download(*d.downloads, a.sums->view().data, std::as_writable_bytes(std::span(sum)));
  const Lowered lowered;
  parallel_for(a.count, product.size(), [&](std::size_t question) {
    for (std::size_t i = question * columns; i < (question + 1) * columns; ++i) {
      const u64 raised = static_cast<u64>((u128{product[i]} * q + (u64{1} << 31)) >> 32), all = raised + sum[i];
      bodies[i] = static_cast<std::uint16_t>(lowered(all - (all >= q ? q : 0), kBodyBits));
    }
  });
}

}  // namespace

Answers Table::answer(std::span<const std::uint32_t> words, std::span<const std::uint64_t> keys) const {
  // Number of questions per product, and products in progress. During one product, the next product's words are uploaded and
  // the previous product's results are downloaded.
  constexpr std::size_t kTogether = 64, kProducts = 3;
  TableData& d = *data_;
  const std::size_t questions = keys.size() / kKeyWords, columns = d.size.columns;
  require<ShapeError>(keys.size() == questions * kKeyWords && words.size() == questions * d.size.rows,
                      "questions must have one word for each of the table's rows, and two keys");
  const u64 q = key_modulus();
  require<DamagedFileError>(std::all_of(keys.begin(), keys.end(), [&](u64 w) { return w < q; }),
                            "the words of a question's keys must be below key_modulus()");
  Answers answers;
  if (questions == 0) return answers;
  std::shared_lock lock(d.mutex);
  while (!d.stale.empty()) {  // an update was interrupted before packing: these packs lack their results
    lock.unlock();
    if (const std::unique_lock alone(d.mutex); !d.stale.empty()) d.repack();
    lock.lock();
  }
  std::deque<Asked> asked;
  Back back;
  std::future<void> reading;  // the thread that reads one product
  const auto read_first = [&] {
    if (reading.valid()) reading.get();
    answers.bodies.resize(questions * columns);  // allocated while the device computes
    reading = std::async(std::launch::async, [&, a = std::move(asked.front())] {
      read(d, a, back, std::span(answers.bodies).subspan(a.first * columns, a.count * columns));
    });
    asked.pop_front();
  };
  for (std::size_t first = 0; first < questions; first += kTogether) {
    Interruptible::heed();
    const std::size_t count = std::min(kTogether, questions - first);
    if (asked.size() == kProducts - 1) read_first();
    asked.push_back(ask(d, words.subspan(first * d.size.rows, count * d.size.rows),
                        keys.subspan(first * kKeyWords, count * kKeyWords), first, count));
  }
  while (!asked.empty()) read_first();
  reading.get();
  answers.masks = d.answer_masks;
  return answers;
}

}  // namespace heliograph::lookup
