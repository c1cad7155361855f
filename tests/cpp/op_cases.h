// Declarations of the contract's kernels with shapes, layouts and values. Each declaration gives the comparison with `ref`,
// the repeated run, the timing and the row of the support table.
#pragma once

#include "op_rig.h"

namespace heliograph::test {

/// The property of a call by which a case differs from the other cases of its kernel.
enum class Kind {
  geometry,    // layout of operands (shapes, strides, aliases, batches, limbs), with moduli of one size per word size
  arithmetic,  // values: moduli, residues, degrees
};
/// Returns the kind of the cases whose shapes are tested with moduli of every size.
Kind kind_in(const Field& field);

struct OpCase {
  std::string kernel;  // kernel name in device/call.h
  std::string name;
  Kind kind = Kind::arithmetic;
  bool large = false;  // the case's polynomial degree is slow on `ref`
  /// Makes the operands and returns a function that enqueues the call. The function can be repeated if the case has no
  /// in_out operand.
  std::function<std::function<void()>(Rig&)> declare;
};

/// Returns all cases, by kernel.
const std::vector<OpCase>& op_cases();
/// Returns the names of the ring's kernels in device/call.h.
std::vector<std::string> contract_kernels();

using Results = std::vector<std::vector<std::byte>>;
/// Returns the outputs of a case on a device, with the bytes around them in memory.
Results run_case(Target& target, const OpCase& c);
/// Returns the median duration of a call in seconds, with operands already on the device.
double time_case(Target& target, const OpCase& c, int repetitions = 5);

/// Opens a device by its name; "cpu:avx2 x2" means two threads. Throws ParameterError or DeviceError if this machine lacks
/// the device.
Target open_target(const std::string& name);
/// Returns the names of the devices that are compared with `ref`.
const std::vector<std::string>& target_names();

// Each function appends the cases of a group of kernels to op_cases().
void elementwise_cases(std::vector<OpCase>& cases);
void transform_cases(std::vector<OpCase>& cases);
void conversion_cases(std::vector<OpCase>& cases);
void product_cases(std::vector<OpCase>& cases);
void composite_cases(std::vector<OpCase>& cases);
void transformed_cases(std::vector<OpCase>& cases);
void linear_cases(std::vector<OpCase>& cases);
void sums_cases(std::vector<OpCase>& cases);
void byte_cases(std::vector<OpCase>& cases);

/// Returns the cases for a mesh, without large ones. A mesh is tested with all cases of kind geometry and a sample of the
/// others, because a mesh only moves and splits operands. Among kShares consecutive meshes, exactly one runs each case.
constexpr std::size_t kShares = 3;
std::vector<const OpCase*> mesh_cases(std::size_t mesh);
/// Returns all cases except the large ones.
std::vector<const OpCase*> all_mesh_cases();

// tests/data/ref_digests.txt has a digest of the result of `ref` for every case.

/// Returns "" if the results' digest is that of `ref`; otherwise runs `ref` and describes the difference.
std::string fault_in(const OpCase& c, const Results& results);
/// Returns the number of cases of each line of the file: a kernel and a word size.
std::map<std::string, std::size_t> cases_by_line();
/// Returns the number of digests of each line of the file.
std::map<std::string, std::size_t> digests_by_line();
/// Runs `ref` on all cases and writes the file.
void write_digests();

}  // namespace heliograph::test
