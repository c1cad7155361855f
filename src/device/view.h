// Strided views of polynomials on a device, and the small descriptors that travel with a kernel call by value.
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
/// No view shows more, which no memory holds: offsets in a view, and sizes with a few more of its items, do not wrap.
inline constexpr std::size_t kMaxViewBytes = std::size_t{1} << 52;

/// `each` times all axes but those of length zero, which an operation may drop. ShapeError beyond kMaxViewBytes.
std::size_t bounded_product(std::size_t each, std::span<const std::size_t> axes);

/// Which primes the limbs of an operand belong to, in order.
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
  /// `count` consecutive primes from `first`.
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

/// One allocation. Returned to its device's pool, in queue order, when the last Buffer lets go.
class Memory {
 public:
  Memory(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether a call that was to write it was only looked at (device/observer.h): then its words are nobody's.
  bool blank() const { return blank_; }
  void leave_blank() { blank_ = true; }
  /// The dense tensor that it was allocated for, where that was said; n is 0 where not. Devices of several parts lay memory out by it.
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

/// [batch axes..., component, limb, n] words. Strides count words; a batch stride may be negative (reversed), an input's 0
/// (broadcast). The words of one limb are contiguous. `data` is the address of item 0, which only its own device understands.
/// A tensor's view holds the memory it shows. One that is handed to a queue need not: its caller holds it meanwhile.
/// Axes come from `dense`, broadcast_view and reshape_view alone, which bound their product; all else makes them fewer or
/// shorter.
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

  /// Number of polynomials tuples in the batch.
  std::size_t items() const {
    std::size_t r = 1;
    for (int i = 0; i < axes; ++i) r *= shape[i];
    return r;
  }
  /// Word offset of flat batch index `item`, the last axis fastest.
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
  /// The same, whatever the word.
  std::byte* address(std::size_t item, std::size_t component, std::size_t limb) const {
    return data + offset(item, component, limb) * static_cast<std::ptrdiff_t>(word_size());
  }
  std::size_t word_size() const { return math::word_bytes(word); }
  /// Words of all limbs of all components of all items (broadcast items counted once each time).
  std::size_t words() const { return items() * components * limbs * n; }
  std::size_t bytes() const { return words() * word_size(); }
  /// Throws ShapeError where the items, an axis of length zero left out, show more than kMaxViewBytes.
  void check_extent() const;

  /// The same words of memory that the view now holds, from its first byte on.
  View in(Buffer buffer) const {
    View v = *this;
    v.data = buffer->address();
    v.memory = std::move(buffer);
    return v;
  }
  /// The same words; the caller sees to it that they stay.
  View lent() const {
    View v = *this;
    v.memory = nullptr;
    return v;
  }

  /// A packed view: strides of a dense array in axis order. ShapeError as check_extent.
  static View dense(std::byte* data, Word word, const std::vector<std::size_t>& batch, std::size_t components,
                    std::size_t limbs, std::size_t n);
  View with_components(std::size_t first, std::size_t count) const;
  View with_limbs(std::size_t first, std::size_t count) const;
  /// Items [first, first + count) of the leading batch axis.
  View with_leading(std::size_t first, std::size_t count) const;
  /// One item, no batch axes left.
  View item(std::size_t index) const;
};

}  // namespace heliograph::device
