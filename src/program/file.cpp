#include "program/file.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <typeindex>

#include "device/chunks.h"
#include "device/expand.h"
#include "device/shape.h"
#include "math/conversion.h"

namespace heliograph::program {

namespace {

using math::Conversion;

constexpr std::size_t kMostPlaces = std::size_t{1} << 18, kMostSteps = std::size_t{1} << 20;

std::byte* at(u64 address) { return reinterpret_cast<std::byte*>(address); }
u64 number_of(const std::byte* address) { return reinterpret_cast<u64>(address); }

// One list of fields serves writing and reading: each type calls the archive with its fields. A constant or plan is written
// at its first occurrence; a later occurrence is written as the number of the first.

template <class Archive>
void fields(Archive& a, PrimeList& list) {
  std::vector<u64> primes(list.begin(), list.end());
  a(primes);
  if constexpr (Archive::reads) {
    a.require(
        primes.size() <= device::kMaxLimbs && std::all_of(primes.begin(), primes.end(), [](u64 p) { return p >> 16 == 0; }),
        "a list of primes");
    list = {};
    for (const u64 p : primes) list.push_back(static_cast<math::PrimeIndex>(p));
  }
}

template <class Archive>
void fields(Archive& a, device::LimbConstants& c) {
  std::size_t used = c.size();
  while (used > 0 && c[used - 1] == 0) --used;
  std::vector<u64> values(c.begin(), c.begin() + used);
  a(values);
  if constexpr (Archive::reads) {
    a.require(values.size() <= c.size(), "a list of constants");
    c = {};
    std::copy(values.begin(), values.end(), c.begin());
  }
}

template <class Archive>
void fields(Archive& a, View& v) {
  u64 address = number_of(v.data), word = static_cast<u64>(v.word), axes = static_cast<u64>(v.axes);
  a(address), a(word), a(axes);
  if constexpr (Archive::reads) {
    a.require((word == 4 || word == 8) && axes <= device::kMaxAxes, "a view");
    v = {.data = at(address), .word = static_cast<math::Word>(word), .axes = static_cast<int>(axes)};
  }
  for (u64 i = 0; i < axes; ++i) a(v.shape[i]), a(v.stride[i]);
  a(v.components), a(v.component_stride), a(v.limbs), a(v.limb_stride), a(v.n);
  if constexpr (Archive::reads) v.check_extent();
}

template <class Archive>
void fields(Archive& a, device::DividePlan::Run& run) {
  a(run.from), a(run.to), a(run.count);
}
template <class Archive>
void fields(Archive& a, device::DividePlan& p) {
  a(p.ring), a(p.primes), a(p.out), a(p.kept), a(p.divided), a(p.rest), a(p.own);
}
template <class Archive>
void fields(Archive& a, device::KeySwitchPlan::Digit& d) {
  a(d.first), a(d.count), a(d.others), a(d.raise);
}
template <class Archive>
void fields(Archive& a, device::KeySwitchPlan& p) {
  a(p.ring), a(p.chain), a(p.special), a(p.digits), a(p.extended), a(p.key_limbs), a(p.mod_down), a(p.weight);
  fields(a, p.down);
}
template <class Archive>
void fields(Archive& a, device::LinearPlan::Term& t) {
  a(t.giant), a(t.baby);
}
template <class Archive>
void fields(Archive& a, device::LinearPlan& p) {
  a(p.key_switch), a(p.mod_down), a(p.babies), a(p.giants), a(p.terms);
}
template <class Archive>
void fields(Archive& a, device::MultiplyPlan& p) {
  a(p.ring), a(p.chain), a(p.auxiliary), a(p.extended), a(p.lift), a(p.scale), a(p.lower);
}

// The constants' constructors check the fields.

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::RingConstant>& c) {
  u64 n = 0, word = 0, transforms = 0;
  std::vector<u64> primes;
  if constexpr (!Archive::reads)
    n = c->ring().n(), word = math::word_bytes(c->ring().word()), transforms = c->ring().transforms(),
    primes = c->ring().primes();
  a(n), a(word), a(transforms), a(primes);
  if constexpr (Archive::reads) {
    c = a.ring(n, word, transforms != 0, primes);
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::ConversionConstant>& given) {
  Conversion c;
  if constexpr (!Archive::reads) c = given->conversion();
  u64 rounded = c.rounded;
  a(c.from), a(c.to), a(c.inverse), a(c.matrix), a(c.own), a(c.wrap), a(rounded);
  if constexpr (Archive::reads) {
    c.rounded = rounded != 0;
    const auto residues = [](const std::vector<u64>& values, const std::vector<u64>& of, std::size_t each) {
      if (values.size() != of.size() * each) return false;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= of[i / each]) return false;
      }
      return true;
    };
    const auto modulus = [](u64 q) { return q > 1 && q <= u64{1} << 60; };
    const std::size_t sources = c.sources();
    a.require(sources > 0 && sources < 64 && c.targets() > 0 && c.targets() <= device::kMaxLimbs &&
                  std::all_of(c.from.begin(), c.from.end(), modulus) && std::all_of(c.to.begin(), c.to.end(), modulus) &&
                  residues(c.inverse, c.from, 1) && residues(c.matrix, c.to, sources) &&
                  (c.own.empty() || residues(c.own, c.to, 1)) && (c.wrap.empty() || residues(c.wrap, c.to, 1)) &&
                  (!c.rounded || !c.wrap.empty()),
              "a conversion");
    c.fixed = math::fixed_point(c.from);
    given = std::make_shared<const device::ConversionConstant>(std::move(c));
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::PermutationConstant>& given) {
  device::Permutation p;
  std::vector<u64> negate;
  if constexpr (!Archive::reads) {
    p = given->permutation();
    negate.assign(p.negate.begin(), p.negate.end());
  }
  a(p.source), a(negate);
  if constexpr (Archive::reads) {
    p.negate.assign(negate.begin(), negate.end());
    given = std::make_shared<const device::PermutationConstant>(std::move(p));
  }
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::ProductConstant>& given) {
  device::GatheredProduct p;
  if constexpr (!Archive::reads) p = given->product();
  a(p.groups), a(p.outputs), a(p.positions), a(p.terms), a(p.inputs), a(p.weights), a(p.index);
  if constexpr (Archive::reads) given = std::make_shared<const device::ProductConstant>(std::move(p));
}

template <class Archive>
void constant(Archive& a, std::shared_ptr<const device::LayerConstant>& given) {
  device::GateLayer l;
  if constexpr (!Archive::reads) l = given->layer();
  a(l.first), a(l.source), a(l.weight), a(l.constant), a(l.lut), a(l.target), a(l.outputs), a(l.tables), a(l.degree);
  if constexpr (Archive::reads) given = std::make_shared<const device::LayerConstant>(std::move(l));
}

template <class Archive, class Plan>
void constant(Archive& a, std::shared_ptr<const Plan>& given) {
  auto plan = std::make_shared<Plan>();
  if constexpr (!Archive::reads) *plan = *given;
  fields(a, *plan);
  if constexpr (Archive::reads) {
    device::check(*plan);
    given = std::move(plan);
  }
}

/// Kinds of constants that no recording contains.
template <class T>
concept OfTfheKeys = std::is_same_v<T, device::BootstrapKey> || std::is_same_v<T, device::LweSwitchKey>;
template <class T>
concept Unsaved = OfTfheKeys<T> || std::is_same_v<T, device::LimbSumConstant>;

class Writer {
 public:
  static constexpr bool reads = false;
  const std::vector<u64>& words() const { return words_; }

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { words_.push_back(static_cast<u64>(value)); }
  template <class T>
  void operator()(std::vector<T>& list) {
    words_.push_back(list.size());
    for (T& value : list) (*this)(value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    words_.push_back(value.has_value());
    if (value) (*this)(*value);
  }
  template <class T>
  void operator()(device::Common<T>& value) {
    T copy = *value;
    (*this)(copy);
  }
  template <class T>
  void operator()(std::shared_ptr<const T>& pointer) {
    auto& known = known_[std::type_index(typeid(T))];
    const auto found = std::find(known.begin(), known.end(), pointer.get());
    words_.push_back(pointer ? static_cast<u64>(found - known.begin()) + 1 : 0);
    if (!pointer || found != known.end()) return;
    if constexpr (Unsaved<T>) {
      throw RecordingError("cannot save this program: it holds TFHE keys; pass keys by its operands");
    } else {
      constant(*this, pointer);
      known_[std::type_index(typeid(T))].push_back(pointer.get());
    }
  }
  void operator()(device::Piece& piece) { (*this)(piece.from), (*this)(piece.to); }
  void operator()(Secret<device::Draw>&) { throw InternalError("a program has no random draws"); }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) { fields(*this, value); }

 private:
  std::vector<u64> words_;
  std::map<std::type_index, std::vector<const void*>> known_;
};

class Reader {
 public:
  static constexpr bool reads = true;
  Reader(std::span<const u64> words, const std::vector<ParameterSet>& sets) : words_(words), sets_(sets) {}

  void require(bool right, const char* what) const {
    if (!right) throw DamagedFileError(std::string("this saved program is damaged: ") + what + " is not valid");
  }
  void finish() const { require(next_ == words_.size(), "data after its end"); }
  u64 take() {
    require(next_ < words_.size(), "its end");
    return words_[next_++];
  }
  std::size_t below(std::size_t limit, const char* what) {
    const u64 value = take();
    require(value < limit, what);
    return value;
  }

  /// Returns a ring of the program's parameters. Other rings are refused, because a few words of a malicious file could
  /// request tables of any size.
  device::RingHandle ring(u64 n, u64 word, bool transforms, const std::vector<u64>& primes) const {
    for (const ParameterSet& set : sets_) {
      for (const device::RingHandle& known : set.rings) {
        const math::Ring& r = known->ring();
        if (r.n() == n && math::word_bytes(r.word()) == word && r.transforms() == transforms && r.primes() == primes)
          return known;
      }
    }
    throw DamagedFileError("this saved program is damaged: none of its parameter sets has the ring of its calls");
  }

  template <class T>
  requires std::is_integral_v<T>
  void operator()(T& value) {
    const u64 word = take();
    value = static_cast<T>(word);
    require(static_cast<u64>(value) == word, "a number");
  }
  void operator()(math::Domain& value) { value = static_cast<math::Domain>(below(2, "a domain")); }
  template <class T>
  void operator()(std::vector<T>& list) {
    const u64 count = take();
    require(count <= words_.size() - next_, "a list");
    list.clear(), list.resize(count);
    for (T& value : list) (*this)(value);
  }
  /// The list is limited to the number of terms of a call. An element takes more memory than its word in the file, so a
  /// damaged count could request too much.
  void operator()(std::vector<device::LimbConstants>& list) {
    list.resize(below(device::WeightedSum::kMost + 1, "a list of weights"));
    for (device::LimbConstants& weights : list) (*this)(weights);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    value.reset();
    if (below(2, "a mark")) (*this)(value.emplace());
  }
  template <class T>
  void operator()(device::Common<T>& value) {
    T copy{};
    (*this)(copy);
    value = device::Common<T>(copy);
  }
  template <class T>
  void operator()(std::shared_ptr<const T>& pointer) {
    auto& known = std::get<Known<T>>(known_);
    const std::size_t number = below(known.size() + 2, "a constant");
    pointer = number > 0 && number <= known.size() ? known[number - 1] : nullptr;
    if (number <= known.size()) return;
    if constexpr (Unsaved<T>) {
      require(false, "a kind of constant");
    } else {
      constant(*this, pointer);
      known.push_back(pointer);
    }
  }
  void operator()(device::Piece& piece) { (*this)(piece.from), (*this)(piece.to); }
  void operator()(Secret<device::Draw>&) { require(false, "a draw"); }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) { fields(*this, value); }

 private:
  template <class T>
  using Known = std::vector<std::shared_ptr<const T>>;

  std::span<const u64> words_;
  const std::vector<ParameterSet>& sets_;
  std::size_t next_ = 0;
  std::tuple<Known<device::RingConstant>, Known<device::ConversionConstant>, Known<device::PermutationConstant>,
             Known<device::ProductConstant>, Known<device::LayerConstant>, Known<device::BootstrapKey>,
             Known<device::LweSwitchKey>, Known<device::DividePlan>, Known<device::KeySwitchPlan>, Known<device::LinearPlan>,
             Known<device::MultiplyPlan>, Known<device::LimbSumConstant>>
      known_;
};

template <class Archive, class C>
void all_fields(Archive& a, C& call) {
  std::apply([&](auto&... field) { (a(field), ...); }, C::fields(call));
}

/// Returns an empty call of the kernel whose index in the variant is `number`.
template <std::size_t... i>
Call call_of(std::size_t number, std::index_sequence<i...>) {
  Call call;
  ((i == number ? void(call = std::variant_alternative_t<i, Call>{}) : void()), ...);
  return call;
}

u64 session_number(const std::vector<const Session*>& sessions, const Session* session) {
  const auto found = std::find(sessions.begin(), sessions.end(), session);
  if (found == sessions.end())
    throw RecordingError("cannot save this program: its calls must use only the parameter sets of its operands");
  return static_cast<u64>(found - sessions.begin());
}

std::vector<const Session*> users(const Program::Parts& parts, const std::vector<const Session*>& of_results) {
  std::vector<const Session*> of(parts.places.size());
  for (std::size_t i = 0; i < parts.results.size(); ++i) of[parts.results[i].place] = of_results[i];
  for (const Step& step : parts.steps) {
    for (const u32 p : step.places) of[p] = step.session;
  }
  return of;
}

/// Returns a view of a complete place as one row of words.
View row_of(const Buffer& memory) {
  View row = View::dense(memory->address(), math::Word::w32, {}, 1, 1, memory->bytes() / 4);
  row.memory = memory;
  return row;
}

}  // namespace

void write(const Program::Parts& parts, const std::vector<const Session*>& sessions,
           const std::vector<const Session*>& of_results, io::Container& to) {
  std::vector<io::Array> constants;
  const std::vector<const Session*> user = users(parts, of_results);
  Writer w;
  w(parts.places.size());
  for (std::size_t p = 0; p < parts.places.size(); ++p) {
    Place place = parts.places[p];
    if (!place.alone) throw RecordingError("cannot save this program: its operands must not share memory");
    if (place.secrecy != Secrecy::open) throw RecordingError("cannot save this program: it computes with a secret key");
    const bool holds = place.kind == Place::Kind::constant && place.memory && user[p];
    w(place.kind), w(place.number), w(place.which), w(place.alone), w(place.result);
    place.shape.data = nullptr;
    w(place.shape), w(place.primes), w(holds);
    if (!holds) continue;
    w(session_number(sessions, user[p]));
    const std::size_t bytes = place.memory->bytes();
    constants.push_back(io::Array::made("constant" + std::to_string(constants.size()), "u8", {bytes},
                                        [session = user[p], memory = place.memory, bytes] {
                                          auto words = session->host_array<std::byte>(bytes, "saving a program");
                                          session->download(row_of(memory), words);
                                          return io::Held::of(std::move(words));
                                        }));
  }
  w(parts.steps.size());
  for (const Step& step : parts.steps) {
    w(session_number(sessions, step.session)), w(step.call.index()), w(step.source);
    Call call = step.call;
    std::visit([&](auto& c) { all_fields(w, c); }, call);
    for (const u32 p : step.places) w(p);
  }
  w(parts.results.size());
  for (const Shown& shown : parts.results) {
    View view = shown.view;
    w(shown.place), w(view);
  }
  io::Json kernels = io::Json::array();
  for (const char* const name : device::kernel_names()) kernels.push_back(name);
  to.header["kernels"] = std::move(kernels);
  to.arrays.push_back(io::Array::holding<u64>("calls", {w.words().size()}, io::Held::of(w.words())));
  std::move(constants.begin(), constants.end(), std::back_inserter(to.arrays));
}

namespace {

/// Reads one program: parses its structure and verifies it, then prepares constants and uploads words.
class Loading {
 public:
  Loading(io::Container& from, const Surroundings& around) : from_(from), around_(around), r_(calls_of(from_), around.sets) {
    const std::vector<const char*> names = device::kernel_names();
    for (const io::Json& name : from_.header.array_at("kernels", 256)) {
      const auto found = std::find_if(names.begin(), names.end(),
                                      [&](const char* own) { return name.as_string("a kernel's name", 64) == own; });
      if (found == names.end())
        throw VersionError("this saved program uses a kernel that this version does not have; install a newer version");
      kernels_.push_back(static_cast<std::size_t>(found - names.begin()));
    }
  }

  Loaded run(const Limits& limits) {
    for (std::size_t i = 0, count = r_.below(kMostPlaces, "a number of places"); i < count; ++i) read_place();
    for (std::size_t i = 0, count = r_.below(kMostSteps, "a number of calls"); i < count; ++i) read_step();
    for (std::size_t i = 0, count = r_.below(kMostPlaces, "a number of results"); i < count; ++i) {
      Shown shown;
      shown.place = static_cast<u32>(r_.below(parts_.places.size(), "a place"));
      r_(shown.view);
      parts_.results.push_back(std::move(shown));
    }
    r_.finish();
    const auto constants = std::count_if(from_.arrays.begin(), from_.arrays.end(),
                                         [](const io::Array& a) { return a.name.starts_with("constant"); });
    r_.require(static_cast<std::size_t>(constants) == held_.size(), "a constant");
    std::vector<std::span<const std::byte>> words(parts_.places.size());
    for (const Held& h : held_) words[h.place] = array_of(h).data;
    std::vector<std::vector<u64>> below = verify(parts_, words, around_, limits);
    for (const Step& step : parts_.steps) prepare(step);
    for (const Held& h : held_) upload(h);
    return {std::move(parts_), std::move(below)};
  }

 private:
  /// A constant whose words are in the file.
  struct Held {
    std::size_t place = 0;
    const Session* session = nullptr;
    std::string name;
  };

  static std::span<const u64> calls_of(const io::Container& from) {
    const io::Array* const calls = from.find("calls");
    if (!calls || calls->dtype != "u64" || calls->shape.size() != 1)
      throw DamagedFileError("this saved program is damaged: it has no array of calls");
    return calls->values<u64>();
  }
  const Session* session() { return around_.sets[r_.below(around_.sets.size(), "a parameter set")].session; }
  const io::Array& array_of(const Held& h) {
    const io::Array* const words = from_.find(h.name);
    r_.require(words && words->dtype == "u8" && words->shape.size() == 1 && words->bytes() % 4 == 0, "a constant");
    return *words;
  }

  void read_place() {
    Place p;
    p.kind = static_cast<Place::Kind>(r_.below(4, "a kind of place"));
    r_(p.number), r_(p.which), r_(p.alone);
    r_(p.result), r_(p.shape), r_(p.primes);
    r_.require(p.shape.data == nullptr && p.alone, "a place");
    if (r_.below(2, "a mark")) {
      r_.require(p.kind == Place::Kind::constant, "a constant");
      held_.push_back({parts_.places.size(), session(), "constant" + std::to_string(held_.size())});
    }
    parts_.places.push_back(std::move(p));
  }

  void read_step() {
    Step step;
    step.session = session();
    step.call =
        call_of(kernels_[r_.below(kernels_.size(), "a kernel")], std::make_index_sequence<std::variant_size_v<Call>>());
    r_(step.source);
    std::visit([&](auto& c) { all_fields(r_, c); }, step.call);
    device::each_view(step.call, [&](View&, device::Access) {
      step.places.push_back(static_cast<u32>(r_.below(parts_.places.size(), "a place")));
    });
    std::visit(
        [&](auto& c) {
          device::each_constant(c, [&]<class T>(std::shared_ptr<const T>& constant) {
            constexpr bool optional = std::is_same_v<T, device::PermutationConstant> || OfTfheKeys<T>;
            r_.require(constant != nullptr || optional, "a call without its constants");
          });
        },
        step.call);
    r_.require(!std::holds_alternative<device::Permute>(step.call) || std::get<device::Permute>(step.call).permutation,
               "a call without its constants");
    parts_.steps.push_back(std::move(step));
  }

  static void prepare(const Step& step) {
    std::visit(
        [&](const auto& c) {
          device::each_constant(c, [&]<class T>(const std::shared_ptr<const T>& constant) {
            if constexpr (std::is_same_v<T, device::LayerConstant>)
              step.session->device().tfhe().prepare(*constant);
            else if constexpr (!OfTfheKeys<T>)
              if (constant) step.session->kernels().prepare(*constant);
          });
        },
        step.call);
  }

  void upload(const Held& h) {
    Place& p = parts_.places[h.place];
    const io::Array& words = array_of(h);
    const bool whole = device::is_dense(p.shape) && p.shape.bytes() == words.bytes() && p.shape.n > 0;
    p.memory = whole ? h.session->allocate(p.shape, p.primes) : h.session->allocate(words.bytes());
    h.session->upload(from_.take(words.name, "u8", words.shape).bytes, row_of(p.memory));
    p.origin = p.memory;
  }

  io::Container& from_;
  const Surroundings& around_;
  Reader r_;
  std::vector<std::size_t> kernels_;
  Program::Parts parts_;
  std::vector<Held> held_;
};

}  // namespace

Loaded read(io::Container& from, const Surroundings& around, const Limits& limits) {
  try {
    return Loading(from, around).run(limits);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("this saved program is damaged: invalid constants: ") + e.what());
  } catch (const ShapeError& e) {
    throw DamagedFileError(std::string("this saved program is damaged: invalid operands: ") + e.what());
  } catch (const MismatchError& e) {
    throw DamagedFileError(std::string("this saved program is damaged: invalid operands: ") + e.what());
  }
}

}  // namespace heliograph::program
