#include "recording/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "schemes/ckks/context.h"
#include "schemes/exact/context.h"
#include "schemes/tfhe/context.h"

namespace heliograph {

namespace recording {

namespace {

/// Serialises values. Equal values give equal bytes.
class Text {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>
  void add(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void add(const std::string& text) { add(text.size()), bytes_ += text; }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& value : list) add(value);
  }
  void add(const std::complex<double>& value) { add(value.real()), add(value.imag()); }
  template <class T>
  void add(const schemes::Tail<T>& tail) {
    add(tail.kind()), add(tail.numbers());
  }
  void add(const exact::Magnitude& bound) { add(bound.known()), add(bound.words()); }
  void add(const exact::Growth& bound) {
    add(bound.known()), add(bound.open() ? bound.session() : 0), add(bound.terms().size());
    for (const exact::Growth::Term& t : bound.terms()) add(t.degree), add(t.coefficient);
  }
  void add(const rlwe::Figure& figure) { add(figure.vouched), add(figure.assumed); }
  void add(const ckks::Range& r) {
    add(r.low), add(r.high), add(r.peak), add(r.rms), add(r.mean), add(r.declared.given), add(r.declared.unguarded),
        add(r.declared.strong);
  }
  void add(const ckks::RangePair& r) { add(r.vouched), add(r.assumed); }
  std::string take() { return std::move(bytes_); }
  class Reader;

 private:
  std::string bytes_;
};

void add_tensor(Text& to, const ring::RnsTensor& t) {
  to.add(device::form_of(t.view()));
  to.add(t.domain()), to.add(t.secret()), to.add(t.primes().size());
  for (const math::PrimeIndex p : t.primes()) to.add(p);
}

// Overloads for each scheme. `add_portable` writes properties that determine the calls. The other metadata affects calls
// only if the function reads it; otherwise it affects only the results' metadata.

std::vector<ring::RnsTensor> tensors(const exact::CiphertextData& x) { return x.parts; }
std::vector<ring::RnsTensor> tensors(const ckks::CiphertextData& x) {
  std::vector<ring::RnsTensor> all{x.tensor};
  for (const ckks::Guards::Item& guard : x.guards.list()) all.push_back(guard->squares->tensor);
  return all;
}
std::vector<lwe::Tensor> tensors(const tfhe::CiphertextData& x) { return {x.tensor}; }

void put(exact::CiphertextData& x, const View* views) {
  for (ring::RnsTensor& part : x.parts) part = part.over(*views++);
}
void put(ckks::CiphertextData& x, const View* views) {
  x.tensor = x.tensor.over(*views++);
  std::vector<ckks::Guards::Item> guards;
  for (const ckks::Guards::Item& item : x.guards.list()) {
    ckks::Guard guard = *item;
    ckks::CiphertextData squares = *guard.squares;
    squares.tensor = squares.tensor.over(*views++);
    guard.squares = std::make_shared<const ckks::CiphertextData>(std::move(squares));
    guards.push_back(std::make_shared<const ckks::Guard>(std::move(guard)));
  }
  x.guards = ckks::Guards::of(std::move(guards));
}
void put(tfhe::CiphertextData& x, const View* views) { x.tensor = x.tensor.over(*views); }

/// Gives the guards of a replay's result the key and the parts of the replay.
void renew(ckks::CiphertextData& x, ckks::NewParts& parts) {
  std::vector<ckks::Guards::Item> guards;
  for (const ckks::Guards::Item& item : x.guards.list()) {
    ckks::Guard guard = *item;
    ckks::CiphertextData squares = *guard.squares;
    squares.key = x.key;
    guard.squares = std::make_shared<const ckks::CiphertextData>(std::move(squares));
    for (ckks::Guard::Part& part : guard.parts) {
      ckks::Guard::Part& mine = parts[part.get()];
      if (!mine) mine = ckks::Guard::part();
      part = mine;
    }
    std::sort(guard.parts.begin(), guard.parts.end());
    guards.push_back(std::make_shared<const ckks::Guard>(std::move(guard)));
  }
  x.guards = ckks::Guards::of(std::move(guards));
}
template <class Data>
void renew(Data&, ckks::NewParts&) {}

std::optional<KeyId> key_of(const exact::CiphertextData& x) { return x.key; }
std::optional<KeyId> key_of(const ckks::CiphertextData& x) { return x.key; }
std::optional<KeyId> key_of(const tfhe::CiphertextData& x) { return x.key; }

std::vector<math::Key256> seeds(const exact::CiphertextData& x) { return x.seeds; }
template <class Data>
std::vector<math::Key256> seeds(const Data& x) {
  return x.seed ? std::vector<math::Key256>{*x.seed} : std::vector<math::Key256>();
}
void set_seeds(exact::CiphertextData& x, std::vector<math::Key256> seeds) { x.seeds = std::move(seeds); }
template <class Data>
void set_seeds(Data& x, const std::vector<math::Key256>& seeds) {
  x.seed = seeds.front();
}

void add_shape(Text& to, const exact::CiphertextData& x) {
  to.add(x.context.get()), to.add(x.context->hash()), to.add(x.first_part), to.add(x.packing);
  for (const ring::RnsTensor& part : x.parts) add_tensor(to, part);
}
void add_shape(Text& to, const ckks::CiphertextData& x) {
  to.add(x.context.get()), to.add(x.context->hash()), to.add(x.level);
  add_tensor(to, x.tensor);
}
void add_shape(Text& to, const tfhe::CiphertextData& x) {
  to.add(x.context.get()), to.add(x.context->hash());
  to.add(x.type.boolean), to.add(x.type.bits), to.add(x.type.is_signed);
  to.add(device::form_of(x.tensor.view()));
}

std::optional<exact::Growth::Session> session_of(const exact::CiphertextData& x) {
  return x.bounds.assumed.open() ? std::optional(x.bounds.assumed.session()) : std::nullopt;
}
template <class Data>
std::optional<exact::Growth::Session> session_of(const Data&) {
  return std::nullopt;
}
/// Returns each session once, in order of first occurrence.
std::vector<exact::Growth::Session> sessions_of(const std::vector<Operand>& operands) {
  std::vector<exact::Growth::Session> all;
  for (const Operand& o : operands) {
    const auto session = std::visit([](const auto& c) { return session_of(c.data()); }, o.tensor);
    if (session && std::find(all.begin(), all.end(), *session) == all.end()) all.push_back(*session);
  }
  return all;
}
/// Returns the index of a bound's session.
std::size_t place_of(const std::vector<exact::Growth::Session>& sessions, const exact::Growth& bound) {
  return static_cast<std::size_t>(std::find(sessions.begin(), sessions.end(), bound.session()) - sessions.begin());
}
/// Appends the bound of an operand, with its session replaced by its index.
void add_bound(std::vector<exact::Growth>& to, const std::vector<exact::Growth::Session>& sessions,
               const exact::CiphertextData& x) {
  const exact::Growth& bound = x.bounds.assumed;
  to.push_back(bound.open() ? bound.in(place_of(sessions, bound)) : bound);
}
template <class Data>
void add_bound(std::vector<exact::Growth>&, const std::vector<exact::Growth::Session>&, const Data&) {}
std::vector<exact::Growth> bounds_of(const std::vector<Operand>& operands) {
  std::vector<exact::Growth> bounds;
  const auto sessions = sessions_of(operands);
  for (const Operand& o : operands) std::visit([&](const auto& c) { add_bound(bounds, sessions, c.data()); }, o.tensor);
  return bounds;
}
void forget_bounds(exact::CiphertextData& x) { x.bounds = {}; }
template <class Data>
void forget_bounds(Data&) {}

void set_session(exact::CiphertextData& x, exact::Growth::Session session) {
  x.bounds.assumed = x.bounds.assumed.in(session);
}
template <class Data>
void set_session(Data&, exact::Growth::Session) {}

void add_figures(Text& to, const exact::CiphertextData& x) {
  to.add(x.width), to.add(x.factors), to.add(x.noise), to.add(x.vouched);
  to.add(x.seeds.size()), to.add(x.fresh), to.add(x.independent), to.add(x.distinct);
  to.add(x.tails);
  if (x.vouched) to.add(x.bounds.vouched);
}
void add_figures(Text& to, const ckks::CiphertextData& x) {
  to.add(x.scale), to.add(x.width), to.add(x.complex), to.add(x.noise), to.add(x.noise.spread), to.add(x.ranges.list());
  to.add(x.seed.has_value());
  to.add(x.fresh), to.add(x.tail);
}
void add_figures(Text& to, const tfhe::CiphertextData& x) { to.add(x.seed.has_value()); }

// Keys are part of the text, because their contents affect the function's calls.

void add_keys(Text& to, const std::monostate&) { to.add(false); }
template <class Keys>
void add_rlwe_keys(Text& to, const Keys& keys) {
  const auto& data = keys.data();
  to.add(true), to.add(data.context.get()), to.add(data.vouched), to.add(data.most_switches);
  data.keys.each([&](math::u64 number, const rlwe::SwitchKey&) { to.add(number); });
}
void add_keys(Text& to, const exact::EvaluationKeys& keys) { add_rlwe_keys(to, keys); }
void add_keys(Text& to, const ckks::EvaluationKeys& keys) { add_rlwe_keys(to, keys); }
void add_keys(Text& to, const tfhe::EvaluationKeys& keys) { to.add(true), to.add(keys.data().context.get()); }

std::optional<KeyId> key_of(const std::monostate&) { return std::nullopt; }
std::optional<KeyId> key_of(const exact::EvaluationKeys& keys) { return keys.data().id(); }
std::optional<KeyId> key_of(const ckks::EvaluationKeys& keys) { return keys.data().id(); }
std::optional<KeyId> key_of(const tfhe::EvaluationKeys& keys) { return keys.data().id(); }

std::optional<KeyId> key_of(const AnyCiphertext& x) {
  return std::visit([](const auto& c) { return key_of(c.data()); }, x);
}
std::optional<KeyId> key_of(const AnyKeys& keys) {
  return std::visit([](const auto& k) { return key_of(k); }, keys);
}
std::vector<math::Key256> seeds_of(const AnyCiphertext& x) {
  return std::visit([](const auto& c) { return seeds(c.data()); }, x);
}

std::size_t place(const std::vector<KeyId>& ids, const std::optional<KeyId>& id) {
  return id ? static_cast<std::size_t>(std::find(ids.begin(), ids.end(), *id) - ids.begin()) : ~std::size_t{0};
}

/// Returns a handle of a copy of the data after `change`.
template <class Ciphertext, class Change>
AnyCiphertext changed(const Ciphertext& x, Change change) {
  auto data = std::make_shared<std::decay_t<decltype(x.data())>>(x.data());
  change(*data);
  return Ciphertext(std::move(data));
}

template <class Keys>
class RlweSource final : public program::KeySource {
 public:
  explicit RlweSource(const Keys& keys) : keys_(keys) {}

  std::optional<math::u64> find(const device::Memory& memory) const override {
    std::optional<math::u64> found;
    keys_.data().keys.each([&](math::u64 number, const rlwe::SwitchKey& key) {
      if (!found && key.lies_in(memory)) found = number;
    });
    return found;
  }
  device::Buffer at(math::u64 which) const override {
    device::Buffer found;
    keys_.data().keys.each([&](math::u64 number, const rlwe::SwitchKey& key) {
      if (number == which) found = key.pairs().view().memory;
    });
    const bool of_program = which >> 63 != 0;
    const char* const kind = which == 0                           ? "a relinearization key"
                             : which % 2 == 1 && which >> 20 == 0 ? "a rotation key"
                             : which >> 32 != 0 && !of_program    ? "a rotation key for a level"
                                                                  : "a key of bootstrapping";
    if (!found) throw MissingKeyError(std::string("the program needs ") + kind + " that these keys lack");
    return found;
  }
  KeyForm form(math::u64 which) const override {
    KeyForm form;
    keys_.data().keys.each([&](math::u64 number, const rlwe::SwitchKey& key) {
      if (number != which) return;
      const ring::RnsTensor pairs = key.pairs();
      form = {pairs.view().n, keys_.data().context->rlwe().moduli(pairs.primes())};
    });
    return form;
  }

 private:
  Keys keys_;
};

class TfheSource final : public program::KeySource {
 public:
  explicit TfheSource(const tfhe::EvaluationKeys& keys) : keys_(keys) {}

  std::optional<math::u64> find(const device::Memory&) const override { return std::nullopt; }
  device::Buffer at(math::u64) const override {
    throw MismatchError("the program needs keys of BFV, BGV or CKKS, but got keys of TFHE");
  }
  KeyForm form(math::u64) const override { return {}; }
  bool take_out(device::Call& call) const override {
    return with_keys(call, [&](auto* switch_key, auto* key) {
      const auto mine = keys_.data().prepared();
      if (switch_key != nullptr && *switch_key != mine->key_switch) return false;
      if (key != nullptr && *key != mine->bootstrap) return false;
      if (switch_key != nullptr) *switch_key = nullptr;
      if (key != nullptr) *key = nullptr;
      return true;
    });
  }
  void put_in(device::Call& call) const override {
    with_keys(call, [&](auto* switch_key, auto* key) {
      const auto mine = keys_.data().prepared();
      if (switch_key != nullptr) *switch_key = mine->key_switch;
      if (key != nullptr) *key = mine->bootstrap;
      return true;
    });
  }

 private:
  using SwitchKey = std::shared_ptr<const device::LweSwitchKey>;
  using Key = std::shared_ptr<const device::BootstrapKey>;

  template <class F>
  static bool with_keys(device::Call& call, F f) {
    if (auto* const c = std::get_if<device::Evaluate>(&call)) return f(&c->switch_key, &c->key);
    if (auto* const c = std::get_if<device::LweKeySwitch>(&call)) return f(&c->key, static_cast<Key*>(nullptr));
    if (auto* const c = std::get_if<device::Bootstrap>(&call)) return f(static_cast<SwitchKey*>(nullptr), &c->key);
    return false;
  }

  tfhe::EvaluationKeys keys_;
};

}  // namespace

std::vector<KeyId> key_ids(const std::vector<Operand>& operands) {
  std::vector<KeyId> ids;
  const auto add = [&](const std::optional<KeyId>& id) {
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  };
  for (const Operand& o : operands) add(key_of(o.tensor)), add(key_of(o.keys));
  return ids;
}

std::vector<View> views_of(const AnyCiphertext& x) {
  std::vector<View> views;
  std::visit(
      [&](const auto& c) {
        for (const auto& t : tensors(c.data())) views.push_back(t.view());
      },
      x);
  return views;
}

AnyCiphertext without_guards_of(const std::vector<AnyCiphertext>& operands, const AnyCiphertext& result) {
  const auto* const x = std::get_if<ckks::Ciphertext>(&result);
  if (x == nullptr || x->data().guards.empty()) return result;
  std::vector<ckks::Guard::Part> theirs;
  for (const AnyCiphertext& operand : operands)
    for (const ckks::Guards::Item& guard : std::get<ckks::Ciphertext>(operand).data().guards.list())
      theirs.insert(theirs.end(), guard->parts.begin(), guard->parts.end());
  std::vector<ckks::Guards::Item> own;
  for (const ckks::Guards::Item& guard : x->data().guards.list()) {
    const auto is_theirs = [&](const ckks::Guard::Part& part) {
      return std::find(theirs.begin(), theirs.end(), part) != theirs.end();
    };
    const auto count = std::count_if(guard->parts.begin(), guard->parts.end(), is_theirs);
    if (count == 0) own.push_back(guard);
    if (count != 0 && static_cast<std::size_t>(count) != guard->parts.size())
      throw RecordingError(
          "cannot record this function: its results join guards of its operands with guards of the function; drop the "
          "operands' guards first (unguarded), or make fewer guards in the function (guard=False)");
  }
  return changed(*x, [&](ckks::CiphertextData& data) { data.guards = ckks::Guards::of(std::move(own)); });
}

Form::Form(const AnyCiphertext& x, const std::vector<Operand>& operands) {
  std::vector<View> none = views_of(x);
  tensors_ = none.size();
  for (View& v : none) v = v.lent();
  x_ = std::visit([&](const auto& c) { return changed(c, [&](auto& data) { put(data, none.data()); }); }, x);
  const std::vector<KeyId> ids = key_ids(operands);
  key_ = place(ids, key_of(x));
  if (key_ == ids.size()) key_ = kNone;  // the key belongs to no operand, so its id is stored as it is
  const std::vector<math::Key256> masks = seeds_of(x);
  for (std::size_t i = 0; i < operands.size() && !masks.empty() && seed_ == kNone; ++i) {
    if (seeds_of(operands[i].tensor) == masks) seed_ = i;
  }
  const auto session = std::visit([](const auto& c) { return session_of(c.data()); }, x);
  const auto sessions = sessions_of(operands);
  if (session) session_ = static_cast<std::size_t>(std::find(sessions.begin(), sessions.end(), *session) - sessions.begin());
  if (session_ == sessions.size()) session_ = kNone;  // the session belongs to no operand, so its number is stored as it is
}

AnyCiphertext Form::filled(const View* views, const std::vector<Operand>& operands, ckks::NewParts& parts) const {
  return std::visit(
      [&](const auto& c) {
        return changed(c, [&](auto& data) {
          put(data, views);
          if (key_ != kNone) data.key = key_ids(operands)[key_];
          renew(data, parts);
          if (seed_ != kNone) set_seeds(data, seeds_of(operands[seed_].tensor));
          if (session_ == kNone) return;
          const auto sessions = sessions_of(operands);
          if (session_ < sessions.size())
            set_session(data, sessions[session_]);
          else
            forget_bounds(data);
        });
      },
      x_);
}

std::vector<std::vector<math::u64>> Form::moduli() const {
  return std::visit(
      [](const auto& c) {
        std::vector<std::vector<math::u64>> all;
        for (const auto& t : recording::tensors(c.data())) {
          if constexpr (requires { t.primes(); })
            all.push_back(c.data().context->rlwe().moduli(t.primes()));
          else
            all.emplace_back();
        }
        return all;
      },
      x_);
}

AnyContext context_of(const AnyCiphertext& x) {
  return std::visit([](const auto& c) -> AnyContext { return c.data().context; }, x);
}

namespace {

// Write the properties that determine calls, and the metadata of results other than bounds.
void add_portable(Text& to, const exact::CiphertextData& x) {
  to.add(x.context->hash()), to.add(x.first_part), to.add(x.packing), to.add(x.width), to.add(x.factors);
  for (const ring::RnsTensor& part : x.parts) add_tensor(to, part);
}
void add_portable(Text& to, const ckks::CiphertextData& x) {
  to.add(x.context->hash()), to.add(x.level), to.add(x.scale), to.add(x.width), to.add(x.complex);
  add_tensor(to, x.tensor);
}
void add_portable(Text& to, const tfhe::CiphertextData& x) {
  to.add(x.context->hash()), to.add(x.type.text()), to.add(device::form_of(x.tensor.view()));
}

/// Reads the bytes that Text wrote.
class Text::Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_text() { return take(take<std::size_t>()); }
  std::string_view take(std::size_t bytes) {
    require<DamagedFileError>(bytes <= text_.size() - next_, "the description of a saved program's operands is truncated");
    return std::string_view(text_).substr(std::exchange(next_, next_ + bytes), bytes);
  }

 private:
  const std::string& text_;
  std::size_t next_ = 0;
};

program::InputForm tensor_from(Text::Reader& from, const rlwe::Context& context) {
  program::InputForm input{.form = std::string(from.take_text()), .moduli = {}};
  from.take<math::Domain>(), from.take<unsigned char>();
  const math::Ring& ring = context.engine()->ring();
  const auto count = from.take<std::size_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const auto prime = from.take<math::PrimeIndex>();
    require<DamagedFileError>(prime < ring.primes().size(),
                              "a saved program's operand has a prime that its parameters lack");
    input.moduli.push_back(ring.prime(prime));
  }
  return input;
}

// Read the output of add_portable, after the hash.
void add_inputs(std::vector<program::InputForm>& to, Text::Reader& from, const exact::Context& context) {
  from.take<std::size_t>(), from.take<exact::Packing>(), from.take<std::size_t>();
  const auto parts = from.take<std::size_t>();
  from.take(checked_mul(parts, sizeof(math::u64)));
  for (std::size_t i = 0; i < parts; ++i) to.push_back(tensor_from(from, context.rlwe()));
}
void add_inputs(std::vector<program::InputForm>& to, Text::Reader& from, const ckks::Context& context) {
  from.take<std::size_t>(), from.take<double>(), from.take<std::size_t>(), from.take<unsigned char>();
  to.push_back(tensor_from(from, context.rlwe()));
}
void add_inputs(std::vector<program::InputForm>& to, Text::Reader& from, const tfhe::Context&) {
  from.take_text();
  to.push_back({.form = std::string(from.take_text()), .moduli = {}});
}

/// Appends the padding slots' contents of an operand; nothing if they are zero, as in programs of older releases.
void add_tails(Text& to, std::size_t operand, const exact::CiphertextData& x) {
  if (std::any_of(x.tails.begin(), x.tails.end(), [](const auto& t) { return !t.is_zero(); }))
    to.add(operand), to.add(x.tails);
}
void add_tails(Text& to, std::size_t operand, const ckks::CiphertextData& x) {
  if (!x.tail.is_zero()) to.add(operand), to.add(x.tail);
}
void add_tails(Text&, std::size_t, const tfhe::CiphertextData&) {}

void add_limits(std::vector<double>& to, const exact::CiphertextData& x) {
  to.insert(to.end(), x.noise.begin(), x.noise.end());
  to.push_back(x.independent ? 0 : 1), to.push_back(x.distinct ? 0 : 1);  // independent items have smaller noise
}
void add_limits(std::vector<double>& to, const ckks::CiphertextData& x) {
  to.push_back(x.noise.assumed), to.push_back(x.peak().assumed);
}
void add_limits(std::vector<double>&, const tfhe::CiphertextData&) {}

void add_ranges(Takes& to, const ckks::CiphertextData& x) {
  to.spreads.push_back(x.noise.spread.assumed), to.ranges.push_back(x.ranges.unvouched());
}
template <class Data>
void add_ranges(Takes&, const Data&) {}

void forget(exact::CiphertextData& x) { x.noise.assign(x.noise.size(), std::nan("")); }
void forget(ckks::CiphertextData& x) { x.noise = std::nan(""), x.ranges = {}; }
void forget(tfhe::CiphertextData&) {}

}  // namespace

Takes::Takes(const std::vector<Operand>& operands) {
  Text to;
  const std::vector<KeyId> ids = key_ids(operands);
  std::vector<View> views;
  for (const Operand& o : operands) {
    to.add(o.tensor.index());
    std::visit([&](const auto& c) { add_portable(to, c.data()), add_limits(limits, c.data()), add_ranges(*this, c.data()); },
               o.tensor);
    to.add(place(ids, key_of(o.tensor))), to.add(o.keys.index()), to.add(place(ids, key_of(o.keys)));
    contexts.push_back(context_of(o.tensor));
    for (const View& v : views_of(o.tensor)) views.push_back(v);
    sources += !std::holds_alternative<std::monostate>(o.keys);
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    std::size_t first = 0;
    while (views[first].memory != views[i].memory) ++first;
    to.add(first), to.add(views[i].data - views[first].data);
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    std::visit([&](const auto& c) { add_tails(to, i, c.data()); }, operands[i].tensor);
  keys = ids.size();
  bounds = bounds_of(operands);
  text = to.take();
}

std::vector<program::InputForm> Takes::inputs() const {
  std::vector<program::InputForm> all;
  Text::Reader from(text);
  for (const AnyContext& context : contexts) {
    const auto scheme = from.take<std::size_t>();
    std::visit(
        [&](const auto& c) {
          require<DamagedFileError>(scheme == context.index() && from.take_text() == c->hash(),
                                    "a saved program's operand has other parameters than its description");
          add_inputs(all, from, *c);
        },
        context);
    from.take<std::size_t>(), from.take<std::size_t>(), from.take<std::size_t>();  // key indices
  }
  return all;
}

Form Form::unknown() const {
  Form form = *this;
  form.x_ = std::visit([](const auto& c) { return changed(c, [](auto& data) { forget(data); }); }, x_);
  return form;
}

Form Form::unbounded() const {
  Form form = *this;
  form.x_ = std::visit([](const auto& c) { return changed(c, [](auto& data) { forget_bounds(data); }); }, x_);
  form.session_ = kNone;
  return form;
}

std::unique_ptr<program::KeySource> key_source(const AnyKeys& keys) {
  return std::visit(
      []<class Keys>(const Keys& k) -> std::unique_ptr<program::KeySource> {
        if constexpr (std::is_same_v<Keys, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<Keys, tfhe::EvaluationKeys>)
          return std::make_unique<TfheSource>(k);
        else
          return std::make_unique<RlweSource<Keys>>(k);
      },
      keys);
}

}  // namespace recording

namespace {

std::string shapes_of(const std::vector<Operand>& operands) {
  recording::Text text;
  const std::vector<ring::KeyId> ids = recording::key_ids(operands);
  std::vector<device::View> views;
  text.add(operands.size());
  for (const Operand& o : operands) {
    text.add(o.tensor.index());
    std::visit([&](const auto& c) { recording::add_shape(text, c.data()); }, o.tensor);
    text.add(recording::place(ids, recording::key_of(o.tensor)));
    text.add(o.keys.index());
    std::visit([&](const auto& k) { recording::add_keys(text, k); }, o.keys);
    text.add(recording::place(ids, recording::key_of(o.keys)));
    // An operand that is used twice gives other calls than two equal operands, so the text states which operands are the
    // same.
    for (const device::View& v : recording::views_of(o.tensor)) {
      const auto same =
          std::find_if(views.begin(), views.end(), [&](const device::View& w) { return w.memory == v.memory; });
      text.add(same - views.begin());
      text.add(same != views.end() ? v.data - same->data : 0);
      views.push_back(v);
    }
  }
  return text.take();
}

std::string figures_of(const std::vector<Operand>& operands) {
  recording::Text text;
  for (const Operand& o : operands) std::visit([&](const auto& c) { recording::add_figures(text, c.data()); }, o.tensor);
  for (const exact::Growth& bound : recording::bounds_of(operands)) text.add(bound);
  return text.take();
}

}  // namespace

Operands::Operands(std::vector<Operand> list) : list_(std::move(list)) {
  for (Operand& o : list_) {
    const auto* const x = std::get_if<ckks::Ciphertext>(&o.tensor);
    if (x == nullptr || x->data().guards.empty()) continue;
    guarded_.push_back(o.tensor);
    o.tensor = ckks::drop_guards(*x);
  }
  shapes_ = shapes_of(list_);
  signature_ = shapes_ + figures_of(list_);
}

AnyCiphertext Operands::guarded(const AnyCiphertext& result) const {
  const auto* const x = std::get_if<ckks::Ciphertext>(&result);
  if (x == nullptr || guarded_.empty()) return result;
  ckks::Guards guards;
  for (const AnyCiphertext& operand : guarded_) {
    const ckks::CiphertextData& data = std::get<ckks::Ciphertext>(operand).data();
    if (data.key == x->data().key) guards = ckks::Guards::joined(guards, data.guards);
  }
  return recording::changed(*x,
                            [&](ckks::CiphertextData& data) { data.guards = ckks::Guards::joined(guards, data.guards); });
}

const std::vector<AnyCiphertext>& Operands::with_guards() const { return guarded_; }

}  // namespace heliograph
