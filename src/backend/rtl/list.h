// What calls come to on a card: steps on values, each a limb or a piece of one. A value is written once and has no place of its own: memory
// that calls name is a map from addresses to values, so that a copy is a name and what nobody reads again need not be stored.
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

/// What a unit must hold beside slots: a table of twiddles, a set of constants. Known by where its words lie in the card's memory.
struct Resource {
  u64 address = 0;
  u32 beats = 0;
  int log_n = 0;
  device::Buffer words = nullptr;  // whoever made the constant may let go before the step is made
};

struct Step {
  Op op;
  Descriptor words;            // all but slots, tables and sets
  std::vector<Value> in, out;  // an element-wise step's a, b, c: kNoValue where it has none
  Resource resource = {};
};

/// Where a value comes from, if it is no step's result.
struct Origin {
  int log_n = 0;
  std::optional<u64> address;  // in memory, once so many steps have been made
  std::size_t since = 0;
};

class List {
 public:
  /// The value of 2^log_n words at an address.
  Value read(u64 address, int log_n);
  /// From now on these words are `value`.
  void write(u64 address, int log_n, Value value);
  /// A result of a step to come.
  Value fresh(int log_n);
  void add(Step step);
  /// The memory will not be read any more as it is now.
  void release(u64 address, u64 bytes);
  /// As `write`, and it is stored even if the memory is released: what wipes memory.
  void wipe(u64 address, int log_n, Value value);

  bool empty() const { return dirty_ == 0 && lasting_.empty() && stored_ == 0; }
  /// Whether any step reads memory there or writes it.
  bool touches(u64 address, u64 bytes) const;

  struct Store {
    u64 address;
    Value value;
  };
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Origin>& values() const { return values_; }
  /// What is to be in memory at the end.
  std::vector<Store> stores() const;

 private:
  struct Entry {
    u64 bytes;
    Value value;
    bool dirty, lasting;
  };
  using Entries = std::map<u64, Entry>;
  static u64 bytes_of(int log_n) { return u64{4} << log_n; }
  /// Stores entries that share words with a range but are not it, and forgets them.
  void settle(u64 address, u64 bytes);
  void put(u64 address, int log_n, Value value, bool lasting);
  Entries::iterator first_over(u64 address);
  void erase(Entries::iterator at);

  std::vector<Step> steps_;
  std::vector<Origin> values_;
  Entries entries_;
  std::map<u64, u64> touched_;  // from, to: joined
  void touch(u64 address, u64 bytes);
  std::vector<Store> lasting_;          // of memory that was released
  std::size_t dirty_ = 0, stored_ = 0;  // entries, steps that store
};

}  // namespace heliograph::backend::rtl
