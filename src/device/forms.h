// Device-specific forms of constants, such as twiddles in a GPU's memory or tables for a vector unit. The constant itself is
// data that belongs to no device. Each device finds its form in the constant without a lock or a search.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/errors.h"

namespace heliograph::device {

class Form {
 public:
  virtual ~Form() = default;
};

/// A form with a reference to its constant, which outlives the form.
template <class C>
class FormOf : public Form {
 public:
  explicit FormOf(const C& constant) : constant_(constant) {}
  const C& of() const { return constant_; }

 private:
  const C& constant_;
};

/// A device's index in the table of forms of every constant, reserved while the device is open. Indices are reused for later
/// devices; ids are never reused.
class Slot {
 public:
  Slot();
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  std::size_t place() const { return place_; }
  std::uint64_t id() const { return id_; }

 private:
  std::size_t place_;
  std::uint64_t id_;
};

/// The forms of one constant, one for each device; a copy of the constant has none.
class Forms {
 public:
  Forms() = default;
  Forms(const Forms&) {}
  Forms& operator=(const Forms& other);
  ~Forms() { clear(); }

  /// Returns null if the device has no form.
  const Form* find(const Slot& slot) const {
    const Block* block = &first_;
    std::size_t place = slot.place();
    for (; place >= kPlaces; place -= kPlaces) {
      block = block->next.load(std::memory_order_acquire);
      if (!block) return nullptr;
    }
    const Kept* const kept = block->places[place].load(std::memory_order_acquire);
    return kept && kept->owner == slot.id() ? kept->form.get() : nullptr;
  }
  /// Stores a form. If two threads store a form for the same device, the first form is kept.
  void keep(const Slot& slot, std::unique_ptr<const Form> form) const;

 private:
  static constexpr std::size_t kPlaces = 8;
  struct Kept {
    std::uint64_t owner;
    std::unique_ptr<const Form> form;
  };
  struct Block {
    std::array<std::atomic<const Kept*>, kPlaces> places{};
    std::atomic<Block*> next{nullptr};
  };
  void clear();

  mutable Block first_;
};

/// Base of constants: data that is the same for every device and immutable after its first use.
struct Constant {
  Forms forms = {};
};

/// A constant that holds a value V; the value is checked if its type has a member check().
template <class V>
class ConstantOf : public Constant {
 public:
  explicit ConstantOf(V value) : value_(std::move(value)) {
    if constexpr (requires { value_.check(); }) value_.check();
  }

 protected:
  const V& value() const { return value_; }

 private:
  V value_;
};

/// Returns a device's form of a constant. Throws MismatchError if the constant was not prepared for that device.
template <class Own, class C>
const Own& form_on(const C& constant, const Slot& slot) {
  const Form* const form = constant.forms.find(slot);
  require<MismatchError>(form != nullptr, "cannot use this constant: it was not prepared for this device");
  return static_cast<const Own&>(*form);
}

}  // namespace heliograph::device
