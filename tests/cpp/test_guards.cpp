// Tests the guards that check the arguments of Chebyshev series, through the public C++ API.
#include <gtest/gtest.h>

#include "heliograph/ckks.h"

namespace heliograph {
namespace {

using ckks::Ciphertext;

class Guards : public testing::Test {
 protected:
  static constexpr std::size_t kSlots = 1024;
  ckks::Parameters parameters_ = ckks::Parameters(ckks::make_spec(2 * kSlots, 7, 40, 60, 1, 64, 0, true));
  ckks::SecretKey secret_ = ckks::SecretKey::generate(parameters_);
  ckks::EvaluationKeys keys_ = secret_.evaluation_keys(true, {1}, false);

  /// Evaluates a series on values in [-1, 1] and on the value `one`. The caller declares this interval for all values.
  Ciphertext series(double one, const std::string& guard) const {
    ckks::Values v{.shape = {3}, .width = kSlots, .complex = false};
    for (std::size_t i = 0; i < 3 * kSlots; ++i) v.data.emplace_back(static_cast<double>(i % 201) / 100 - 1);
    v.data[kSlots + 17] = one;
    const Ciphertext x =
        Ciphertext::from_bytes(secret_.encrypt(v, 0, 8).to_bytes());  // a loaded tensor has no trusted bounds
    return ckks::evaluate_polynomial(ckks::within(x, 1), {0.5, 0.25, 0, 0, 0.125}, ckks::Basis::chebyshev, keys_, guard);
  }
};

TEST_F(Guards, NoticeOneArgumentOutside) {
  const Ciphertext good = series(1, "f"), bad = series(1.2, "f");
  ASSERT_EQ(ckks::guards_of(good).size(), 1U);
  EXPECT_EQ(ckks::guards_of(good)[0].operations, std::vector<std::string>{"f"});
  secret_.decrypt(good);
  EXPECT_THROW(secret_.decrypt(bad), OutOfIntervalError);
  EXPECT_TRUE(secret_.outside_slots(good).empty());
  EXPECT_EQ(secret_.outside_slots(bad), std::vector<std::size_t>{17});
  secret_.decrypt(ckks::drop_guards(bad), ckks::Checked::none);  // the result exceeds its bounds, too
  EXPECT_TRUE(ckks::guards_of(series(1.2, "")).empty());
}

TEST_F(Guards, StayWithResultsAndInFiles) {
  const Ciphertext sum = ckks::add(ckks::rotate(series(1.2, "f"), {1}, keys_), ckks::reshape(series(1, "g"), {1, 3}));
  EXPECT_EQ(ckks::guards_of(sum).size(), 2U);
  for (const Ciphertext& x : {sum, ckks::index(sum, 1, 0), Ciphertext::from_bytes(sum.to_bytes())}) {
    try {
      secret_.decrypt(x);
      FAIL();
    } catch (const OutOfIntervalError& e) {
      EXPECT_NE(std::string(e.what()).find("an argument of f "), std::string::npos) << e.what();
    }
  }
}

TEST_F(Guards, CanBeTakenFromAnotherTensor) {
  const Ciphertext x = ckks::with_guards(series(0.5, ""), series(1.2, "f"));
  EXPECT_EQ(ckks::guards_of(x).size(), 1U);
  EXPECT_THROW(secret_.decrypt(x), OutOfIntervalError);
  secret_.decrypt(ckks::with_guards(series(0.5, ""), series(0.5, "f")));
}

TEST_F(Guards, AreNotMadeForProvedBounds) {
  ckks::Values v{.shape = {}, .width = kSlots, .complex = false};
  v.data.assign(kSlots, 0.5);
  const Ciphertext y = ckks::evaluate_polynomial(secret_.encrypt(v, 0, 1), {0, 0, 1}, ckks::Basis::chebyshev, keys_);
  EXPECT_TRUE(ckks::guards_of(y).empty());
}

}  // namespace
}  // namespace heliograph
