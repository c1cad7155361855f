// Pending work of a card: a list of steps on values. A value is a limb, or a piece of a limb, and is written once. Memory is
// a map from addresses to values. So a copy only adds an address, and a value that is not read again need not be stored.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "backend/rtl/descriptors.h"
#include "device/view.h"

namespace heliograph::backend::rtl {

using heliograph::rtl::Descriptor;
using heliograph::rtl::Op;
using math::u32;
using math::u64;

using Value = u32;
inline constexpr Value kNoValue = ~Value{0};

/// Data that a unit needs besides slots: a table of twiddles or a set of constants. The data's address in the card's memory
/// identifies them.
struct Resource {
  u64 address = 0;
  u32 beats = 0;
  int log_n = 0;
  device::Buffer words = nullptr;  // keeps the words alive until the step has run
};

struct Step {
  Op op;
  Descriptor words;            // all fields except slots, tables and sets
  std::vector<Value> in, out;  // operands a, b, c of an element-wise step; kNoValue if missing
  Resource resource = {};
};

/// Origin of a value that is not the result of a step.
struct Origin {
  int log_n = 0;
  std::optional<u64> address;  // the memory that holds the value after the first `since` steps
  std::size_t since = 0;
};

class List {
 public:
  /// Returns the value of 2^log_n words at an address.
  Value read(u64 address, int log_n);
  /// Writes `value` to the 2^log_n words at an address.
  void write(u64 address, int log_n, Value value);
  /// Returns a new value, the result of a later step.
  Value fresh(int log_n);
  void add(Step step);
  /// Declares that the current contents of the memory will not be read any more.
  void release(u64 address, u64 bytes);
  /// Writes like `write`, but also stores the value if the memory is released; used for wiping.
  void wipe(u64 address, int log_n, Value value);

  bool empty() const { return dirty_ == 0 && lasting_.empty() && stored_ == 0; }
  bool touches(u64 address, u64 bytes) const;

  struct Store {
    u64 address;
    Value value;
  };
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Origin>& values() const { return values_; }
  /// Returns the stores that the end of the list needs, with their values.
  std::vector<Store> stores() const;

 private:
  struct Entry {
    u64 bytes;
    Value value;
    bool dirty, lasting;
  };
  using Entries = std::map<u64, Entry>;
  static u64 bytes_of(int log_n) { return u64{4} << log_n; }
  /// Stores the entries that partly overlap a range, and removes them.
  void settle(u64 address, u64 bytes);
  void put(u64 address, int log_n, Value value, bool lasting);
  Entries::iterator first_over(u64 address);
  void erase(Entries::iterator at);

  std::vector<Step> steps_;
  std::vector<Origin> values_;
  Entries entries_;
  std::map<u64, u64> touched_;  // disjoint ranges, from begin to end
  void touch(u64 address, u64 bytes);
  std::vector<Store> lasting_;          // stores to memory that is released
  std::size_t dirty_ = 0, stored_ = 0;  // number of entries that are not stored; number of store steps
};

}  // namespace heliograph::backend::rtl
