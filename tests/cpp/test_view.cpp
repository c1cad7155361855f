// Views can be sliced forward and in reverse, and sizes that overflow are refused.
#include <gtest/gtest.h>

#include <limits>

#include "device/kernels.h"
#include "device/shape.h"

namespace heliograph::test {

namespace {

using device::View;
using device::Workspace;
using math::u64;
using math::Word;

/// Views over memory in which each word equals its offset.
class Views : public testing::Test {
 protected:
  Views() {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = i;
  }
  View view(const std::vector<std::size_t>& batch) {
    return View::dense(reinterpret_cast<std::byte*>(words_.data()), Word::w64, batch, 2, 2, 8);
  }
  /// Returns the indices of the items that a view has; an item has 32 words.
  static std::vector<std::size_t> items(const View& v) {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < v.items(); ++i) result.push_back(*v.at<u64>(i, 0, 0) / 32);
    return result;
  }
  using Items = std::vector<std::size_t>;
  std::vector<u64> words_ = std::vector<u64>(32 * 12);
};

TEST_F(Views, SlicesMayBeReversed) {
  const View v = view({12});
  EXPECT_EQ(items(slice_view(v, 0, 11, -1, 12)), (Items{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(items(slice_view(v, 0, 10, -5, 3)), (Items{10, 5, 0}));
  EXPECT_EQ(items(slice_view(v, 0, 2, 4, 3)), (Items{2, 6, 10}));
  EXPECT_EQ(items(slice_view(slice_view(v, 0, 10, -3, 4), 0, 3, -2, 2)), (Items{1, 7}));
  const View back = slice_view(view({3, 4}), 0, 2, -1, 3);
  EXPECT_EQ(items(back), (Items{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(items(transpose_view(back, {1, 0})), (Items{8, 4, 0, 9, 5, 1, 10, 6, 2, 11, 7, 3}));
  EXPECT_EQ(items(drop_axis_view(back, 0, 1)), (Items{4, 5, 6, 7}));
  EXPECT_EQ(items(back.item(5)), (Items{5}));
  EXPECT_EQ(items(back.with_leading(1, 2)), (Items{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_FALSE(is_dense(back));
  EXPECT_FALSE(reshape_view(back, {12}));
  const View both = slice_view(back, 1, 3, -1, 4);
  ASSERT_TRUE(reshape_view(both, {12}));
  EXPECT_EQ(items(*reshape_view(both, {2, 6})), (Items{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(items(broadcast_view(slice_view(v, 0, 1, -1, 2), {2, 2})), (Items{1, 0, 1, 0}));
}

/// Like in NumPy, reshape returns a view if the joined axes have uniform strides. The view has the same items in the same
/// order.
TEST_F(Views, AreReshapedWithoutACopyIfTheStridesAllowIt) {
  const View swapped = transpose_view(view({4, 3}), {1, 0});  // (3, 4) with strides (1, 3)
  for (const device::Shape& shape :
       {device::Shape{3, 4}, device::Shape{3, 1, 4}, device::Shape{1, 3, 4, 1}, device::Shape{3, 2, 2}}) {
    const std::optional<View> r = reshape_view(swapped, shape);
    ASSERT_TRUE(r) << device::to_string(shape);
    EXPECT_EQ(shape_of(*r), shape);
    EXPECT_EQ(items(*r), items(swapped)) << device::to_string(shape);
  }
  for (const device::Shape& shape : {device::Shape{12}, device::Shape{4, 3}, device::Shape{2, 6}, device::Shape{6, 2}})
    EXPECT_FALSE(reshape_view(swapped, shape));
  const View one = view({1, 1});
  ASSERT_TRUE(reshape_view(one, {}));
  ASSERT_TRUE(reshape_view(one, {1, 1, 1}));
  const View repeated = broadcast_view(view({4}), {3, 4});
  EXPECT_EQ(items(*reshape_view(repeated, {3, 2, 2})), items(repeated));
  EXPECT_FALSE(reshape_view(repeated, {12}));
  EXPECT_EQ(items(*reshape_view(broadcast_view(view({1}), {3, 4}), {6, 2})), (Items(12, 0)));
  EXPECT_THROW(reshape_view(swapped, {5}), ShapeError);
  EXPECT_EQ(shape_of(*reshape_view(view({0, 7}), {3, 0})), (device::Shape{3, 0}));
}

TEST_F(Views, SlicesBeyondTheirAxisAreRefused) {
  const View v = view({12});
  const auto far = static_cast<std::ptrdiff_t>(std::size_t{1} << 62);
  EXPECT_THROW(slice_view(v, 0, 11, 1, 2), ShapeError);
  EXPECT_THROW(slice_view(v, 0, 0, -1, 2), ShapeError);
  EXPECT_THROW(slice_view(v, 0, 12, -1, 1), ShapeError);
  EXPECT_THROW(slice_view(v, 0, 3, 0, 2), ShapeError);
  EXPECT_THROW(slice_view(v, 0, 3, far, 5), ShapeError);  // four times this step overflows to 0
  EXPECT_THROW(slice_view(v, 0, 3, -far, 5), ShapeError);
  EXPECT_THROW(slice_view(v, 0, 3, std::numeric_limits<std::ptrdiff_t>::min(), 3), ShapeError);
  EXPECT_EQ(items(slice_view(v, 0, 3, far, 1)), (Items{3}));
  EXPECT_EQ(slice_view(v, 0, 40, -1, 0).items(), 0u);
  const View none = slice_view(view({3, 4}), 1, 0, 1, 0);
  EXPECT_EQ(slice_view(none, 0, 2, -1, 3).data, none.data);  // an empty view keeps its address
}

/// A view with an axis of length zero is refused if the product of the other axes overflows.
TEST_F(Views, SizesThatOverflowAreRefused) {
  const std::size_t far = std::size_t{1} << 32;
  const auto dense = [](const std::vector<std::size_t>& batch) { return View::dense(nullptr, Word::w64, batch, 2, 2, 8); };
  EXPECT_NO_THROW(dense({far, 4096}));
  EXPECT_NO_THROW(dense({0, far}));
  EXPECT_THROW(dense({far, 1 << 13}), ShapeError);
  EXPECT_THROW(dense({far, far}), ShapeError);
  EXPECT_THROW(dense({0, 1 << 27, 1 << 25}), ShapeError);
  EXPECT_THROW(dense({1 << 27, 1 << 25, 0}), ShapeError);
  EXPECT_THROW(View::dense(nullptr, Word::w64, {1}, far, far, 8), ShapeError);
  const View one = view({1}), none = view({0});
  EXPECT_THROW(broadcast_view(one, {std::size_t{1} << 54}), ShapeError);
  EXPECT_THROW(broadcast_view(view({0, 1}), {0, std::size_t{1} << 54}), ShapeError);
  EXPECT_THROW(reshape_view(none, {0, std::size_t{1} << 54}), ShapeError);
  EXPECT_THROW(device::element_count({0, far, far}), ShapeError);
  EXPECT_EQ(device::element_count({far, 0}), 0u);
  EXPECT_THROW(Workspace::bytes(Word::w64, far, far, 2, 8), OutOfMemoryError);
}

}  // namespace

}  // namespace heliograph::test
