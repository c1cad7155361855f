// A build without MPI.
#include "heliograph/errors.h"
#include "mesh/transport/mpi.h"

namespace heliograph::mesh::mpi {

namespace {
[[noreturn]] void none() { throw InternalError("this build has no MPI"); }
}  // namespace

bool is_built() { return false; }
void start(const Seat&, std::chrono::milliseconds) { none(); }
std::string told(std::string, std::chrono::milliseconds) { none(); }
std::unique_ptr<Link> make_link(std::size_t, std::size_t, Link::Ear, std::chrono::milliseconds) { none(); }
void give_up() {}

}  // namespace heliograph::mesh::mpi
