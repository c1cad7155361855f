// Secrets in memory: wiped when they are freed, and the lasting ones in pages that neither dumps nor, where the system lets
// this process lock memory, swap contain.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/checked.h"

namespace heliograph {

/// Zeros that no compiler leaves out.
void wipe(void* data, std::size_t bytes) noexcept;

/// Whole pages, zero at first: MADV_DONTDUMP, and locked where RLIMIT_MEMLOCK allows. Throws OutOfMemoryError.
void* allocate_secret(std::size_t bytes);
/// Wipes and returns what allocate_secret gave for as many bytes.
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
/// For many words: each has pages of its own.
template <class T>
using SecretVector = std::vector<T, SecretAllocator<T>>;

/// A value that is wiped when it goes, a seed on the stack say.
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

/// Wipes what lies there when it goes: for scratch on the stack and for members of larger things.
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

/// For the test that follows secrets through the code (tests/cpp/test_constant_time.cpp): `secret` is told of what is drawn,
/// `open` of what follows from secrets and is no secret, so that code may branch on it. Null, and nothing happens.
struct SecretMarks {
  void (*secret)(const void* data, std::size_t bytes) = nullptr;
  void (*open)(const void* data, std::size_t bytes) = nullptr;
};
inline constinit SecretMarks secret_marks;

inline void mark_secret(const void* data, std::size_t bytes) {
  if (secret_marks.secret) secret_marks.secret(data, bytes);
}
/// `value`, which may be known.
template <class T>
T declassified(T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (secret_marks.open) secret_marks.open(&value, sizeof value);
  return value;
}

}  // namespace heliograph
