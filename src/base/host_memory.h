// How much memory this machine has.
#pragma once

#include <cstddef>

namespace heliograph {

std::size_t host_memory();
/// What can be had now: of the machine, within the limit of the process's control group.
std::size_t available_host_memory();

}  // namespace heliograph
