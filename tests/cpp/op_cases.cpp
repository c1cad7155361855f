#include "op_cases.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

namespace heliograph::test {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    elementwise_cases(all);
    transform_cases(all);
    conversion_cases(all);
    product_cases(all);
    composite_cases(all);
    transformed_cases(all);
    linear_cases(all);
    sums_cases(all);
    byte_cases(all);
    return all;
  }();
  return cases;
}

std::vector<std::string> contract_kernels() {
  std::vector<std::string> names;
  for (const char* name : device::kernel_names()) {
    // TFHE's kernels have their own tests (test_tfhe_kernels.cpp), because not all of their bits are defined.
    static const std::set<std::string> tfhe = {"combine", "lwe_key_switch", "bootstrap", "evaluate"};
    if (!tfhe.contains(name)) names.push_back(name);
  }
  return names;
}

Kind kind_in(const Field& field) { return &field == &kField32 || &field == &kField50 ? Kind::geometry : Kind::arithmetic; }

Results run_case(Target& target, const OpCase& c) {
  Rig rig(target);
  c.declare(rig)();
  return rig.results();
}

double time_case(Target& target, const OpCase& c, int repetitions) {
  Rig rig(target);
  const std::function<void()> call = c.declare(rig);
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    rig.queue().wait();
    const auto start = std::chrono::steady_clock::now();
    call();
    rig.queue().wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i > 0) seconds.push_back(taken.count());  // the first call warms up caches and tables
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[repetitions / 2];
}

Target open_target(const std::string& name) {
  const std::size_t mark = name.find(" x");
  setenv("HELIOGRAPH_THREADS", mark == std::string::npos ? "1" : name.c_str() + mark + 2, 1);
  return {name, device::open_device(name.substr(0, mark)), {}};
}

const std::vector<std::string>& target_names() {
  static const std::vector<std::string> names = {"cpu:scalar x1", "cpu:scalar x2", "cpu:avx2 x1", "cpu:avx2 x2",
                                                 "cpu:avx512 x1", "cpu:avx512 x2", "cuda"};
  return names;
}

namespace {

/// Returns whether a case's operands are slices of coefficients. Only a mesh makes calls on slices of coefficients, for its
/// members.
bool is_slice(const OpCase& c) {
  for (const char* word : {"slice of", "slices to", "windows"}) {
    if (c.name.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<const OpCase*> all_mesh_cases() {
  std::vector<const OpCase*> chosen;
  for (const OpCase& c : op_cases()) {
    if (!c.large && !is_slice(c)) chosen.push_back(&c);
  }
  return chosen;
}

std::vector<const OpCase*> mesh_cases(std::size_t mesh) {
  constexpr std::size_t kSample = 12;  // each mesh gets one in kSample of these cases
  std::vector<const OpCase*> chosen;
  std::map<std::string, std::size_t> arithmetic;  // for each kernel: its number of cases
  std::size_t number = mesh;
  for (const OpCase* c : all_mesh_cases()) {
    if (c->kind == Kind::arithmetic && arithmetic[c->kernel]++ % kSample != 0) continue;
    if (number++ % kShares == 0) chosen.push_back(c);
  }
  return chosen;
}

}  // namespace heliograph::test
