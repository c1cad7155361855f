// Fuzz target for Cinnamon programs: parses any text, and runs the programs that the parser accepts.
#include "heliograph/cinnamon.h"

#include <cmath>
#include <string_view>

#include "targets.h"

namespace heliograph::fuzz {

namespace {

using cinnamon::Files;
using cinnamon::Program;

/// Splits the input into files; each file begins with a line "=== name".
Files split(std::span<const std::byte> input) {
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  constexpr std::string_view mark = "=== ";
  Files files;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(mark)) {
      files.emplace_back(line.substr(mark.size()), "");
    } else if (!files.empty()) {
      files.back().second.append(line).append("\n");
    }
  }
  return files;
}

struct Owner {
  ckks::Parameters parameters = ckks::Parameters(ckks::make_spec(1024, 4, 27.8, 30, 2, 32, 0, true)).on_device("ref");
  ckks::SecretKey secret = ckks::SecretKey::generate_for_test(parameters, std::string(32, 's'));
  ckks::EvaluationKeys none = secret.evaluation_keys(false, {}, false);
};

ckks::Values some() { return {.data = {0.5, -0.25, 1.0}, .width = 3}; }

/// Runs the program on inputs with the names and levels that the program declares.
void use(const Program& program) {
  static const Owner owner;
  cinnamon::Constants constants{.tolerance = 1e300};
  std::map<std::string, AnyCiphertext> inputs;
  for (const cinnamon::Item& i : program.inputs()) {
    if (i.kind == cinnamon::Item::Kind::plaintext) constants.values.emplace(i.name, some());
    if (i.kind == cinnamon::Item::Kind::scalar) constants.scalars.emplace(i.name, 0.5);
    if (i.kind == cinnamon::Item::Kind::ciphertext) inputs.emplace(i.name, owner.secret.encrypt(some(), i.level));
  }
  attempt([&] { program.scales(owner.parameters, {}, constants.tolerance); });
  const cinnamon::Runner runner(program, program.keys(owner.secret, owner.none), constants);
  for (const auto& [name, result] : runner(inputs)) {
    const auto& tensor = std::get<ckks::Ciphertext>(result);
    tensor.to_bytes();
    expect(tensor.scale() >= 1 && std::isfinite(tensor.scale()), "a result has a scale that no ciphertext can have");
    expect(!(tensor.precision() > 60), "a result promises more precision than its error allows");
    attempt([&] { owner.secret.decrypt(tensor, ckks::Checked::none); });
    attempt([&] { owner.secret.decrypt(tensor, ckks::Checked::proof); });
  }
}

void run_program(std::span<const std::byte> input) {
  Files files = split(input);
  std::optional<Program> program;
  if (!attempt([&] { program = Program::parse(files); })) return;
  const Files printed = program->files();
  const Program again = Program::parse(printed);
  expect(again.files() == printed, "a printed program is parsed as another program");
  expect(again.instructions() == program->instructions(), "a printed program has other instructions than the parsed one");
  if (choice(input, 4) == 0) attempt([&] { use(*program); });
}

constexpr std::string_view kSum = R"(=== instructions0
Instruction Stream 0:
load r0: i1(0){F}
load r1: p2(0){F}
add r2: r0[X], r1[X] | 0
loas s0: s3(0){F}
ads r3: r2[X], s0[X] | 0
store r3[X]: v4(0)
=== inputs0
Input Stream:
i1 | x:c0 | [0]
p2 | w:p | [0]
s3 | one:s | [0]
;
Output Stream:
v4 | y:c0 | [0]
;
=== program_inputs
Ciphertext Stream:
i1 | x:c0 | [0]
;
Plaintext Stream:
p2 | w:p | [0]
;
Scalar Stream:
s3 | one:s | [0]
;
Output Stream:
v4 | y:c0 | [0]
;
Evalkey Stream:
;
)";

/// Sample program: a key switch on two chips with a rescaling, and a base conversion in a group of registers.
constexpr std::string_view kSwitch = R"(=== instructions0
Instruction Stream 0:
load r0: i1(0)
int r1: r0 | 0
dis @ 1:2 : r1
rcv @ 2:2 r2: 
bci B0: [63], [0,1]
bcw B0: r1 | 0
bcw B0: r2 | 1
ntt r3: b0{0} | 63
load r4: k3(63){F}
mul r5: r3, r4[X] | 63
load r6: k4(0){F}
mul r7: r0, r6[X] | 0
bci B1: [0], [63]
pl1 B1: r5[X] | 63
sud r8: r7[X], b1{0} | 0
rcv @ 3:2 r9: 
mul r33: r8, r8[X] | 0
sud r10: r33[X], r9[X] | 0
rsi {r20, r21}
rsv {r20, r21}: r1[X]: [0,1] | 0
rsv {r20, r21}: r2[X]: [0,1] | 1
mod r22: {r20, r21} | 63
mod r23: {r20[X], r21[X]} | 0
ntt r24: r23[X] | 0
add r25: r24, r24[X] | 0
joi @ 4:2 r26: r25[X] | 0
spill r26[X]: t9(0)
load r27: t9(0){F}
sub r28: r10[X], r27[X] | 0
store r28[X]: v7(0)
con r29: r0 | 0
rot -1 r30: r29[X] | 0
neg r31: r30[X] | 0
mov r32: r31[X] | 0
store r32[X]: v8(0)
=== instructions1
Instruction Stream 1:
load r0: i1(1){F}
int r1: r0 | 1
rcv @ 1:2 r2: 
dis @ 2:2 : r1[X]
int r3: r0[X] | 1
dis @ 3:2 : r3[X]
load r4: i1(0){F}
joi @ 4:2 : r4[X] | 0
nop
=== inputs0
Input Stream:
i1 | x:c0 | [0]
k3 | K:0:2:1:0:c0:[0,1] | [63]
k4 | K:0:2:1:0:c0:[0,1] | [0]
;
Output Stream:
v7 | y:c0 | [0]
v8 | y:c1 | [0]
;
=== inputs1
Input Stream:
i1 | x:c0 | [0,1]
;
Output Stream:
;
=== program_inputs
Ciphertext Stream:
i1 | x:c0 | [0,1]
;
Plaintext Stream:
;
Scalar Stream:
;
Output Stream:
v7 | y:c0 | [0]
v8 | y:c1 | [0]
;
Evalkey Stream:
k3 | K:0:2:1:0:c0:[0,1] | [63]
k4 | K:0:2:1:0:c0:[0,1] | [0]
;
)";

/// Sample program: x w + x with one limb less, whose scales follow from the sum, and a product with scalars. Two chips each
/// store a part of the second component of y.
constexpr std::string_view kParts = R"(=== instructions0
Instruction Stream 0:
load r0: i1(0)
load r1: i1(1)
load r2: p3(0){F}
load r3: p3(1){F}
mup r4: r0, r2 | 0
mup r5: r1, r3 | 1
int r6: r5[X] | 1
sud r7: r4[X], r6[X] | 0
add r8: r7[X], r0 | 0
store r8[X]: v7(0)
load r9: i2(0)
load r10: i2(1)
mup r11: r9, r2[X] | 0
mup r12: r10[X], r3[X] | 1
int r13: r12[X] | 1
sud r14: r11[X], r13[X] | 0
store r14[X]: v8(0)
=== instructions1
Instruction Stream 1:
load r9: i2(0){F}
store r9[X]: v9(0)
=== inputs0
Input Stream:
i1 | x:c0 | [0,1]
i2 | x:c1 | [0,1]
p3 | w:p | [0,1]
;
Output Stream:
v7 | y:c0 | [0]
v8 | y:c1 | [0]
;
=== inputs1
Input Stream:
i2 | x:c1 | [0]
;
Output Stream:
v9 | y:c1 | [0]
;
=== program_inputs
Ciphertext Stream:
i1 | x:c0 | [0,1]
i2 | x:c1 | [0,1]
;
Plaintext Stream:
p3 | w:p | [0,1]
;
Scalar Stream:
;
Output Stream:
v7 | y:c0 | [0]
v8 | y:c1 | [0]
v9 | y:c1 | [0]
;
Evalkey Stream:
;
)";

const std::vector<Bytes>& bases() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> made;
    for (const std::string_view text : {kSum, kSwitch, kParts}) {
      const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
      made.emplace_back(bytes.begin(), bytes.end());
      expect(attempt([&] { use(Program::parse(split(made.back()))); }), "a sample program does not run");
    }
    return made;
  }();
  return all;
}

}  // namespace

std::vector<Target> cinnamon_targets() { return {{"cinnamon", run_program, bases, false}}; }

}  // namespace heliograph::fuzz
