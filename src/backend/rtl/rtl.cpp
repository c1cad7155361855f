#include "backend/rtl/rtl.h"

#include <charconv>
#include <cstring>

#include "backend/rtl/driver.h"
#include "backend/rtl/models.h"
#include "device/kernels.h"
#include "device/perform.h"

namespace heliograph::backend::rtl {

namespace {

using device::Buffer;

/// A wait for this event runs all pending steps.
class ListEvent final : public device::Event {
 public:
  explicit ListEvent(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}
  void wait() override { driver_->flush(); }

 private:
  std::shared_ptr<Driver> driver_;
};

struct Nothing {};

/// A queue of a card. All queues add their calls to one list, which runs when a result is needed.
class RtlQueue final : public device::Queue {
 public:
  RtlQueue(std::shared_ptr<Driver> driver, device::Fallback& software) : driver_(std::move(driver)), software_(software) {}

  bool supports(const device::Call& call) const override {
    return device::performs<Encoder, Nothing>(call) || std::holds_alternative<device::Sample>(call) ||
           std::holds_alternative<device::ByteProduct>(call);
  }
  std::shared_ptr<device::Event> record() override { return std::make_shared<ListEvent>(driver_); }
  void after(const device::Event&) override {}
  void uses(const Buffer&) override {}
  void wait() override { driver_->flush(); }

 protected:
  void perform(const device::Call& call) override {
    const std::lock_guard lock(driver_->mutex());
    Encoder encoder(driver_->shape(), *driver_, driver_->list());
    if (const auto* sample = std::get_if<device::Sample>(&call)) return draw(*sample);
    if (const auto* product = std::get_if<device::ByteProduct>(&call)) return multiply_bytes(*product);
    if (const auto* copy = std::get_if<device::Copy>(&call); copy != nullptr && !encoder.moves(*copy)) return move(*copy);
    if (const auto* zero = std::get_if<device::Zero>(&call); zero != nullptr && !encoder.moves({zero->out, zero->out}))
      return clear(*zero);
    // Pending steps must not write data that the driver itself reads.
    device::each_view(call, [&](const device::View& v, device::Access) {
      if (v.word == math::Word::w64) settle(v);
    });
    if (const auto* mul = std::get_if<device::Mul>(&call); mul != nullptr && mul->b.n != mul->out.n) settle(mul->b);
    if (const auto* mul = std::get_if<device::MulAccumulate>(&call); mul != nullptr && mul->b.n != mul->out.n)
      settle(mul->b);
    device::perform(*this, call, encoder, nothing_);
    driver_->flush_if_long();
  }

 private:
  template <class F>
  static void limbs(const device::View& v, F f) {
    for (std::size_t item = 0; item < v.items(); ++item) {
      for (std::size_t c = 0; c < v.components; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) f(v.address(item, c, l), item, c, l);
      }
    }
  }
  void settle(const device::View& v) {
    limbs(v, [&](std::byte* at, auto...) { driver_->flush_over(at, v.n * v.word_size()); });
  }
  void draw(const device::Sample& c) {
    settle(c.out);
    software_.perform(c);
    driver_->sampled += c.out.items() * c.out.components * c.out.limbs;
  }
  /// Computes products modulo 2^32 in software, because the card computes with residues only.
  void multiply_bytes(const device::ByteProduct& c) {
    settle(c.bytes), settle(c.words), settle(c.out);
    software_.perform(c);
  }
  /// Moves words in software that the card cannot move: 64-bit words, and limbs of less than a beat.
  void move(const device::Copy& c) {
    settle(c.a);
    settle(c.out);
    const std::size_t bytes = c.out.n * c.out.word_size();
    limbs(c.out, [&](std::byte* to, std::size_t item, std::size_t k, std::size_t l) {
      std::memmove(to, c.a.address(item, k, l), bytes);
    });
    driver_->moved += c.out.words();
  }
  void clear(const device::Zero& c) {
    settle(c.out);
    limbs(c.out, [&](std::byte* to, auto...) { std::memset(to, 0, c.out.n * c.out.word_size()); });
    driver_->moved += c.out.words();
  }

  std::shared_ptr<Driver> driver_;
  device::Fallback& software_;
  Nothing nothing_;
};

class RtlKernels final : public device::Kernels {
 public:
  explicit RtlKernels(std::shared_ptr<Driver> driver) : Kernels(driver->slot()), driver_(std::move(driver)) {}
  std::size_t preferred_items(std::size_t) const override { return 1; }

 protected:
  std::unique_ptr<const device::Form> form(const device::RingConstant& c) override { return driver_->form(c); }
  std::unique_ptr<const device::Form> form(const device::ConversionConstant& c) override { return driver_->form(c); }
  std::unique_ptr<const device::Form> form(const device::PermutationConstant& c) override { return driver_->form(c); }

 private:
  std::shared_ptr<Driver> driver_;
};

class RtlDevice final : public device::Device,
                        private device::Simulation,
                        private device::Measurement,
                        private device::TransferCounter {
 public:
  explicit RtlDevice(const Options& options) : driver_(std::make_shared<Driver>(options)), kernels_(driver_) {}

  std::string name() const override { return "rtl"; }
  std::string description() const override {
    const Shape& s = driver_->shape();
    char clock[32];
    std::snprintf(clock, sizeof clock, "%g", driver_->options().clock);
    return "simulated co-processor, " + std::to_string(s.butterflies) + " butterflies, N up to " +
           std::to_string(1 << s.log_n) + ", an assumed " + clock + " MHz";
  }
  device::MemoryState memory() const override { return driver_->memory(); }
  Buffer allocate(std::size_t bytes, device::Queue&) override { return driver_->allocate(bytes); }
  std::unique_ptr<device::Queue> make_queue() override { return std::make_unique<RtlQueue>(driver_, software_); }
  void upload(device::Queue&, std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    const std::lock_guard lock(driver_->mutex());
    driver_->flush_over(to, from.size());
    std::memcpy(to, from.data(), from.size());
    ++traffic_.uploads, traffic_.upload_bytes += from.size();
  }
  void download(device::Queue&, const std::byte* from, std::span<std::byte> to) override {
    const std::lock_guard lock(driver_->mutex());
    driver_->flush();
    if (to.empty()) return;
    std::memcpy(to.data(), from, to.size());
    ++traffic_.downloads, traffic_.download_bytes += to.size();
  }
  device::Kernels& kernels() override { return kernels_; }
  std::vector<std::string> report() override {
    std::vector<std::string> lines = Device::report();
    if (const device::Cycles all = cycles(); all.cycles > 0) lines.push_back("  so far " + readable(all));
    return lines;
  }
  device::Traffic traffic() const override { return traffic_; }
  device::Capabilities capabilities() override { return {.simulation = this, .measurement = this, .transfers = this}; }
  device::Cycles cycles() override {
    const std::lock_guard lock(driver_->mutex());
    driver_->flush();
    device::Cycles all = driver_->cycles();
    all.sampled = driver_->sampled, all.moved = driver_->moved, all.stalled = driver_->stalled();
    return all;
  }
  std::vector<device::Span> timeline() override {
    const std::lock_guard lock(driver_->mutex());
    driver_->flush();
    std::vector<device::Span> all;
    for (const Span& s : driver_->spans()) all.push_back({kUnitNames[s.unit], s.begin, s.end});
    return all;
  }

  /// Returns nothing: the card's time is counted in cycles, and the simulation's speed has no meaning.
  device::Rates measure_rates() override { return {}; }

 private:
  std::shared_ptr<Driver> driver_;
  RtlKernels kernels_;
  device::Fallback software_{device::open_device("cpu")};
  device::Traffic traffic_;
};

double number_of(const std::string& name, const std::string& text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    throw ParameterError("invalid option of the device rtl: " + name + "=" + text);
  return value;
}

Options options_of(const std::string& text) {
  Options o;
  std::string compiled;
  for (const int b : compiled_butterflies()) compiled += (compiled.empty() ? "" : " and ") + std::to_string(b);
  const auto fits = [&](const std::string& name, const std::string& value) {
    const double number = number_of(name, value, 1, 64);
    for (const int b : compiled_butterflies()) {
      if (b == number) return b;
    }
    throw ParameterError("no compiled card has " + name + "=" + value + "; the compiled cards are " + compiled);
  };
  int lanes = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    const std::string word = text.substr(from, end - from);
    from = end + 1;
    const std::size_t sign = word.find('=');
    const std::string name = word.substr(0, sign), value = sign == std::string::npos ? "" : word.substr(sign + 1);
    if (name == "butterflies")
      o.butterflies = fits(name, value);
    else if (name == "lanes")
      lanes = fits(name, value);
    else if (name == "clock")
      o.clock = number_of(name, value, 1, 10000);
    else if (name == "stalls")
      o.stalls = static_cast<int>(number_of(name, value, 0, 90));
    else if (name == "seed")
      o.seed = static_cast<unsigned>(number_of(name, value, 0, 1e9));
    else
      throw ParameterError("unknown option of the device rtl: \"" + word +
                           "\"; use butterflies=, lanes=, clock= (MHz), stalls= or seed=");
  }
  if (lanes != 0 && lanes != o.butterflies) {
    throw ParameterError("no compiled card has " + std::to_string(o.butterflies) + " butterflies and " +
                         std::to_string(lanes) + " lanes; lanes must equal butterflies, and the compiled cards are " +
                         compiled);
  }
  return o;
}

}  // namespace

std::unique_ptr<device::Device> make_device(const std::string& options) {
  return std::make_unique<RtlDevice>(options_of(options));
}

}  // namespace heliograph::backend::rtl
