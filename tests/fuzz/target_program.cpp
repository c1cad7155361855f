// Fuzz target for files of recorded programs, of every scheme. The target loads and calls each program, computes on the
// results, and saves and reloads them.
#include <cmath>
#include <cstring>

#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "heliograph/ckks.h"
#include "heliograph/program.h"
#include "heliograph/tfhe.h"
#include "scheme.h"
#include "tfhe_rig.h"

namespace heliograph::fuzz {

namespace {

using Results = std::vector<AnyCiphertext>;

template <class Spec>
Spec without_name(Spec spec) {
  spec.name.clear();
  return spec;
}

/// Writes a loaded program's result and reads it again.
template <class Ciphertext>
void read_back(const Ciphertext& x) {
  Bytes bytes;
  if (!attempt([&] { bytes = x.to_bytes(); })) return;
  expect(attempt([&] { Ciphertext::from_bytes(bytes); }), "a program's result cannot be read back");
}

struct CkksParty {
  static constexpr const char* kName = "program-ckks";
  ckks::Parameters parameters{ckks::make_spec(1024, 2, 26, 29, 1, 32, 4, true)};
  ckks::SecretKey secret = ckks::SecretKey::generate_for_test(parameters, std::string(32, 's'));
  ckks::EvaluationKeys keys = secret.evaluation_keys(true, {1, 2}, true);
  ckks::Ciphertext x = secret.encrypt(values(2)), y = secret.encrypt(values(2));
  Operands operands{{Operand{x, keys}, Operand{y, keys}}};

  static ckks::Values values(std::size_t items) {
    ckks::Values v{.shape = {items}, .width = 4};
    for (std::size_t i = 0; i < 4 * items; ++i) v.data.emplace_back(std::sin(static_cast<double>(i)), 0);
    return v;
  }
  std::vector<std::function<Results()>> functions() const {
    return {[this] {
              const auto product = ckks::multiply_rescale(x, y, keys);
              return Results{ckks::rotate(product, {1}, keys), ckks::add(x, y)};
            },
            [this] {
              return Results{ckks::inner_product(x, y, 0, 2, keys), ckks::conjugate(x, keys)};
            },
            [this] {
              return Results{ckks::multiply_constants(ckks::subtract(x, y), {.data = {1.5}, .shape = {}, .width = 1}),
                             ckks::sum(x, 0), ckks::negate(ckks::rotate(y, {1, 2}, keys))};
            },
            [this] {
              return Results{y, ckks::index(ckks::add(x, y), 0, 1)};
            }};
  }
  void use(const AnyCiphertext& result, std::size_t choice) const {
    const auto& z = std::get<ckks::Ciphertext>(result);
    attempt([&] { z.precision(), z.bytes(); });
    const std::vector<std::function<void()>> uses = {
        [&] { read_back(z); },
        [&] { secret.decrypt(z); },
        [&] { ckks::multiply_rescale(z, z, keys); },
        [&] { ckks::rotate(z, {1}, keys); },
    };
    use_one(uses, choice);
  }
};

template <bool bgv>
struct ExactParty {
  static constexpr const char* kName = bgv ? "program-bgv" : "program-bfv";
  static exact::Spec spec() {
    if (bgv) return bgv::make_spec(1024, 110, 1, {12289, 18433}, 64, 0, true);
    return bfv::make_spec(1024, 54, 1, {12289}, 32, 0, true);
  }
  exact::Parameters parameters{spec()};
  exact::SecretKey secret = exact::SecretKey::generate_for_test(parameters, std::string(32, 's'));
  exact::EvaluationKeys keys = secret.evaluation_keys(true, {1, 2}, true);
  exact::Ciphertext x = secret.encrypt(values(2), exact::Packing::slots),
                    y = secret.encrypt(values(2), exact::Packing::slots);
  Operands operands{{Operand{x, keys}, Operand{y, keys}}};

  static exact::Values values(std::size_t items) {
    exact::Values v{.shape = {items}, .width = 4};
    for (std::size_t i = 0; i < 4 * items; ++i) v.data.push_back(static_cast<std::int64_t>(i % 5));
    return v;
  }
  std::vector<std::function<Results()>> functions() const {
    return {[this] {
              const auto product = exact::multiply(x, y, &keys);
              return Results{exact::rotate_rows(product, {1}, keys), exact::add(x, y)};
            },
            [this] {
              return Results{exact::matmul({1, -2, 3, 4}, 2, 2, x, {3, 1}), exact::rotate_columns(y, keys),
                             exact::add_integers(x, {.data = {3}, .shape = {}, .width = 1}), exact::sum(x, 0)};
            },
            [this] { return Results{exact::add(x, y)}; }};
  }
  void use(const AnyCiphertext& result, std::size_t choice) const {
    const auto& z = std::get<exact::Ciphertext>(result);
    attempt([&] { z.noise_budget(), z.bytes(); });
    const std::vector<std::function<void()>> uses = {
        [&] { read_back(z); },
        [&] { secret.decrypt(z); },
        [&] { exact::multiply(z, z, &keys); },
        [&] { exact::rotate_rows(z, {1}, keys); },
    };
    use_one(uses, choice);
  }
};

struct TfheParty {
  static constexpr const char* kName = "program-tfhe";
  static tfhe::Spec spec() {
    tfhe::Spec s = without_name(test::small_tfhe());
    s.n = 4, s.message_bits = s.carry_bits = 1, s.norm = 5;
    return s;
  }
  tfhe::Parameters parameters{spec()};
  tfhe::SecretKey secret = tfhe::SecretKey::generate_for_test(parameters, std::string(32, 's'));
  tfhe::EvaluationKeys keys = secret.evaluation_keys();
  tfhe::Ciphertext x = secret.encrypt({200, 7}, {2}, tfhe::type_of("uint8")),
                   y = secret.encrypt({3, 9}, {2}, tfhe::type_of("uint8"));
  Operands operands{{Operand{x, keys}, Operand{y, keys}}};

  std::vector<std::function<Results()>> functions() const {
    return {[this] {
              return Results{tfhe::compute(keys, {.name = "less"}, {x, y}).at(0)};
            },
            [this] {
              return Results{tfhe::compute(keys, {.name = "add"}, {x, y}).at(0), tfhe::index(x, 0, 1)};
            },
            [this] { return Results{tfhe::index(x, 0, 1)}; }};
  }
  void use(const AnyCiphertext& result, std::size_t choice) const {
    const auto& z = std::get<tfhe::Ciphertext>(result);
    const std::vector<std::function<void()>> uses = {
        [&] { read_back(z); },
        [&] { secret.decrypt(z); },
        [&] { tfhe::compute(keys, {.name = "not"}, {z}); },
    };
    use_one(uses, choice);
  }
};

template <class Party>
struct Programs {
  // A quarter of the loaded programs is called, because a call takes ten times as long as loading. A third is rewritten.
  // In half of the calls, the results are used in slow operations.
  static constexpr std::size_t kChoices = 8, kRoundTrips = 3, kCalls = 4;

  static const Party& party() {
    static const Party made;
    return made;
  }
  static const std::vector<Bytes>& bases() {
    static const std::vector<Bytes> made = [] {
      std::vector<Bytes> all;
      for (const auto& function : party().functions())
        all.push_back(record(party().operands, function).first.to_bytes("note"));
      return all;
    }();
    return made;
  }
  static void run(std::span<const std::byte> input) {
    RecordedProgram program;
    const ProgramLimits limits{.memory = std::uint64_t{1} << 26, .products = 20'000'000};
    if (!attempt([&] { program = RecordedProgram::from_bytes(input, limits).first; })) return;
    attempt([&] { program.summary(), program.key_numbers(), program.result_kinds(); });
    Bytes again;
    if (choice(input, kRoundTrips) == 0 && attempt([&] { again = program.to_bytes(); }))
      expect(RecordedProgram::from_bytes(again, limits).first.to_bytes() == again,
             "a program that was read is written differently");
    const std::size_t chosen = choice(input, kCalls * kChoices);
    if (chosen % kCalls != 0 && !call_every_program) return;
    Results results;
    if (!attempt([&] { results = program(party().operands); })) return;
    for (std::size_t i = 0; i < results.size(); ++i) party().use(results[i], (chosen / kCalls + i) % kChoices);
  }
  static Target target() { return {Party::kName, run, bases, true}; }
};

}  // namespace

std::vector<Target> program_targets() {
  return {Programs<CkksParty>::target(), Programs<ExactParty<false>>::target(), Programs<ExactParty<true>>::target(),
          Programs<TfheParty>::target()};
}

}  // namespace heliograph::fuzz
