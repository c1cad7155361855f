// Strided views of polynomials on a device, and small lists that kernel calls pass by value.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "math/ring.h"

namespace heliograph::device {

using math::PrimeIndex;
using math::u32;
using math::u64;
using math::Word;

inline constexpr int kMaxAxes = 6;
inline constexpr std::size_t kMaxLimbs = 128;
/// Maximum bytes of a view. The limit exceeds any real memory, and offsets and sizes computed from a view below the limit do
/// not overflow.
inline constexpr std::size_t kMaxViewBytes = std::size_t{1} << 52;

/// Returns `each` times the lengths of all axes except axes of length zero, which an operation may drop. Throws ShapeError
/// if the product exceeds kMaxViewBytes.
std::size_t bounded_product(std::size_t each, std::span<const std::size_t> axes);

/// The primes of an operand's limbs, in order, as indices into the ring's primes.
class PrimeList {
 public:
  PrimeList() = default;
  PrimeList(std::initializer_list<PrimeIndex> list) {
    for (PrimeIndex p : list) push_back(p);
  }
  explicit PrimeList(const std::vector<PrimeIndex>& list) {
    for (PrimeIndex p : list) push_back(p);
  }
  PrimeList(const PrimeIndex* first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) push_back(first[i]);
  }
  static PrimeList range(std::size_t first, std::size_t count) {
    PrimeList r;
    for (std::size_t i = 0; i < count; ++i) r.push_back(static_cast<PrimeIndex>(first + i));
    return r;
  }
  static constexpr std::size_t kMost = kMaxLimbs;
  void push_back(PrimeIndex p) {
    require<ShapeError>(count_ < kMaxLimbs, "a kernel call takes at most 128 limbs");
    index_[count_++] = p;
  }
  void append(const PrimeList& other) {
    for (PrimeIndex p : other) push_back(p);
  }
  std::size_t size() const { return count_; }
  PrimeIndex operator[](std::size_t i) const { return index_[i]; }
  const PrimeIndex* begin() const { return index_.data(); }
  const PrimeIndex* end() const { return index_.data() + count_; }
  bool operator==(const PrimeList& o) const { return std::equal(begin(), end(), o.begin(), o.end()); }

 private:
  std::array<PrimeIndex, kMaxLimbs> index_{};
  std::size_t count_ = 0;
};

/// One allocation of device memory. The allocation returns to its device's pool, in the queue's order, when the last Buffer
/// is released.
class Memory {
 public:
  Memory(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  /// Returns whether an observer skipped the call that would have written this memory (device/observer.h). The words are
  /// then undefined.
  bool blank() const { return blank_; }
  void leave_blank() { blank_ = true; }
  /// Shape of the dense tensor for which the memory was allocated; n is 0 if it is unknown. Devices of several parts
  /// distribute the memory by this shape.
  struct Geometry {
    Word word = Word::w64;
    std::size_t components = 0, limbs = 0, n = 0;
  };
  const Geometry& geometry() const { return geometry_; }
  void is_for(const Geometry& geometry) { geometry_ = geometry; }

 protected:
  std::byte* address_;
  std::size_t bytes_;

 private:
  bool blank_ = false;
  Geometry geometry_;
};
using Buffer = std::shared_ptr<Memory>;

/// A view of [batch axes..., component, limb, n] words. Strides count words. A batch stride may be negative (reversed); a
/// batch stride of an input may be 0 (broadcast). The words of one limb are contiguous. `data` is the address of item 0,
/// valid only on the view's device. A tensor's view owns its memory. A view that is passed to a queue need not own it,
/// because the caller holds the memory during the call. Only `dense`, broadcast_view and reshape_view create axes, and they
/// limit the product of the lengths. Other operations remove or shorten axes.
struct View {
  std::byte* data = nullptr;
  Buffer memory = nullptr;
  Word word = Word::w64;
  int axes = 0;
  std::array<std::size_t, kMaxAxes> shape{};
  std::array<std::ptrdiff_t, kMaxAxes> stride{};
  std::size_t components = 1, component_stride = 0;
  std::size_t limbs = 1, limb_stride = 0;
  std::size_t n = 0;

  std::size_t items() const {
    std::size_t r = 1;
    for (int i = 0; i < axes; ++i) r *= shape[i];
    return r;
  }
  /// Returns the offset in words of flat batch index `item`; the last axis varies fastest.
  std::ptrdiff_t item_offset(std::size_t item) const {
    std::ptrdiff_t offset = 0;
    for (int i = axes - 1; i >= 0; --i) {
      offset += static_cast<std::ptrdiff_t>(item % shape[i]) * stride[i];
      item /= shape[i];
    }
    return offset;
  }
  std::ptrdiff_t offset(std::size_t item, std::size_t component, std::size_t limb) const {
    return item_offset(item) + static_cast<std::ptrdiff_t>(component * component_stride + limb * limb_stride);
  }
  template <class T>
  T* at(std::size_t item, std::size_t component, std::size_t limb) const {
    return reinterpret_cast<T*>(data) + offset(item, component, limb);
  }
  std::byte* address(std::size_t item, std::size_t component, std::size_t limb) const {
    return data + offset(item, component, limb) * static_cast<std::ptrdiff_t>(word_size());
  }
  std::size_t word_size() const { return math::word_bytes(word); }
  /// Returns the number of words of all limbs, components and items; a broadcast item counts each time.
  std::size_t words() const { return items() * components * limbs * n; }
  std::size_t bytes() const { return words() * word_size(); }
  /// Throws ShapeError if the items exceed kMaxViewBytes; axes of length zero are ignored.
  void check_extent() const;

  /// Returns this view's layout in another buffer, whose first byte is the view's first word.
  View in(Buffer buffer) const {
    View v = *this;
    v.data = buffer->address();
    v.memory = std::move(buffer);
    return v;
  }
  /// Returns this view without ownership of its memory.
  View lent() const {
    View v = *this;
    v.memory = nullptr;
    return v;
  }

  /// Returns a contiguous view with axes in order. Throws ShapeError if its items exceed kMaxViewBytes.
  static View dense(std::byte* data, Word word, const std::vector<std::size_t>& batch, std::size_t components,
                    std::size_t limbs, std::size_t n);
  View with_components(std::size_t first, std::size_t count) const;
  View with_limbs(std::size_t first, std::size_t count) const;
  View with_leading(std::size_t first, std::size_t count) const;
  View item(std::size_t index) const;
};

}  // namespace heliograph::device
