// Each kernel of the contract declared once, with its shapes, layouts and values. From a declaration come the comparison
// with `ref`, the rerun, the timing and the row of the support table.
#pragma once

#include "op_rig.h"

namespace heliograph::test {

struct OpCase {
  std::string kernel;  // its name in device/call.h
  std::string name;
  bool large = false;  // too slow for a build with sanitizers
  /// Makes the operands; what it returns enqueues the call and may be called again where the case has no in_out.
  std::function<std::function<void()>(Rig&)> declare;
};

/// All cases, by kernel.
const std::vector<OpCase>& op_cases();
/// The ring's kernels, of device/call.h.
std::vector<std::string> contract_kernels();

/// The outputs of a case on a device, with all that lies around them.
std::vector<std::vector<std::byte>> run_case(Target& target, const OpCase& c);
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

/// What `ref` gives; made once a process.
const std::vector<std::vector<std::byte>>& results_of_ref(const OpCase& c);
/// Above backend/ nobody makes slices of coefficients: a mesh makes them itself, and is not given any.
bool is_slice(const OpCase& c);

}  // namespace heliograph::test
