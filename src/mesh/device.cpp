// The mesh as a device: memory over the members, and transfers to and from the host.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mesh/kernels.h"
#include "mesh/ranks.h"
#include "mesh/tfhe.h"

namespace heliograph::mesh {

namespace {

class MeshDevice final : public Mesh,
                         private device::Simulation,
                         private device::Processes,
                         private device::Measurement,
                         private device::TransferCounter {
 public:
  MeshDevice(std::vector<std::shared_ptr<device::Device>> members, Options options, std::unique_ptr<Transport> transport)
      : state_(std::make_shared<State>(std::move(members), std::move(options), std::move(transport))),
        kernels_(state_),
        tfhe_(state_) {
    state_->residents = &residents();
    state_->calibrate();
    measuring_ = moved_in_all();
  }
  ~MeshDevice() override { state_->residents = nullptr; }

  std::string name() const override {
    std::string text = state_->options().name;
    if (!text.empty()) return text;
    for (std::size_t m = 0; m < size(); ++m) {
      if (m) text += ',';
      text += state_->member(m).device->name();
    }
    return text;
  }
  std::string description() const override {
    return std::to_string(size()) + " devices as one: " + state_->member(0).device->description() +
           (size() > 1 ? ", ..." : "") +
           (ranks() > 1 ? std::string(", of ").append(std::to_string(ranks())).append(" ranks") : "");
  }
  device::MemoryState memory() const override {
    device::MemoryState sum;
    for (std::size_t m = 0; m < size(); ++m) {
      const device::MemoryState one = state_->memory_of(m);
      sum.total += one.total, sum.available += one.available, sum.pooled += one.pooled;
    }
    // over ranks, cached copies are never freed, see State::allocate
    if (!state_->over_ranks()) sum.pooled += state_->cached_bytes();
    return sum;
  }

  Buffer allocate(std::size_t bytes, Queue& queue) override {
    // Memory of unknown shape is one row of words on one member.
    const View row = View::dense(nullptr, Word::w64, {1}, 1, 1, (bytes + 63) / 64 * 8);
    return allocate(row, {}, state_->choose(row), queue);
  }
  Buffer allocate(const View& shape, const PrimeList& primes, Queue& queue) override {
    // A tensor without primes, or whose length is no ring degree, holds LWE ciphertexts, which cannot be split.
    const bool whole = shape.limbs == 1 && (primes.size() == 0 || !std::has_single_bit(shape.n));
    if (!whole) return allocate(shape, primes, state_->choose(shape), queue);
    const std::optional<std::size_t> assigned = state_->assigned_member();
    const Distribution distribution = assigned ? Distribution::whole(*assigned, shape.items())
                                               : Distribution::shares(shares(shape.items(), state_->weights()));
    auto memory = allocate(shape, primes, {Layout::batch, distribution}, queue);
    memory->placement_fixed = true;  // moves of operands take less time than TFHE operations, so this placement is kept
    return memory;
  }

  std::unique_ptr<Queue> make_queue() override { return std::make_unique<MeshQueue>(state_); }

  void upload(Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    state_->require_sound();
    const Copies copies = copies_of(to, from.size());
    transfer(queue, copies, to,
             [&](device::Device& d, Queue& q, const Copy& c) { d.upload(q, from.subspan(c.host, c.bytes), c.here); });
  }
  /// Every rank receives all bytes of the tensor.
  void download(Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    if (!to.empty()) {
      const Copies copies = fetch(queue, from, to.size(), to);
      if (ranks() > 1) unpack_others(state_->transport().all_gather(packed_here(to.data(), copies)), copies, to.data());
    }
    queue.wait();
  }

  device::Capabilities capabilities() override {
    bool has_tfhe = true;
    for (std::size_t m = 0; m < size(); ++m)
      has_tfhe = has_tfhe && (!state_->here(m) || state_->member(m).device->capabilities().tfhe != nullptr);
    return {.simulation = state_->simulated() ? this : nullptr,
            .processes = state_->over_ranks() ? this : nullptr,
            .measurement = this,
            .transfers = this,
            .tfhe = has_tfhe ? &tfhe_ : nullptr};
  }

  device::Device* key_holder() override {
    if (rank() != 0) return nullptr;
    const std::lock_guard lock(state_->mutex());
    if (!key_holder_) {
      std::vector<std::shared_ptr<device::Device>> mine;
      for (std::size_t m = 0; m < size(); ++m) {
        if (state_->here(m)) mine.push_back(state_->member(m).device);
      }
      if (mine.size() == 1) {
        key_holder_ = mine.front();
      } else {
        key_holder_ = std::make_shared<MeshDevice>(std::move(mine), Options{}, make_local_transport());
      }
    }
    return key_holder_.get();
  }
  std::vector<std::byte> broadcast(const std::function<std::vector<std::byte>()>& make) override {
    return broadcast_result(state_->transport(), make);
  }
  void scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to) override {
    if (bytes == 0) return;
    state_->require_sound();
    Copies copies = copies_of(to, bytes);
    std::vector<std::vector<std::byte>> each(ranks());
    if (rank() == 0) {
      require<InternalError>(from.size() == bytes, "the key holder must scatter all bytes");
      for (std::size_t m = 0; m < size(); ++m) {
        if (!state_->here(m)) pack(from.data(), copies[m], each[state_->rank_of(m)]);
      }
    }
    const std::vector<std::byte> packed = state_->transport().scatter(std::move(each));
    if (rank() != 0) {
      require<DeviceError>(repack(copies) == packed.size(),
                           "the ranks must run the same program; one rank made another call");
      from = packed;
    }
    transfer(queue, copies, to,
             [&](device::Device& d, Queue& q, const Copy& c) { d.upload(q, from.subspan(c.host, c.bytes), c.here); });
  }
  void gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) override {
    if (bytes > 0) {
      state_->require_sound();
      Copies copies = copies_of(const_cast<std::byte*>(from), bytes);
      std::vector<std::byte> packed(rank() == 0 ? 0 : repack(copies));
      const std::span<std::byte> host = rank() == 0 ? to : std::span<std::byte>(packed);
      require<InternalError>(rank() != 0 || to.size() == bytes, "the key holder must gather all bytes");
      transfer(queue, copies, nullptr,
               [&](device::Device& d, Queue& q, const Copy& c) { d.download(q, c.here, host.subspan(c.host, c.bytes)); });
      const auto of_ranks = state_->transport().gather(std::move(packed));
      if (rank() == 0) unpack_others(of_ranks, copies, to.data());
    }
    queue.wait();
  }
  void confirm(const std::string& what, const std::string& value) override {
    mesh::confirm(state_->transport(), what, value);
  }

  device::Kernels& kernels() override { return kernels_; }
  double product_ceiling() override { return sum_of(&device::Device::product_ceiling); }
  double sum_ceiling() override { return sum_of(&device::Device::sum_ceiling); }
  device::Traffic traffic() const override {
    device::Traffic sum;
    for (std::size_t m = 0; m < size(); ++m) {
      if (!state_->here(m)) continue;
      const device::Traffic t = state_->member(m).device->traffic();
      sum.uploads += t.uploads, sum.upload_bytes += t.upload_bytes;
      sum.downloads += t.downloads, sum.download_bytes += t.download_bytes;
      sum.launches += t.launches, sum.allocations += t.allocations, sum.waits += t.waits;
    }
    return sum;
  }

  device::Cycles cycles() override {
    device::Cycles sum;
    for (device::Simulation* const one : simulations()) sum += one->cycles();
    return sum;
  }

  /// Returns the timeline of the first member with a simulation.
  std::vector<device::Span> timeline() override {
    for (device::Simulation* const one : simulations()) {
      if (auto spans = one->timeline(); !spans.empty()) return spans;
    }
    return {};
  }

  std::size_t size() const override { return state_->size(); }
  device::Device& member(std::size_t m) override { return *state_->member(m).device; }
  std::size_t ranks() const override { return state_->transport().size(); }
  std::size_t rank() const override { return state_->transport().rank(); }
  Moved moved() const override {
    const Moved all = moved_in_all();
    return {.exchanges = all.exchanges - measuring_.exchanges,
            .bytes = all.bytes - measuring_.bytes,
            .staged_bytes = all.staged_bytes - measuring_.staged_bytes,
            .sent_bytes = all.sent_bytes - measuring_.sent_bytes};
  }
  Buffer reshard(const View& from, const PrimeList& primes, Layout to, Queue& queue) override {
    const std::vector<std::size_t> batch(from.shape.begin(), from.shape.begin() + from.axes);
    View target = View::dense(nullptr, from.word, batch, from.components, from.limbs, from.n);
    auto memory = allocate(target, primes, {to, state_->over_all(from.items()).distribution}, queue);
    memory->placement_fixed = true;
    target.data = memory->address();
    queue.enqueue(device::Copy{from, target});
    return memory;
  }
  std::vector<std::string> report() override { return mesh::report(*state_); }

 private:
  Moved moved_in_all() const {
    return {.exchanges = state_->exchanges,
            .bytes = state_->exchanged_bytes,
            .staged_bytes = state_->staged_bytes,
            .sent_bytes = state_->transport().sent_bytes()};
  }

  /// Returns the sum of the members' rates. Members of other processes are assumed to be as fast as those of this
  /// process. Times of single calls also depend on their operands' layouts.
  device::Rates measure_rates() override {
    device::Rates sum;
    double here = 0;
    for (std::size_t m = 0; m < size(); ++m) {
      if (!state_->here(m)) continue;
      const device::Rates& one = state_->member(m).device->rates();
      sum.bytes += one.bytes, sum.butterflies += one.butterflies, sum.sums += one.sums, ++here;
    }
    const double all = static_cast<double>(size()) / std::max(1.0, here);
    return {.bytes = all * sum.bytes, .butterflies = all * sum.butterflies, .sums = all * sum.sums};
  }
  std::vector<device::Simulation*> simulations() {
    std::vector<device::Simulation*> all;
    for (std::size_t m = 0; m < size(); ++m) {
      device::Simulation* const one = state_->here(m) ? state_->member(m).device->simulation() : nullptr;
      if (one) all.push_back(one);
    }
    return all;
  }
  double sum_of(double (device::Device::*what)()) {
    double sum = 0;
    for (std::size_t m = 0; m < size(); ++m) {
      if (state_->here(m)) sum += (state_->member(m).device.get()->*what)();
    }
    return sum;
  }

  std::shared_ptr<MeshMemory> allocate(const View& shape, const PrimeList& primes, const Placement& placement,
                                       Queue& queue) {
    state_->require_sound();
    return std::make_shared<MeshMemory>(state_, shape, primes, placement, own(queue).queues());
  }

  /// A range of bytes in a member's memory, and the offset of these bytes in the host's buffer.
  struct Copy {
    std::byte* here;
    std::size_t host, bytes;
  };
  using Copies = std::vector<std::vector<Copy>>;  // the copies, by member

  /// Starts this rank's copies of the tensor's `bytes` bytes from address `from` on.
  Copies fetch(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) {
    state_->require_sound();
    Copies copies = copies_of(const_cast<std::byte*>(from), bytes);
    transfer(queue, copies, nullptr,
             [&](device::Device& d, Queue& q, const Copy& c) { d.download(q, c.here, to.subspan(c.host, c.bytes)); });
    return copies;
  }

  /// Returns the ranges of the members' memory that contain the `bytes` bytes from `address` on.
  Copies copies_of(std::byte* address, std::size_t bytes) {
    View probe;
    probe.data = address;
    MeshMemory& memory = state_->find(probe);
    const View& shape = memory.shape();
    const std::size_t row = shape.n * shape.word_size();
    const auto offset = static_cast<std::size_t>(address - memory.address());
    require<InternalError>(offset + bytes <= memory.bytes(), "a transfer must stay within its memory");
    // Copies complete items if each item is on one member, else limb by limb.
    const std::size_t item = shape.components * shape.limbs * row;
    const bool whole = memory.layout() == Layout::batch && offset % item == 0 && bytes % item == 0;
    Copies copies(size());
    const auto add = [&](std::size_t m, const Copy& c) {
      if (!copies[m].empty()) {
        Copy& last = copies[m].back();
        if (last.here + last.bytes == c.here && last.host + last.bytes == c.host) {
          last.bytes += c.bytes;
          return;
        }
      }
      copies[m].push_back(c);
    };
    if (whole) {
      const View v = View::dense(address, shape.word, {bytes / item}, shape.components, shape.limbs, shape.n);
      for (const Block& b : memory.blocks(v, true)) {
        if (b.step == 1) {
          add(b.member, {b.view.data, b.first * item, b.count * item});
          continue;
        }
        for (std::size_t i = 0; i < b.count; ++i)
          add(b.member, {b.view.address(i, 0, 0), (b.first + i * b.step) * item, item});
      }
      return copies;
    }
    std::size_t done = 0;
    while (done < bytes) {
      const std::size_t at = offset + done, inside = at % row, part = std::min(row - inside, bytes - done);
      View v = View::dense(address + done - inside, shape.word, {1}, 1, 1, shape.n);
      for (const Block& b : memory.blocks(v, true)) {
        const std::size_t begin = b.begin * v.word_size(), end = begin + b.length * v.word_size();
        const std::size_t from = std::max(begin, inside), to = std::min(end, inside + part);
        if (from < to) add(b.member, {b.view.data + (from - begin), done + (from - inside), to - from});
      }
      done += part;
    }
    return copies;
  }

  /// Calls `one(device, queue, copy)` for each of this rank's copies, and waits for all of them.
  template <class One>
  void transfer(Queue& queue, const Copies& copies, const std::byte* written, One one) {
    MeshQueue& mine = own(queue);
    std::vector<std::shared_ptr<Signal>> done;
    {
      const std::lock_guard lock(state_->mutex());
      if (written) {
        View probe;
        probe.data = const_cast<std::byte*>(written);
        Operation(*state_, queue).writes(probe);
      }
      // The copies run on the members' threads, so that a wait for one device does not delay the others.
      for (std::size_t m = 0; m < size(); ++m) {
        if (copies[m].empty() || !state_->here(m)) continue;
        mine.touch(m);
        Worker& worker = *state_->member(m).worker;
        worker.post([&d = *state_->member(m).device, &q = mine.queue(m), &list = copies[m], &one] {
          for (const Copy& c : list) one(d, q, c);
        });
        done.push_back(worker.drained());
      }
    }
    for (const auto& signal : done) signal->wait();
    state_->require_sound();
  }

  // Packs the bytes of one rank's members, one copy after another.
  static void pack(const std::byte* host, const std::vector<Copy>& copies, std::vector<std::byte>& packed) {
    std::size_t bytes = packed.size();
    for (const Copy& c : copies) bytes += c.bytes;
    packed.reserve(bytes);
    for (const Copy& c : copies) packed.insert(packed.end(), host + c.host, host + c.host + c.bytes);
  }
  /// Replaces the host offsets of this rank's copies by offsets in the packed bytes. Returns the number of packed bytes.
  std::size_t repack(Copies& copies) {
    std::size_t at = 0;
    for (std::size_t m = 0; m < size(); ++m) {
      if (!state_->here(m)) continue;
      for (Copy& c : copies[m]) c.host = at, at += c.bytes;
    }
    return at;
  }
  static void unpack(const std::vector<std::byte>& packed, std::size_t& at, const std::vector<Copy>& copies,
                     std::byte* host) {
    for (const Copy& c : copies) {
      require<DeviceError>(packed.size() - at >= c.bytes, "the ranks must run the same program; one rank made another call");
      std::memcpy(host + c.host, packed.data() + at, c.bytes);
      at += c.bytes;
    }
  }
  std::vector<std::byte> packed_here(const std::byte* host, const Copies& copies) {
    std::vector<std::byte> packed;
    for (std::size_t m = 0; m < size(); ++m) {
      if (state_->here(m)) pack(host, copies[m], packed);
    }
    return packed;
  }
  void unpack_others(const std::vector<std::vector<std::byte>>& of_ranks, const Copies& copies, std::byte* host) {
    std::vector<std::size_t> at(of_ranks.size());
    for (std::size_t m = 0; m < size(); ++m) {
      const std::size_t r = state_->rank_of(m);
      if (!state_->here(m)) unpack(of_ranks[r], at[r], copies[m], host);
    }
  }

  std::shared_ptr<State> state_;
  Moved measuring_;                             // traffic of the mesh's own measurements
  std::shared_ptr<device::Device> key_holder_;  // device of the keys in rank 0, over ranks; made at first use
  MeshKernels kernels_;
  MeshTfheKernels tfhe_;
};

}  // namespace

std::vector<device::Device*> members_of(device::Device& device) {
  std::vector<device::Device*> all;
  auto* const mesh = dynamic_cast<Mesh*>(&device);
  for (std::size_t m = 0; mesh && m < mesh->size(); ++m) all.push_back(&mesh->member(m));
  return all;
}

std::unique_ptr<Mesh> make_mesh(std::vector<std::shared_ptr<device::Device>> members, Options options,
                                std::unique_ptr<Transport> transport) {
  if (!transport) transport = make_local_transport();
  return std::make_unique<MeshDevice>(std::move(members), std::move(options), std::move(transport));
}

}  // namespace heliograph::mesh
