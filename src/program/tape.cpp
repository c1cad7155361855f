#include "program/tape.h"

#include <algorithm>

#include "device/chunks.h"
#include "device/expand.h"
#include "io/sha256.h"

namespace heliograph::program {

namespace {

std::byte* from_first_byte(const std::byte* data, const std::byte* base) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base));
}

}  // namespace

Tape::Tape(const std::vector<View>& inputs, std::vector<const KeySource*> keys, bool dry)
    : keys_(std::move(keys)), dry_(dry) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const View& v = inputs[i];
    const auto [found, fresh] = known_.try_emplace(v.memory.get(), static_cast<u32>(parts_.places.size()));
    if (!fresh) {
      parts_.places[found->second].alone = false;
      continue;
    }
    parts_.places.push_back({.kind = Place::Kind::input, .number = static_cast<u32>(i), .shape = v.lent()});
    varies_.push_back(true), held_.push_back(v.memory), base_.push_back(v.data);
  }
}

void Tape::allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) {
  known_[buffer.get()] = static_cast<u32>(parts_.places.size());
  parts_.places.push_back({.memory = buffer, .shape = shape.lent(), .primes = primes, .secrecy = secrecy});
  varies_.push_back(false), held_.push_back(buffer), base_.push_back(buffer->address());
}

u32 Tape::place_of(const View& view) {
  require<InternalError>(view.memory != nullptr, "a recorded call has a view without memory");
  const auto found = known_.find(view.memory.get());
  if (found != known_.end() && held_[found->second].lock() == view.memory) return found->second;
  Place place{.kind = Place::Kind::constant, .memory = view.memory};
  bool varies = false;
  for (std::size_t k = 0; k < keys_.size() && !varies; ++k) {
    const std::optional<u64> which = keys_[k]->find(*view.memory);
    if (!which) continue;
    place = {.kind = Place::Kind::key, .number = static_cast<u32>(k), .which = *which};
    varies = true;
  }
  const Memory::Geometry& g = view.memory->geometry();
  if (const std::size_t item = g.components * g.limbs * g.n * math::word_bytes(g.word); item > 0) {
    place.shape = View::dense(nullptr, g.word, {view.memory->bytes() / item}, g.components, g.limbs, g.n);
    place.primes = PrimeList::range(0, g.limbs);
  }
  const auto number = static_cast<u32>(parts_.places.size());
  parts_.places.push_back(std::move(place));
  varies_.push_back(varies), held_.push_back(view.memory), base_.push_back(view.memory->address());
  known_[view.memory.get()] = number;
  return number;
}

bool Tape::enqueues(const Session& session, const Call& call) {
  if (std::holds_alternative<device::Sample>(call))
    throw RecordingError(
        "cannot record this function: it draws random numbers (it encrypts), and a replay would repeat them; encrypt "
        "outside "
        "of it and pass the ciphertext as an operand");
  if (device::items_of(call) == 0) return true;
  Step step{.session = &session, .call = call};
  device::give_scratch(step.call, device::Workspace(nullptr, device::scratch_bytes(call, device::items_of(call))));
  step.work = device::work(step.call), step.bytes = device::operand_bytes(step.call);
  device::give_scratch(step.call, {});
  bool varies = false;
  for (std::size_t k = 0; k < keys_.size() && step.source == Step::kNoSource; ++k) {
    if (keys_[k]->take_out(step.call)) step.source = static_cast<u32>(k), varies = true;
  }
  std::vector<u32> written;
  device::each_view(step.call, [&](View& v, device::Access access) {
    const u32 place = place_of(v);
    step.places.push_back(place);
    v.data = from_first_byte(v.data, base_[place]);
    v.memory = nullptr;
    if (access != device::Access::write) varies = varies || varies_[place];
    if (access != device::Access::read) written.push_back(place);
  });
  for (const u32 place : written) {
    if (!varies) continue;
    require<InternalError>(parts_.places[place].kind == Place::Kind::made,
                           "a recorded call writes memory that existed before");
    varies_[place] = true;
    parts_.places[place].memory = nullptr;  // each replay allocates the place's memory
  }
  if (!varies) constant_.push_back({.step = step});
  parts_.steps.push_back(std::move(step));
  return !(varies && dry_);
}

void Tape::uploads(const View& to, std::optional<std::span<const std::byte>> from) {
  const u32 place = place_of(to);
  require<RecordingError>(!varies(place), "cannot record this function: it writes values from the host into a result");
  Making written{.written = Shown{.place = place, .view = to.lent()}};
  written.written->view.data = from_first_byte(to.data, base_[place]);
  if (from && parts_.places[place].secrecy == Secrecy::open) written.digest = io::sha256(*from);
  constant_.push_back(std::move(written));
}

void Tape::downloads(const View& from) {
  require<RecordingError>(
      !varies(place_of(from)),
      "cannot record this function: it reads a value (it decrypts, saves or prints it) that only a replay computes; "
      "do that with the program's results");
}

void Tape::keep_makings(std::vector<bool> needed) {
  for (auto making = constant_.rbegin(); making != constant_.rend(); ++making) {
    bool wanted = false;
    making->each_written([&](u32 p) { wanted = wanted || needed[p]; });
    if (!wanted) continue;
    for (const u32 p : making->step ? making->step->places : std::vector<u32>()) needed[p] = true;
    parts_.makings.push_back(std::move(*making));
  }
  std::reverse(parts_.makings.begin(), parts_.makings.end());
}

Program::Parts Tape::parts(const std::vector<View>& outputs) {
  for (const View& v : outputs) {
    const u32 place = place_of(v);
    parts_.results.push_back({.place = place, .view = v.lent()});
    parts_.results.back().view.data = from_first_byte(v.data, base_[place]);
  }
  for (std::size_t p = 0; p < parts_.places.size(); ++p) {
    Place& place = parts_.places[p];
    if (place.kind == Place::Kind::made && !varies_[p]) place.kind = Place::Kind::constant;
    if (place.kind == Place::Kind::constant) place.origin = held_[p];
  }
  // Removes unneeded steps, from the last to the first. A step stays only if its output is a result of the tape or is read
  // by a later step that stays.
  std::vector<bool> needed(parts_.places.size());
  for (const Shown& r : parts_.results) {
    needed[r.place] = true;
    Place& place = parts_.places[r.place];
    place.result = place.kind == Place::Kind::made;
  }
  std::vector<Step> kept;
  for (auto step = parts_.steps.rbegin(); step != parts_.steps.rend(); ++step) {
    std::size_t k = 0;
    bool wanted = false;
    device::each_view(step->call, [&](const View&, device::Access access) {
      const u32 p = step->places[k++];
      wanted = wanted || (access != device::Access::read && needed[p] && parts_.places[p].kind == Place::Kind::made);
    });
    if (!wanted) continue;
    k = 0;
    device::each_view(step->call, [&](const View&, device::Access access) {
      const u32 p = step->places[k++];
      if (access != device::Access::write) needed[p] = true;
    });
    kept.push_back(std::move(*step));
  }
  std::reverse(kept.begin(), kept.end());
  parts_.steps = std::move(kept);
  for (std::size_t p = 0; p < parts_.places.size(); ++p) {
    if (!needed[p]) parts_.places[p].memory = nullptr;
  }
  keep_makings(std::move(needed));
  return std::move(parts_);
}

}  // namespace heliograph::program
