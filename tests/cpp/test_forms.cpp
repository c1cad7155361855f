// A constant belongs to no device and holds one prepared form per device.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/kernels.h"
#include "math/primes.h"

namespace heliograph::test {
namespace {

struct Named final : device::Form {
  explicit Named(int n) : number(n) {}
  int number;
};

int number_in(const device::Forms& forms, const device::Slot& slot) {
  const device::Form* const form = forms.find(slot);
  return form ? static_cast<const Named*>(form)->number : -1;
}

TEST(Forms, EachDeviceFindsItsOwnForm) {
  const device::Forms forms;
  std::vector<std::unique_ptr<device::Slot>> slots;
  for (int i = 0; i < 40; ++i) slots.push_back(std::make_unique<device::Slot>());
  for (int i = 0; i < 40; i += 2) forms.keep(*slots[i], std::make_unique<Named>(i));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(number_in(forms, *slots[i]), i % 2 == 0 ? i : -1);
  forms.keep(*slots[0], std::make_unique<Named>(7));
  EXPECT_EQ(number_in(forms, *slots[0]), 0) << "the first form must stay, because kernels may read it";
}

TEST(Forms, ANewDeviceDoesNotFindTheFormOfAClosedOne) {
  const device::Forms forms;
  auto closed = std::make_unique<device::Slot>();
  const std::size_t place = closed->place();
  forms.keep(*closed, std::make_unique<Named>(1));
  closed.reset();
  const device::Slot next;
  ASSERT_EQ(next.place(), place);
  EXPECT_EQ(number_in(forms, next), -1);
  forms.keep(next, std::make_unique<Named>(2));
  EXPECT_EQ(number_in(forms, next), 2);
}

TEST(Forms, ACopyOfAConstantHasNoForms) {
  const device::Slot slot;
  device::Forms forms, other;
  forms.keep(slot, std::make_unique<Named>(1));
  const device::Forms copy = forms;
  EXPECT_EQ(number_in(copy, slot), -1);
  forms = other;
  EXPECT_EQ(number_in(forms, slot), -1) << "the form belonged to the previous constant";
}

TEST(Forms, OneOfManyThreadsMakesTheForm) {
  const device::Slot slot;
  for (int round = 0; round < 50; ++round) {
    const device::Forms forms;
    std::vector<std::thread> threads;
    std::vector<const device::Form*> seen(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        forms.keep(slot, std::make_unique<Named>(t));
        seen[t] = forms.find(slot);
      });
    }
    for (std::thread& t : threads) t.join();
    for (const device::Form* form : seen) EXPECT_EQ(form, seen[0]);
  }
}

TEST(Forms, OneConstantServesSeveralDevices) {
  const auto ring = std::make_shared<const device::RingConstant>(
      std::make_shared<math::Ring>(64, math::Word::w64, math::largest_primes(40, 1, 128)));
  const auto call_on = [&](device::Device& device) {
    const auto queue = device.make_queue();
    std::vector<math::u64> words(64, 3), out(64);
    const device::Buffer memory = device.allocate(1024, *queue);
    const device::View a = device::View::dense(memory->address(), math::Word::w64, {1}, 1, 1, 64);
    device::View b = a;
    b.data += 512;
    device.upload(*queue, std::as_bytes(std::span(words)), a.data);
    queue->enqueue(device::ForwardNtt{ring, {0}, a, b});
    device.download(*queue, b.data, std::as_writable_bytes(std::span(out)));
    return out;
  };
  const auto one = device::open_device("cpu"), other = device::open_device("cpu"), ref = device::open_device("ref");
  EXPECT_THROW(call_on(*one), MismatchError) << "not prepared on this device";
  one->kernels().prepare(*ring);
  EXPECT_THROW(call_on(*other), MismatchError);
  other->kernels().prepare(*ring);
  const std::vector<math::u64> expected = call_on(*ref);
  EXPECT_EQ(call_on(*one), expected);
  EXPECT_EQ(call_on(*other), expected);
}

}  // namespace
}  // namespace heliograph::test
