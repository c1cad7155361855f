#include "mesh/operation.h"

#include <algorithm>

namespace heliograph::mesh {

PrimeList primes_of(const Block& part, const PrimeList& primes) {
  PrimeList r;
  for (std::size_t l : part.limbs) r.push_back(primes[l]);
  return r;
}

namespace {

View dense(std::byte* data, const Block& part, std::size_t components, Word word) {
  return View::dense(data, word, {part.count}, components, part.limbs.size(), part.length);
}

/// Returns the view of `part`, which is within `have`; nullopt if no view has exactly these words.
std::optional<View> shown(const Block& have, const Block& part, bool any_limbs) {
  View v = have.view;
  if (have.first != part.first || have.count != part.count) {
    if (v.axes != 1) return {};
    v = v.with_leading((part.first - have.first) / have.step, part.count);
    if (part.count > 1) v.stride[0] *= static_cast<std::ptrdiff_t>(part.step / have.step);
  }
  if (any_limbs || have.limbs == part.limbs) return v;
  std::vector<std::size_t> at;
  for (std::size_t l : part.limbs)
    at.push_back(static_cast<std::size_t>(std::lower_bound(have.limbs.begin(), have.limbs.end(), l) - have.limbs.begin()));
  const std::size_t step = at.size() > 1 ? at[1] - at[0] : 1;
  for (std::size_t i = 1; i < at.size(); ++i) {
    if (at[i] - at[i - 1] != step) return {};
  }
  v = v.with_limbs(at[0], at.size());
  v.limb_stride *= step;
  return v;
}

}  // namespace

Operation::Operation(State& state, Queue& queue)
    : state_(state), queue_(own(queue)), lock_(state.mutex()), temporary_(state.size()) {
  state_.require_sound();
  state_.begin_operation();
}

Operation::~Operation() {
  for (std::size_t m = 0; m < temporary_.size(); ++m) {
    if (temporary_[m].empty()) continue;
    state_.post(
        m, [mine = std::move(temporary_[m])]() mutable { mine.clear(); }, true);
  }
  state_.end_operation();
}

void Operation::post(std::size_t m, Task task) {
  queue_.touch(m);
  state_.post(
      m, [&device = *state_.member(m).device, &queue = queue_.queue(m), task = std::move(task)] { task(device, queue); });
}

void Operation::post(std::size_t m, device::Call call) {
  queue_.touch(m);
  state_.post(m, [&queue = queue_.queue(m), call = std::move(call)] { queue.enqueue(call); });
}

Buffer Operation::allocate(std::size_t m, std::size_t bytes) {
  return state_.allocate(m, std::max<std::size_t>(64, bytes), queue_.queue(m));
}

std::byte* Operation::scratch(std::size_t m, std::size_t bytes) {
  Buffer buffer = allocate(m, bytes);
  std::byte* const address = buffer->address();
  temporary_[m].push_back(std::move(buffer));
  return address;
}

std::vector<Block> Operation::parts(const View& v, const PrimeList& primes, Layout layout) const {
  std::vector<Block> result;
  const std::size_t members = state_.size(), items = v.items();
  const std::vector<std::size_t> all = range(0, v.limbs);
  const std::vector<std::size_t> bounds = layout == Layout::batch         ? shares(items, state_.weights())
                                          : layout == Layout::coefficient ? shares(v.n, state_.limb_weights(), 64)
                                                                          : std::vector<std::size_t>{};
  for (std::size_t m = 0; m < members; ++m) {
    Block b{.member = m, .first = 0, .count = items, .limbs = all, .begin = 0, .length = v.n, .view = {}};
    if (layout == Layout::batch) b.first = bounds[m], b.count = bounds[m + 1] - bounds[m];
    if (layout == Layout::coefficient) b.begin = bounds[m], b.length = bounds[m + 1] - bounds[m];
    if (layout == Layout::limb) {
      std::erase_if(b.limbs, [&](std::size_t l) { return state_.owners()[primes[l]] != m; });
    }
    if (b.count > 0 && b.length > 0 && !b.limbs.empty()) result.push_back(std::move(b));
  }
  return result;
}

std::vector<Block> Operation::room(const std::vector<Block>& parts, std::size_t components, Word word) {
  std::vector<Block> result = parts;
  for (Block& b : result) {
    const View shape = dense(nullptr, b, components, word);
    b.view = dense(scratch(b.member, shape.bytes()), b, components, word);
  }
  return result;
}

std::vector<Block> Operation::fetch(const View& v, const std::vector<Block>& parts, bool keep, bool any_limbs) {
  MeshMemory& memory = state_.find(v);
  const std::vector<Block> whole = memory.blocks(v, false);
  std::vector<Block> rows;  // computed if a copy is necessary
  const bool one = is_one_item(v) && v.items() > 0;
  keep = keep || one;
  const auto offset = static_cast<std::size_t>(v.data - memory.address());
  std::vector<Block> result;
  Pending mine;
  Pending& pending = pending_ ? *pending_ : mine;
  for (const Block& part : parts) {
    const auto found = std::find_if(whole.begin(), whole.end(), [&](const Block& b) { return b.covers(part); });
    if (found != whole.end()) {
      if (std::optional<View> view = shown(*found, part, any_limbs)) {
        Block b = part;
        if (any_limbs) b.limbs = found->limbs;
        b.view = *view;
        result.push_back(std::move(b));
        continue;
      }
    }
    // If the view repeats one item, this item is fetched once, and the part's view repeats it.
    Block wanted = part;
    if (one) wanted.first = 0, wanted.count = 1, wanted.step = 1, wanted.run = 0;
    const auto repeated = [&](const View& item) {
      Block b = part;
      b.view = item;
      if (one) {
        b.view.axes = 1;
        b.view.shape[0] = part.count, b.view.stride[0] = 0;
      }
      return b;
    };
    const auto serves = [&](const MeshMemory::Copy& c) {
      return c.items.empty() && c.part.member == wanted.member && c.part.same_items(wanted) &&
             c.part.limbs == wanted.limbs && c.part.begin == wanted.begin && c.part.length == wanted.length &&
             c.shows(v, offset, one);
    };
    const MeshMemory::Copy* cached = nullptr;
    if (keep) {
      if (const auto at = std::find_if(memory.copies.begin(), memory.copies.end(), serves); at != memory.copies.end())
        cached = &*at;
      for (const Fresh& f : pending.fresh) {
        if (f.memory == &memory && serves(f.copy)) cached = &f.copy;
      }
    }
    if (cached != nullptr) {
      temporary_[part.member].push_back(cached->buffer);  // a reference, because the cache may drop the copy before its use
      result.push_back(repeated(cached->view));
      continue;
    }
    const View shape = dense(nullptr, wanted, v.components, v.word);
    Buffer buffer = allocate(part.member, shape.bytes());
    wanted.view = dense(buffer->address(), wanted, v.components, v.word);
    temporary_[part.member].push_back(buffer);
    if (rows.empty()) {
      View source = v;
      if (one) source = v.item(0);
      rows = memory.blocks(source, true);
    }
    for (const Block& r : rows) {
      for (const Pair& p : intersect(r, wanted)) pending.moves.push_back({r.member, part.member, p});
    }
    if (keep) {
      pending.fresh.push_back({&memory,
                               {.part = wanted,
                                .offset = offset,
                                .components = v.components,
                                .source = v,
                                .view = wanted.view,
                                .buffer = buffer}});
      pending.fresh.back().copy.part.view = {};
    }
    result.push_back(repeated(wanted.view));
  }
  if (!pending_) finish(std::move(mine));
  return result;
}

void Operation::finish(Pending pending) {
  exchange(pending.moves);
  // The copies are registered after the exchange was posted. If an allocation failed before, no exchange would fill the
  // copies.
  for (Fresh& f : pending.fresh) {
    state_.hold(f.copy.part.member, f.copy.buffer->bytes());
    f.memory->copies.push_back(std::move(f.copy));
  }
}

void Operation::together(const std::function<void()>& fetches) {
  pending_.emplace();
  fetches();
  Pending all = std::move(*pending_);
  pending_.reset();
  finish(std::move(all));
}

std::vector<View> Operation::collect(const View& v, const std::vector<std::size_t>& items,
                                     const std::vector<std::vector<math::u32>>& wanted, const Meanwhile& meanwhile) {
  MeshMemory& memory = state_.find(v);
  const Distribution& distribution = memory.distribution();
  const auto offset = static_cast<std::size_t>(v.data - memory.address());
  std::vector<View> result(state_.size());
  std::vector<Move> moves;
  std::vector<MeshMemory::Copy> fresh;
  for (std::size_t m = 0; m < wanted.size(); ++m) {
    if (wanted[m].empty()) continue;
    if (const MeshMemory::Copy* const cached = memory.cached_items(v, m, wanted[m], items)) {
      temporary_[m].push_back(cached->buffer);  // a reference, because the cache may drop the copy before its use
      result[m] = cached->view;
      continue;
    }
    const Block part{
        .member = m, .first = 0, .count = wanted[m].size(), .limbs = range(0, v.limbs), .begin = 0, .length = v.n};
    const View shape = dense(nullptr, part, v.components, v.word);
    Buffer buffer = allocate(m, shape.bytes());
    result[m] = dense(buffer->address(), part, v.components, v.word);
    temporary_[m].push_back(buffer);
    MeshMemory::Copy copy{
        .part = part, .offset = offset, .components = v.components, .source = v, .view = result[m], .buffer = buffer};
    for (const math::u32 i : wanted[m]) copy.items.push_back(items[i]);
    const std::vector<std::size_t>& list = copy.items;
    for (std::size_t k = 0; k < list.size();) {
      const std::size_t from = distribution.owner(list[k]), place = distribution.place(list[k]);
      std::size_t count = 1;
      while (k + count < list.size() && distribution.owner(list[k + count]) == from &&
             distribution.place(list[k + count]) == place + count)
        ++count;
      moves.push_back({from, m, {memory.held(v, from).with_leading(place, count), result[m].with_leading(k, count)}});
      k += count;
    }
    fresh.push_back(std::move(copy));
  }
  exchange(moves, meanwhile);
  for (auto& copy : fresh) {
    state_.hold(copy.part.member, copy.buffer->bytes());
    memory.copies.push_back(std::move(copy));
  }
  return result;
}

void Operation::store(const std::vector<Block>& results, const View& out) {
  std::vector<Move> moves;
  for (const Block& to : state_.find(out).blocks(out, true)) {
    for (const Block& from : results) {
      for (const Pair& p : intersect(from, to)) moves.push_back({from.member, to.member, p});
    }
  }
  exchange(moves);
}

void Operation::writes(const View& out) {
  MeshMemory& memory = state_.find(out);
  for (auto& copy : memory.copies) {
    state_.release(copy.part.member, copy.buffer->bytes());
    temporary_[copy.part.member].push_back(std::move(copy.buffer));
  }
  memory.copies.clear();
  memory.placement_fixed = true;
}

void Operation::exchange(const std::vector<Move>& moves, const Meanwhile& meanwhile) {
  const auto rest = [&] {
    if (meanwhile) meanwhile();
  };
  if (moves.empty()) return rest();
  const std::size_t members = state_.size();
  std::vector<std::vector<device::Piece>> pieces(members);
  std::vector<std::vector<char>> reads(members, std::vector<char>(members));
  std::vector<Move> staged, shipped;
  u64 bytes = 0;
  for (const Move& m : moves) {
    if (m.from != m.to) bytes += m.pair.to.bytes();
    if (!state_.here(m.from) || !state_.here(m.to)) {
      shipped.push_back(m);
      continue;
    }
    if (m.from != m.to && !state_.reaches(m.to, m.from)) {
      staged.push_back(m);
      continue;
    }
    pieces[m.to].push_back({m.pair.from, m.pair.to});
    if (m.from != m.to) reads[m.to][m.from] = 1;
  }
  if (bytes > 0) ++state_.exchanges, state_.exchanged_bytes += bytes;
  // If all members take part, their devices synchronise before and after the exchange, without the host.
  bool everyone = bytes > 0;
  for (std::size_t m = 0; m < members; ++m) {
    bool part = false;
    for (std::size_t other = 0; other < members; ++other) part = part || reads[m][other] || reads[other][m];
    everyone = everyone && part;
  }
  if (everyone && queue_.meeting()) {
    for (std::size_t m = 0; m < members; ++m) {
      post(m, [list = std::move(pieces[m]), meeting = queue_.meeting(), m](device::Device&, Queue& q) {
        meeting->meet(m, q);
        if (!list.empty()) q.enqueue(device::Gather{list});
        meeting->meet(m, q);
      });
    }
    stage(staged);
    return rest();
  }
  // If only some members take part, a task on each member waits for its sources, reads them, and marks them as read.
  std::vector<std::shared_ptr<Mark>> ready(members), done(members);
  for (std::size_t d = 0; d < members; ++d) {
    for (std::size_t s = 0; s < members; ++s) {
      if (!reads[d][s]) continue;
      if (!ready[s]) ready[s] = std::make_shared<Mark>();
      if (!done[d]) done[d] = std::make_shared<Mark>();
    }
  }
  for (std::size_t m = 0; m < members; ++m) {
    struct Task {
      std::vector<device::Piece> pieces;
      std::shared_ptr<Setter> ready, done;
      std::vector<std::shared_ptr<Mark>> sources, readers;
    } task{std::move(pieces[m]), nullptr, nullptr, {}, {}};
    if (ready[m]) task.ready = std::make_shared<Setter>(ready[m]);
    if (done[m]) task.done = std::make_shared<Setter>(done[m]);
    for (std::size_t other = 0; other < members; ++other) {
      if (reads[m][other]) task.sources.push_back(ready[other]);
      if (reads[other][m]) task.readers.push_back(done[other]);
    }
    if (task.pieces.empty() && !task.ready) continue;
    post(m, [task = std::move(task)](device::Device&, Queue& q) {
      const auto after = [&](const std::shared_ptr<Mark>& mark) {
        if (const auto& event = mark->get()) q.after(*event);
      };
      if (task.ready) task.ready->set(q.record());
      for (const auto& mark : task.sources) after(mark);
      if (!task.pieces.empty()) q.enqueue(device::Gather{task.pieces});
      if (task.done) task.done->set(q.record());
      for (const auto& mark : task.readers) after(mark);
    });
  }
  stage(staged);
  state_.over_ranks() ? ship(shipped, meanwhile) : rest();
}

void Operation::stage(const std::vector<Move>& moves) {
  for (const Move& m : moves) {
    const View& to = m.pair.to;
    const std::size_t bytes = to.bytes();
    state_.staged_bytes += bytes;
    std::vector<std::size_t> batch(to.shape.begin(), to.shape.begin() + to.axes);
    const View packed_from = View::dense(scratch(m.from, bytes), to.word, batch, to.components, to.limbs, to.n);
    const View packed_to = View::dense(scratch(m.to, bytes), to.word, batch, to.components, to.limbs, to.n);
    const auto host = std::make_shared<std::vector<std::byte>>(bytes);
    const auto arrived = std::make_shared<Mark>();
    post(m.from, [from = m.pair.from, packed_from, host, setter = std::make_shared<Setter>(arrived)](device::Device& device,
                                                                                                     Queue& q) {
      q.enqueue(device::Copy{from, packed_from});
      device.download(q, packed_from.data, *host);
    });
    post(m.to, [to, packed_to, host, arrived](device::Device& device, Queue& q) {
      arrived->get();
      device.upload(q, *host, packed_to.data);
      q.enqueue(device::Copy{packed_to, to});
    });
  }
}

namespace {

/// Returns whether the words of a view are contiguous, in the order of the view.
bool is_packed(const View& v) {
  std::size_t step = v.n;
  if (v.limbs > 1 && v.limb_stride != step) return false;
  step *= v.limbs;
  if (v.components > 1 && v.component_stride != step) return false;
  step *= v.components;
  for (int i = v.axes - 1; i >= 0; --i) {
    if (v.shape[i] > 1 && v.stride[i] != static_cast<std::ptrdiff_t>(step)) return false;
    step *= v.shape[i];
  }
  return true;
}

/// Data to exchange between this member and another one: views on this member, in an order that all ranks know.
struct Parcel {
  std::size_t other;
  std::vector<View> views;
};

void add_to(std::vector<Parcel>& parcels, std::size_t other, const View& view) {
  const auto found = std::find_if(parcels.begin(), parcels.end(), [&](const Parcel& p) { return p.other == other; });
  Parcel& parcel = found != parcels.end() ? *found : parcels.emplace_back(Parcel{other, {}});
  parcel.views.push_back(view);
}

}  // namespace

void Operation::ship(const std::vector<Move>& moves, const Meanwhile& meanwhile) {
  const u64 number = state_.next_exchange();
  std::vector<std::vector<Parcel>> out(state_.size()), in(state_.size());
  for (const Move& m : moves) {
    if (state_.here(m.from)) add_to(out[m.from], m.to, m.pair.from);
    if (state_.here(m.to)) add_to(in[m.to], m.from, m.pair.to);
    if ((state_.here(m.from) || state_.here(m.to)) && state_.transport().is_staged())
      state_.staged_bytes += m.pair.to.bytes();
  }
  // A send through host memory never blocks, so independent work runs between sends and receives.
  const bool apart = meanwhile && state_.transport().is_staged();
  std::vector<std::function<void()>> later;
  for (std::size_t m = 0; m < state_.size(); ++m) {
    if (out[m].empty() && in[m].empty()) continue;
    std::vector<Transport::Part> sends, receives;
    std::vector<device::Piece> packed, unpacked;
    const auto wrap = [&](const Parcel& parcel, bool outward) {
      constexpr std::size_t kApart = 64;  // alignment that Gather requires
      std::size_t bytes = 0;
      std::vector<std::size_t> at;
      for (const View& v : parcel.views) {
        at.push_back((bytes + kApart - 1) / kApart * kApart);
        bytes = at.back() + v.bytes();
      }
      const View& only = parcel.views.front();
      if (parcel.views.size() == 1 && is_packed(only)) {
        (outward ? sends : receives).push_back({parcel.other, only.data, only.bytes()});
        return;
      }
      std::byte* const box = scratch(m, bytes);
      for (std::size_t i = 0; i < at.size(); ++i) {
        const View& v = parcel.views[i];
        const std::vector<std::size_t> batch(v.shape.begin(), v.shape.begin() + v.axes);
        const View inside = View::dense(box + at[i], v.word, batch, v.components, v.limbs, v.n);
        outward ? packed.push_back({v, inside}) : unpacked.push_back({inside, v});
      }
      (outward ? sends : receives).push_back({parcel.other, box, bytes});
    };
    for (const Parcel& p : out[m]) wrap(p, true);
    for (const Parcel& p : in[m]) wrap(p, false);
    const auto pass = [this, number, m](std::vector<Transport::Part> sent, std::vector<Transport::Part> received,
                                        std::vector<device::Piece> before, std::vector<device::Piece> after) {
      post(m, [number, m, &transport = state_.transport(), sent = std::move(sent), received = std::move(received),
               before = std::move(before), after = std::move(after)](device::Device& device, Queue& q) {
        if (!before.empty()) q.enqueue(device::Gather{before});
        transport.exchange(number, m, device, q, sent, received);
        if (!after.empty()) q.enqueue(device::Gather{after});
      });
    };
    if (!apart) {
      pass(std::move(sends), std::move(receives), std::move(packed), std::move(unpacked));
      continue;
    }
    if (!sends.empty()) pass(std::move(sends), {}, std::move(packed), {});
    if (!receives.empty())
      later.emplace_back(
          [pass, receives = std::move(receives), unpacked = std::move(unpacked)] { pass({}, receives, {}, unpacked); });
  }
  if (meanwhile) meanwhile();
  for (const auto& post_later : later) post_later();
}

}  // namespace heliograph::mesh
