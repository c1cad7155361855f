#include "schemes/ckks/block_sum.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/progress.h"
#include "rlwe/transformed.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

using device::KeySwitchPlan;
using device::LinearPlan;
using device::View;

constexpr std::size_t kGiantsAtOnce = 8;                       // giant steps whose sums are decomposed together
constexpr std::size_t kSumBytes = std::size_t{1} << 31;        // memory of the sums of some outputs
constexpr std::size_t kTransformBytes = std::size_t{1} << 28;  // memory of transforms of stored plaintexts

/// Returns the number of diagonals per giant step with the least cost for all blocks. Baby steps are shared by the outputs
/// and giant steps by the inputs.
std::size_t best_baby(const Blocks& blocks, std::size_t inputs, std::size_t size) {
  const std::size_t outputs = blocks.size() / inputs;
  std::vector<std::set<std::size_t>> of_input(inputs), of_output(outputs);
  std::set<std::size_t> all;
  for (std::size_t at = 0; at < blocks.size(); ++at)
    for (const auto& [k, values] : blocks[at])
      all.insert(k), of_input[at % inputs].insert(k), of_output[at / inputs].insert(k);
  std::set<std::size_t> candidates = {size};
  for (std::size_t baby = 1; baby < size; baby *= 2) candidates.insert(baby);
  if (all.size() <= 64)
    for (auto it = all.begin(); it != all.end() && std::next(it) != all.end(); ++it) candidates.insert(*std::next(it) - *it);
  std::size_t best = size, least = 0;
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    const std::size_t baby = *it;
    std::size_t cost = 0;
    const auto count = [&](const std::set<std::size_t>& diagonals, auto step, std::size_t weight) {
      std::set<std::size_t> steps;
      for (const std::size_t k : diagonals) steps.insert(step(k));
      cost += weight * (steps.size() - steps.count(0));
    };
    for (const auto& diagonals : of_input)
      count(
          diagonals, [&](std::size_t k) { return k % baby; }, 1);
    for (const auto& diagonals : of_output)
      count(
          diagonals, [&](std::size_t k) { return k - k % baby; }, kGiantCost);
    if (it == candidates.rbegin() || cost < least) best = baby, least = cost;
  }
  return best;
}

/// Part of an input's terms that one call of baby steps computes.
struct Piece {
  std::size_t first, count;             // terms of the input
  std::vector<std::size_t> targets;     // targets of the whole sum, ascending
  std::vector<std::size_t> babies;      // baby steps of the input, ascending
  std::vector<LinearPlan::Term> terms;  // terms over `targets` and `babies`
};

Piece piece_of(const BlockSum::Input& input, std::size_t first, std::size_t count) {
  Piece piece{.first = first, .count = count, .targets = {}, .babies = {}, .terms = {}};
  std::set<std::size_t> babies;
  for (std::size_t t = first; t < first + count; ++t) {
    babies.insert(input.terms[t].baby);
    if (piece.targets.empty() || piece.targets.back() != input.terms[t].target)
      piece.targets.push_back(input.terms[t].target);
  }
  piece.babies.assign(babies.begin(), babies.end());
  const auto place_in = [](const std::vector<std::size_t>& all, std::size_t value) {
    return static_cast<math::u32>(std::lower_bound(all.begin(), all.end(), value) - all.begin());
  };
  for (std::size_t t = first; t < first + count; ++t)
    piece.terms.push_back({place_in(piece.targets, input.terms[t].target), place_in(piece.babies, input.terms[t].baby)});
  return piece;
}

/// Evaluates a block sum for some items. Sums of targets are added as soon as one input's baby steps are computed.
class Evaluation {
 public:
  Evaluation(const BlockSum& sum, const EvaluationKeys& keys)
      : sum_(sum),
        c_(*sum.context),
        e_(c_.engine()),
        keys_(keys),
        key_level_(key_level_of(sum, keys)),
        plan_(c_.switch_plan(key_level_, sum.level, sum.level - 1)),
        mod_down_(c_.mod_down(key_level_, sum.level)) {}

  /// x: [inputs, items]; out: [outputs, items].
  void run(const RnsTensor& x, const RnsTensor& out) {
    ProgressSteps steps(static_cast<double>(sum_.outputs));
    for (std::size_t first = 0, end = 0; first < sum_.outputs; first = end) {
      const std::size_t begin = target_of(first);
      const std::size_t most = std::max<std::size_t>(1, kSumBytes / (x.view().shape[1] * 2 * bytes(1)));
      for (end = first + 1; end < sum_.outputs && target_of(end + 1) - begin <= most;) ++end;
      steps.part(static_cast<double>(end - first), [&] { outputs(x, out, first, end); });
    }
  }
  /// Returns the bytes that the evaluation takes for one item.
  std::size_t bytes_of_item() const {
    const std::size_t rows = std::min(sum_.targets.size(), std::max<std::size_t>(1, kSumBytes / (2 * bytes(1))));
    return checked_sum(bytes(4 * rows), bytes((kGiantsAtOnce + 1) * (plan_->digits.size() + 1)), bytes(2));
  }

 private:
  std::size_t bytes(std::size_t polynomials) const {
    return checked_mul(polynomials, c_.rlwe().polynomial_bytes(plan_->extended.size()));
  }
  /// Returns the first target of an output; the number of targets behind the last output.
  std::size_t target_of(std::size_t output) const {
    return static_cast<std::size_t>(std::lower_bound(sum_.targets.begin(), sum_.targets.end(), output,
                                                     [](const BlockSum::Target& t, std::size_t o) { return t.output < o; }) -
                                    sum_.targets.begin());
  }
  RnsTensor room(std::size_t items, std::size_t components, const device::PrimeList& primes) const {
    return RnsTensor(c_.rlwe().engine(), {items}, components, primes, Domain::ntt);
  }
  const rlwe::SwitchKey& key_of(std::int64_t rotation) const {
    return rotation_key(keys_, c_.galois(rotation), rotation, key_level_, sum_.level);
  }
  device::PermutationHandle turn_of(std::int64_t rotation) const {
    return rotation == 0 ? nullptr : e_.automorphism(c_.galois(rotation), Domain::ntt);
  }

  void outputs(const RnsTensor& x, const RnsTensor& out, std::size_t first, std::size_t end) {
    const std::size_t items = x.view().shape[1];
    begin_ = target_of(first);
    const std::size_t rows = target_of(end) - begin_;
    const RnsTensor sums = room(rows * items, 2, plan_->extended);
    written_.assign(rows, false);
    for (std::size_t i = 0; i < sum_.inputs.size(); ++i) {
      const BlockSum::Input& input = sum_.inputs[i];
      const auto before = [](const BlockSum::Term& t, std::size_t target) { return t.target < target; };
      const auto from = std::lower_bound(input.terms.begin(), input.terms.end(), begin_, before);
      const auto to = std::lower_bound(from, input.terms.end(), begin_ + rows, before);
      if (from == to) continue;
      add_input(input, x.drop_axis(0, i), static_cast<std::size_t>(from - input.terms.begin()),
                static_cast<std::size_t>(to - from), sums);
      ProgressSteps(1).add();  // a cancellation point
    }
    for (std::size_t o = first; o < end; ++o) finish(o, sums, out.drop_axis(0, o));
  }

  /// Adds the terms [first, first + count) of an input to the sums.
  void add_input(const BlockSum::Input& input, const RnsTensor& x, std::size_t first, std::size_t count,
                 const RnsTensor& sums) {
    const bool turns = std::any_of(input.babies.begin(), input.babies.end(), [](std::int64_t b) { return b != 0; });
    const RnsTensor digits = room(x.items(), plan_->digits.size(), plan_->extended);
    if (turns) {
      const RnsTensor low = room(x.items(), 1, plan_->chain);
      e_.enqueue(device::InverseNtt{e_.prepared(), plan_->chain, x.with_components(1, 1).view(), low.view()});
      e_.enqueue(device::Decompose{plan_, low.view(), digits.view()});
    }
    const std::size_t most = input.plaintexts.stored ? std::max<std::size_t>(1, kTransformBytes / bytes(1)) : count;
    for (std::size_t at = first; at < first + count; at += most) {
      const Piece piece = piece_of(input, at, std::min(most, first + count - at));
      const RnsTensor plaintexts = transformed_terms(c_, input.plaintexts, plan_->extended, piece.first, piece.count);
      add_piece(input, piece, x, digits, plaintexts, sums);
    }
  }

  void add_piece(const BlockSum::Input& input, const Piece& piece, const RnsTensor& x, const RnsTensor& digits,
                 const RnsTensor& plaintexts, const RnsTensor& sums) {
    const std::size_t items = x.items(), count = piece.targets.size(), row = piece.targets.front() - begin_;
    const auto rows = [&](const View& all, std::size_t at, std::size_t some) {
      return all.with_leading(at * items, some * items);
    };
    const bool together = piece.targets.back() - piece.targets.front() + 1 == count;
    const bool fresh =
        together && std::none_of(written_.begin() + static_cast<std::ptrdiff_t>(row),
                                 written_.begin() + static_cast<std::ptrdiff_t>(row + count), [](bool w) { return w; });
    const RnsTensor own = fresh ? RnsTensor() : room(count * items, 2, plan_->extended);
    const View to = fresh ? rows(sums.view(), row, count) : own.view();
    baby_steps(input, piece, x, digits, plaintexts, to);
    for (std::size_t i = 0, run = 0; i < count; i += run) {
      const std::size_t at = piece.targets[i] - begin_;
      const bool adds = written_[at];
      for (run = 0; i + run < count && piece.targets[i + run] - begin_ == at + run && written_[at + run] == adds;) ++run;
      std::fill_n(written_.begin() + static_cast<std::ptrdiff_t>(at), run, true);
      if (fresh) continue;
      const View from = rows(own.view(), i, run), target = rows(sums.view(), at, run);
      if (adds)
        e_.enqueue(device::Add{e_.prepared(), plan_->extended, target, from, target});
      else
        e_.enqueue(device::Copy{from, target});
    }
  }

  void baby_steps(const BlockSum::Input& input, const Piece& piece, const RnsTensor& x, const RnsTensor& digits,
                  const RnsTensor& plaintexts, const View& to) {
    std::vector<RnsTensor> pairs;  // keeps the keys on the device during the call
    device::BabySteps call{.ring = e_.prepared(),
                           .primes = plan_->extended,
                           .turns = {},
                           .terms = piece.terms,
                           .weight = plan_->weight,
                           .x = x.view(),
                           .digits = digits.view(),
                           .keys = {},
                           .key_limbs = plan_->key_limbs,
                           .plaintexts = plaintexts.view(),
                           .sums = to,
                           .scratch = {}};
    for (const std::size_t b : piece.babies) {
      const std::int64_t rotation = input.babies[b];
      call.turns.push_back(turn_of(rotation));
      if (rotation == 0) continue;
      pairs.push_back(key_of(rotation).pairs());
      call.keys.push_back(pairs.back().view());
    }
    e_.enqueue(std::move(call));
  }

  /// Switches the giant steps of an output, adds them and divides. Overwrites the output's sums.
  void finish(std::size_t output, const RnsTensor& sums, const RnsTensor& out) {
    const std::size_t items = out.items(), chain = plan_->chain.size(), special = plan_->special.size();
    const std::size_t first = target_of(output), end = target_of(output + 1);
    const auto rows = [&](std::size_t from, std::size_t count) {
      return sums.view().with_leading((from - begin_) * items, count * items);
    };
    const bool has_identity = sum_.targets[first].giant == 0;
    const RnsTensor own = has_identity ? RnsTensor() : room(items, 2, plan_->extended);
    const View total = has_identity ? rows(first, 1) : own.view();
    if (!has_identity) e_.enqueue(device::Zero{total});
    const std::size_t most = std::min(kGiantsAtOnce, end - first);
    const RnsTensor low = room(most * items, 1, plan_->chain),
                    digits = room(most * items, plan_->digits.size(), plan_->extended);
    for (std::size_t t = first + (has_identity ? 1 : 0); t < end; t += kGiantsAtOnce) {
      const std::size_t count = std::min(kGiantsAtOnce, end - t);
      const View batch = rows(t, count), mask = batch.with_components(1, 1);
      const View up = digits.view().with_leading(0, count * items);
      e_.enqueue(device::InverseNtt{e_.prepared(), plan_->extended, mask, mask});
      View small = mask;
      if (mod_down_) {
        small = low.view().with_leading(0, count * items);
        e_.enqueue(device::Convert{mod_down_, mask.with_limbs(chain, special), mask.with_limbs(0, chain), small});
      }
      e_.enqueue(device::Decompose{plan_, small, up});
      std::vector<RnsTensor> pairs;
      device::GiantSteps call{.ring = e_.prepared(),
                              .primes = plan_->extended,
                              .turns = {},
                              .sums = batch.with_components(0, 1),
                              .digits = up,
                              .keys = {},
                              .key_limbs = plan_->key_limbs,
                              .total = total,
                              .scratch = {}};
      for (std::size_t i = t; i < t + count; ++i) {
        call.turns.push_back(turn_of(sum_.targets[i].giant));
        pairs.push_back(key_of(sum_.targets[i].giant).pairs());
        call.keys.push_back(pairs.back().view());
      }
      e_.enqueue(std::move(call));
    }
    e_.enqueue(device::Divide{device::division_of(plan_), total, out.view(), {}});
  }

  const BlockSum& sum_;
  Context& c_;
  ring::Engine& e_;
  const EvaluationKeys& keys_;
  const std::size_t key_level_;
  std::shared_ptr<const KeySwitchPlan> plan_;
  std::shared_ptr<const device::ConversionConstant> mod_down_;
  std::size_t begin_ = 0;      // first target of the present outputs
  std::vector<bool> written_;  // whether a sum has words, for each target of the present outputs
};

}  // namespace

std::vector<std::int64_t> BlockSum::rotations() const {
  std::set<std::int64_t> steps;
  for (const Input& input : inputs) steps.insert(input.babies.begin(), input.babies.end());
  for (const Target& target : targets) steps.insert(target.giant);
  steps.erase(0);
  return {steps.begin(), steps.end()};
}

std::size_t BlockSum::bytes() const {
  std::size_t sum = 0;
  for (const Input& input : inputs)
    if (!input.plaintexts.words.empty()) sum += input.plaintexts.words.bytes();
  return sum;
}

BlockSum block_sum_of(Context& context, const Blocks& blocks, std::size_t inputs, std::size_t size, std::size_t level,
                      std::size_t baby, bool store) {
  require<InternalError>(inputs > 0 && blocks.size() % inputs == 0, "a matrix of blocks must be rectangular");
  BlockSum sum{.context = &context, .level = level, .outputs = blocks.size() / inputs, .targets = {}, .inputs = {}};
  if (baby == 0) baby = best_baby(blocks, inputs, size);
  const auto giant_of = [&](std::size_t k) { return static_cast<std::int64_t>(k - k % baby); };
  std::set<BlockSum::Target> targets;
  for (std::size_t at = 0; at < blocks.size(); ++at)
    for (const auto& [k, values] : blocks[at]) targets.insert({at / inputs, giant_of(k)});
  sum.targets.assign(targets.begin(), targets.end());
  std::size_t repeated = 0;
  for (const DiagonalViews& block : blocks) {
    if (block.empty()) continue;
    const std::size_t own = repeated_width(block, size);
    repeated = own ? std::max(repeated, own) : size;
  }
  if (repeated >= size) repeated = 0;
  const std::size_t width = repeated ? repeated : std::max(context.period(), size);
  const device::PrimeList primes = context.rlwe().ntt_switch_plan(level, level - 1)->extended;
  for (std::size_t i = 0; i < inputs; ++i) {
    BlockSum::Input input;
    std::set<std::int64_t> babies;
    std::vector<PlacedDiagonal> diagonals;
    bool complex = false;
    for (std::size_t o = 0; o < sum.outputs; ++o) {
      const DiagonalViews& block = blocks[o * inputs + i];
      complex = complex || any_complex(block);
      for (const auto& [k, values] : block) babies.insert(static_cast<std::int64_t>(k % baby));
    }
    input.babies.assign(babies.begin(), babies.end());
    const auto place_in = [](const auto& all, const auto& value) {
      return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), value) - all.begin());
    };
    for (std::size_t o = 0; o < sum.outputs; ++o) {
      for (const auto& [k, values] : blocks[o * inputs + i]) {  // ascending giant steps, then ascending baby steps
        const BlockSum::Target target{o, giant_of(k)};
        input.terms.push_back({place_in(sum.targets, target), place_in(input.babies, static_cast<std::int64_t>(k % baby))});
        diagonals.push_back({&values, static_cast<std::size_t>(target.giant)});
      }
    }
    if (!input.terms.empty()) {
      input.plaintexts = encode_terms(
          context, level, context.period(), primes, input.terms.size(),
          [&](std::size_t first, std::size_t count) {
            return turned_back(diagonals.data() + first, count, size, width, complex);
          },
          store, repeated > 0);
      sum.complex = sum.complex || input.plaintexts.complex;
    }
    sum.inputs.push_back(std::move(input));
  }
  return sum;
}

/// An automatic choice keeps transforms of at most this many bytes, so that it does not follow small changes of free memory.
constexpr std::size_t kAlwaysTransforms = std::size_t{256} << 20;

bool stores(Context& c, std::size_t terms, std::size_t level, Storage storage) {
  if (storage != Storage::automatic) return storage == Storage::coefficients;
  const std::size_t limbs = c.rlwe().ntt_switch_plan(level, level - 1)->extended.size();
  const std::size_t bytes = checked_mul(terms, c.rlwe().polynomial_bytes(limbs));
  if (bytes <= kAlwaysTransforms) return false;
  return checked_add(bytes, c.engine().device().memory().total / 2) > c.engine().free_memory();
}

RnsTensor apply(const BlockSum& sum, const RnsTensor& x, const EvaluationKeys& keys) {
  Context& c = *sum.context;
  const std::size_t key_level = key_level_of(sum, keys);
  for (const std::int64_t r : sum.rotations()) rotation_key(keys, c.galois(r), r, key_level, sum.level);
  const std::size_t items = x.view().shape[1];
  const RnsTensor out(c.rlwe().engine(), {sum.outputs, items}, 2, c.rlwe().chain(sum.level - 1), Domain::ntt);
  if (items == 0) return out;
  Evaluation evaluation(sum, keys);
  const std::size_t most = std::max<std::size_t>(1, c.engine().items_at_once(evaluation.bytes_of_item(), items));
  ProgressSteps steps(static_cast<double>(items));
  for (std::size_t first = 0; first < items; first += most) {
    const std::size_t some = std::min(most, items - first);
    steps.part(static_cast<double>(some), [&] { evaluation.run(x.slice(1, first, 1, some), out.slice(1, first, 1, some)); });
  }
  return out;
}

std::size_t key_level_of(const BlockSum& sum, const EvaluationKeys& keys) {
  std::vector<u64> galois;
  for (const std::int64_t r : sum.rotations()) galois.push_back(sum.context->galois(r));
  return key_level_of(keys, galois, sum.level);
}

std::vector<rlwe::Figure> noise_of(const BlockSum& sum, const rlwe::Figure& noise, const rlwe::Figure& values,
                                   std::size_t key_level) {
  const Context& c = *sum.context;
  const double rounding = c.noise().rounding(), product = c.key_product_noise(sum.level, key_level),
               scale = c.scale(sum.level);
  const rlwe::Figure turned = rlwe::log2_sum(noise, product);
  std::vector<rlwe::Figure> all(sum.outputs, rlwe::Figure(-1e9));
  for (const BlockSum::Input& input : sum.inputs) {
    for (std::size_t t = 0; t < input.terms.size(); ++t) {
      rlwe::Figure& to = all[sum.targets[input.terms[t].target].output];
      const double norm = rlwe::log2_sum(input.plaintexts.bounds[t] + std::log2(scale), rounding);
      const rlwe::Figure& from = input.babies[input.terms[t].baby] != 0 ? turned : noise;
      to = rlwe::log2_sum(to, rlwe::log2_sum(from + norm, values + rounding));
    }
  }
  // A giant step that rotates divides the second component by P, with rounding, and switches its key.
  std::vector<double> giants(sum.outputs);
  for (const BlockSum::Target& t : sum.targets) giants[t.output] += t.giant != 0 ? 1 : 0;
  for (std::size_t o = 0; o < sum.outputs; ++o)
    if (giants[o] > 0) all[o] = rlwe::log2_sum(all[o], c.key_switch_noise(sum.level, key_level) + std::log2(giants[o]));
  return all;
}

}  // namespace heliograph::ckks
