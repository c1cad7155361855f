// What devices keep of a constant in an order of their own: twiddles in a GPU's memory, tables for a vector unit. A constant
// itself is data and belongs to no device; each device that uses it finds its form there, without a lock or a search.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/errors.h"

namespace heliograph::device {

/// One device's form of a constant.
class Form {
 public:
  virtual ~Form() = default;
};

/// A form made of a constant, which outlives it.
template <class C>
class FormOf : public Form {
 public:
  explicit FormOf(const C& constant) : constant_(constant) {}
  const C& of() const { return constant_; }

 private:
  const C& constant_;
};

/// A device's place in every constant, taken as long as the device is open. Places are used again, ids are not.
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

/// The forms of one constant; a copy of the constant starts with none.
class Forms {
 public:
  Forms() = default;
  Forms(const Forms&) {}
  Forms& operator=(const Forms& other);
  ~Forms() { clear(); }

  /// Null where none was kept for that device.
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
  /// Where two threads make one for the same device, the first is kept.
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

/// What is the same for every device: immutable once it is used.
struct Constant {
  Forms forms = {};
};

/// A constant that holds one value, checked where the value has a check.
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

/// A device's form of a constant. Throws MismatchError where it was not prepared for that device.
template <class Own, class C>
const Own& form_on(const C& constant, const Slot& slot) {
  const Form* const form = constant.forms.find(slot);
  require<MismatchError>(form != nullptr, "a constant that was not prepared for this device");
  return static_cast<const Own&>(*form);
}

}  // namespace heliograph::device
