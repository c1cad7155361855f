// Memory for secrets, wiped when it is freed. Secrets with a long lifetime are in pages that are excluded from core dumps
// and, if the system permits locking, from swap.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/checked.h"

namespace heliograph {

/// Overwrites memory with zeros; the compiler must not remove this.
void wipe(void* data, std::size_t bytes) noexcept;

/// Returns zeroed whole pages with MADV_DONTDUMP, locked if RLIMIT_MEMLOCK permits. Throws OutOfMemoryError.
void* allocate_secret(std::size_t bytes);
/// Wipes and frees the pages that allocate_secret returned for this number of bytes.
void free_secret(void* address, std::size_t bytes) noexcept;

template <class T>
struct SecretAllocator {
  using value_type = T;
  SecretAllocator() = default;
  template <class U>
  SecretAllocator(const SecretAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_secret(checked_mul(count, sizeof(T)))); }
  void deallocate(T* address, std::size_t count) noexcept { free_secret(address, count * sizeof(T)); }
  bool operator==(const SecretAllocator&) const = default;
};
/// Allocator for long arrays of secrets: each array has its own pages.
template <class T>
using SecretVector = std::vector<T, SecretAllocator<T>>;

/// A value that is wiped on destruction, such as a seed on the stack.
template <class T>
class Secret {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Secret() : value_{} {}
  explicit Secret(const T& value) : value_(value) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { wipe(&value_, sizeof value_); }
  operator const T&() const { return value_; }
  T& get() { return value_; }

 private:
  T value_;
};

/// Wipes an object when this guard is destroyed; for scratch on the stack and for members.
class WipeAtEnd {
 public:
  template <class T>
  explicit WipeAtEnd(T& value) : data_(&value), bytes_(sizeof value) {
    static_assert(std::is_trivially_copyable_v<T>);
  }
  WipeAtEnd(const WipeAtEnd&) = delete;
  WipeAtEnd& operator=(const WipeAtEnd&) = delete;
  ~WipeAtEnd() { wipe(data_, bytes_); }

 private:
  void* data_;
  std::size_t bytes_;
};

/// Hooks for the test that tracks secrets through the code (tests/cpp/test_constant_time.cpp); null outside that test.
/// `secret` marks drawn data. `open` marks data that was derived from secrets and on which code may branch.
struct SecretMarks {
  void (*secret)(const void* data, std::size_t bytes) = nullptr;
  void (*open)(const void* data, std::size_t bytes) = nullptr;
};
inline constinit SecretMarks secret_marks;

inline void mark_secret(const void* data, std::size_t bytes) {
  if (secret_marks.secret) secret_marks.secret(data, bytes);
}
/// Returns `value`, marked as public for the test.
template <class T>
T declassified(T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (secret_marks.open) secret_marks.open(&value, sizeof value);
  return value;
}

}  // namespace heliograph
