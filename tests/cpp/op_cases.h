// Each kernel of the contract declared once, with its shapes, layouts and values. From a declaration come the comparison
// with `ref`, the rerun, the timing and the row of the support table.
#pragma once

#include "op_rig.h"

namespace heliograph::test {

/// What a case can catch that others do not.
enum class Kind {
  geometry,    // how operands lie: shapes, strides, aliases, batches, limbs, in one field a word
  arithmetic,  // what is computed of them: moduli, values, degrees
};
/// Of a case whose shapes are tested in every field.
Kind kind_in(const Field& field);

struct OpCase {
  std::string kernel;  // its name in device/call.h
  std::string name;
  Kind kind = Kind::arithmetic;
  bool large = false;  // of a degree that takes `ref` its time
  /// Makes the operands; what it returns enqueues the call and may be called again where the case has no in_out.
  std::function<std::function<void()>(Rig&)> declare;
};

/// All cases, by kernel.
const std::vector<OpCase>& op_cases();
/// The ring's kernels, of device/call.h.
std::vector<std::string> contract_kernels();

using Results = std::vector<std::vector<std::byte>>;
/// The outputs of a case on a device, with all that lies around them.
Results run_case(Target& target, const OpCase& c);
/// Median seconds of a call, operands in place.
double time_case(Target& target, const OpCase& c, int repetitions = 5);

/// A device by its name, "cpu:avx2 x2" being two threads of it. Throws ParameterError or DeviceError where this machine has
/// it not.
Target open_target(const std::string& name);
/// The names that are compared with `ref`.
const std::vector<std::string>& target_names();

// Parts of op_cases().
void elementwise_cases(std::vector<OpCase>& cases);
void transform_cases(std::vector<OpCase>& cases);
void conversion_cases(std::vector<OpCase>& cases);
void product_cases(std::vector<OpCase>& cases);
void composite_cases(std::vector<OpCase>& cases);
void transformed_cases(std::vector<OpCase>& cases);
void linear_cases(std::vector<OpCase>& cases);
void sums_cases(std::vector<OpCase>& cases);
void byte_cases(std::vector<OpCase>& cases);

/// The cases that a mesh is compared with, none of them large. It moves and splits what others compute, so they are those of
/// geometry and a sample of the rest, shared between meshes that are tested one after the other: of every kShares in sequence
/// each case meets one.
constexpr std::size_t kShares = 3;
std::vector<const OpCase*> mesh_cases(std::size_t mesh);
/// All but the large ones.
std::vector<const OpCase*> all_mesh_cases();

// What `ref` gives for every case, as digests in tests/data/ref_digests.txt.

/// Where results are those of `ref`: empty. Else what is wrong, for which `ref` is run.
std::string fault_in(const OpCase& c, const Results& results);
/// The names in the file, sorted: kernel/case.
std::vector<std::string> names_with_digests();
/// Runs `ref` on all cases and writes the file.
void write_digests();

}  // namespace heliograph::test
