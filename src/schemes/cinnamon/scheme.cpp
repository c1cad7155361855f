#include "schemes/cinnamon/scheme.h"

#include <cmath>

#include "schemes/exact/derive.h"
#include "schemes/exact/rules.h"

namespace heliograph::cinnamon {

using math::u64;
using ring::RnsTensor;

namespace {

constexpr const char* kWhose = "instruction programs need a set of CKKS, or of BGV with one plaintext modulus";

template <class Any, class F>
auto visited(const Any& any, F f) {
  using Result = decltype(f(std::get<1>(any)));
  return std::visit(
      [&]<class T>(const T& x) -> Result {
        if constexpr (requires { f(x); })
          return f(x);
        else
          throw ParameterError(kWhose);
      },
      any);
}

template <class T>
concept Keys = std::is_same_v<T, ckks::EvaluationKeys> || std::is_same_v<T, exact::EvaluationKeys>;
template <class T>
concept Ciphertext = std::is_same_v<T, ckks::Ciphertext> || std::is_same_v<T, exact::Ciphertext>;

const RnsTensor& tensor(const ckks::CiphertextData& x) { return x.tensor; }
const RnsTensor& tensor(const exact::CiphertextData& x) {
  require<ParameterError>(x.parts.size() == 1, kWhose);
  return x.front();
}

void require_like(const ckks::CiphertextData& x, const ckks::CiphertextData& recorded, const std::string& name) {
  if (x.scale != recorded.scale)
    throw ScaleError(name + " must have the scale of the ciphertext that the program was recorded with");
}
void require_like(const exact::CiphertextData& x, const exact::CiphertextData& recorded, const std::string& name) {
  if (x.factors != recorded.factors)
    throw ScaleError(name + " must have the factor of the ciphertext that the program was recorded with");
  const bool same = x.packing == recorded.packing && x.width == recorded.width;
  // Padding slots must be zero if they were zero in the recording, because the program relies on them.
  const exact::Tail &behind = x.tails[0], &told = recorded.tails[0];
  const bool tail = told.kind() == exact::Tail::Kind::unknown || (told.is_zero() && behind.is_zero()) ||
                    (told.kind() == exact::Tail::Kind::even && behind.kind() == exact::Tail::Kind::even) ||
                    (x.shape() == recorded.shape() && told.kind() == behind.kind() && told.numbers() == behind.numbers());
  if (!same || !tail)
    throw MismatchError(name +
                        " must have the packing, width and padding of the ciphertext that the program was recorded with");
}

template <class Data>
using ContextOf = typename decltype(Data::context)::element_type;

template <class Data>
Given taken(const Scheme& scheme, const rlwe::KeyId& key, const program::limbs::Item& item, const Data& x,
            const Data* recorded) {
  const auto* const own = scheme.as<ContextOf<Data>>();
  require<MismatchError>(own != nullptr, "a ciphertext and the program's keys have different schemes");
  schemes::require_same(x, *own, key, "the program's keys");
  if (x.degree() != 1) throw ShapeError("the program needs ciphertexts of degree 1; relinearize " + item.name);
  if (tensor(x).primes().size() < item.level)
    throw LevelError(item.name + " is at level " + std::to_string(scheme.level_of(tensor(x).primes().size())) +
                     "; the program needs level " + std::to_string(scheme.level_of(item.level)) + " or a higher one");
  if (recorded) require_like(x, *recorded, item.name);
  Given g{.tensor = ring::to_domain(tensor(x), math::Domain::ntt)};
  if constexpr (std::is_same_v<Data, ckks::CiphertextData>) g.scale = x.scale, g.complex = x.complex;
  return g;
}

}  // namespace

Scheme::Scheme(const AnyKeys& keys) : Scheme(visited(keys, [](const Keys auto& k) { return Scheme(k.data().context); })) {}
Scheme::Scheme(const AnyCiphertext& x)
    : Scheme(visited(x, [](const Ciphertext auto& c) { return Scheme(c.data().context); })) {}
Scheme::Scheme(std::shared_ptr<exact::Context> context) : context_(context) {
  require<ParameterError>(context->rules().home() == math::Domain::ntt && context->parts() == 1, kWhose);
}

rlwe::Context& Scheme::rlwe() const { return *rlwe_shared(); }
const std::shared_ptr<rlwe::Context>& Scheme::rlwe_shared() const {
  return std::visit([](const auto& c) -> const std::shared_ptr<rlwe::Context>& { return c->rlwe_shared(); }, context_);
}
const std::shared_ptr<rlwe::Context>& Scheme::key_holder() const {
  return std::visit([](const auto& c) -> const std::shared_ptr<rlwe::Context>& { return c->key_holder()->rlwe_shared(); },
                    context_);
}
const std::shared_ptr<ckks::Context>& Scheme::ckks() const {
  static const std::shared_ptr<ckks::Context> none;
  const auto* const c = as<ckks::Context>();
  return c ? *c : none;
}

std::size_t Scheme::level_of(std::size_t limbs) const {
  const std::size_t most = ckks() ? ckks()->raised_level() : rlwe().top_level();
  std::size_t level = 1;
  while (level < most && rlwe().chain(level).size() < limbs) ++level;
  return level;
}

u64 Scheme::generator() const { return ckks() ? 5 : 3; }
u64 Scheme::rotation(std::int64_t steps) const {
  const auto row = static_cast<std::int64_t>(rlwe().parameters().n / 2);
  return math::pow_mod(generator(), static_cast<u64>((steps % row + row) % row), 2 * rlwe().parameters().n);
}
u64 Scheme::other() const { return 2 * rlwe().parameters().n - 1; }

const rlwe::EvaluationKeys& switch_keys(const AnyKeys& keys) {
  return *visited(keys, [](const Keys auto& k) { return &k.data().keys; });
}

const RnsTensor& tensor_of(const AnyCiphertext& x) {
  return *visited(x, [](const Ciphertext auto& c) { return &tensor(c.data()); });
}

Given given(const Scheme& scheme, const rlwe::KeyId& key, const program::limbs::Item& item, const AnyCiphertext& x,
            const AnyCiphertext* recorded) {
  return visited(x, [&]<Ciphertext C>(const C& c) {
    const C* const like = recorded ? std::get_if<C>(recorded) : nullptr;
    return taken(scheme, key, item, c.data(), like ? &like->data() : nullptr);
  });
}

Standing within(const AnyCiphertext& given, const AnyCiphertext& recorded, std::size_t item) {
  const auto* const a = std::get_if<ckks::Ciphertext>(&given);
  const auto* const b = std::get_if<ckks::Ciphertext>(&recorded);
  if (!a || !b) return {};
  const ckks::CiphertextData &x = a->data(), &like = b->data();
  const bool behind = like.tail.kind() == ckks::Tail::Kind::unknown || (like.tail.is_zero() && x.tail.is_zero());
  if (x.width != like.width || x.complex != like.complex || !behind) return {};
  const ckks::RangePair mine = x.ranges.merged(), its = like.ranges.at(item);
  const auto holds = [](double noise, double most, const ckks::Range& range, const ckks::Range& widest) {
    return noise <= most && range.inside(widest) && (!range.declared || widest.declared);
  };
  return {holds(x.noise.assumed, like.noise.assumed, mine.assumed, its.assumed),
          holds(x.noise.vouched, like.noise.vouched, mine.vouched, its.vouched)};
}

AnyCiphertext result(const AnyCiphertext& recorded, std::size_t item, const rlwe::KeyId& key, RnsTensor tensor, bool complex,
                     Standing standing) {
  if (const auto* const c = std::get_if<ckks::Ciphertext>(&recorded)) {
    ckks::CiphertextData x = c->data();
    const ckks::Packing packing = x.packing();
    const ckks::Tail tail = x.tail;
    x.key = key, x.tensor = std::move(tensor), x.width = x.context->period(), x.tail = {};
    x.complex = x.complex || complex;
    const auto kept = [&](const ckks::Range& range, bool stands) {
      return stands ? ckks::moved(range, packing, tail) : ckks::Range::unknown();
    };
    const ckks::RangePair said = x.ranges.at(item);
    x.ranges = ckks::Ranges({kept(said.vouched, standing.vouched), kept(said.assumed, standing.assumed)});
    x.noise =
        rlwe::Figure(standing.vouched ? x.noise.vouched : std::nan(""), standing.assumed ? x.noise.assumed : std::nan(""));
    x.seed = std::nullopt, x.fresh = false;
    return ckks::finish(std::move(x));
  }
  exact::CiphertextData x = exact::derived(std::get<exact::Ciphertext>(recorded).data());
  x.key = key, x.parts = {std::move(tensor)}, x.noise = {std::nan("")};
  x.vouched = x.independent = x.distinct = false;
  x.tails = {exact::Tail::unknown()};
  return exact::finish(std::move(x));
}

}  // namespace heliograph::cinnamon
