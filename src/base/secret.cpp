#include "base/secret.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/checked.h"
#include "base/sizes.h"

namespace heliograph {

namespace {

std::size_t whole_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return checked_mul(checked_add(bytes, page - 1) / page, page);
}

}  // namespace

void wipe(void* data, std::size_t bytes) noexcept {
  if (bytes > 0) ::explicit_bzero(data, bytes);
}

void* allocate_secret(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes > 0 ? bytes : 1);
  void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes) + " for a secret: too little memory");
  // Errors of madvise and mlock are ignored, because a process without privileges may lock only up to its limit.
  ::madvise(address, size, MADV_DONTDUMP);
  ::mlock(address, size);
  return address;
}

void free_secret(void* address, std::size_t bytes) noexcept {
  const std::size_t size = whole_pages(bytes > 0 ? bytes : 1);
  wipe(address, bytes);
  ::munmap(address, size);  // munmap also unlocks the pages
}

}  // namespace heliograph
