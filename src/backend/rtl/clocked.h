// A Verilated model and its clock.
#pragma once

#include <verilated.h>
#include <memory>

namespace heliograph::rtl {

template <class Model>
class Clocked {
 public:
  explicit Clocked(unsigned seed = 1) : context_(std::make_unique<VerilatedContext>()) {
    context_->randReset(2);  // memories and registers without reset start with random contents
    context_->randSeed(static_cast<int>(seed));
    model_ = std::make_unique<Model>(context_.get());
    model_->clk_i = 0;
    model_->eval();
  }
  ~Clocked() {
    model_->final();
    Verilated::threadContextp(context_.get());  // the model removes itself from the thread's context
    model_.reset();
  }
  Clocked(const Clocked&) = delete;
  Clocked& operator=(const Clocked&) = delete;

  Model* operator->() const { return model_.get(); }
  /// Simulates one clock cycle. The rising edge samples the current inputs; the outputs are valid after the edge.
  void tick() {
    model_->eval();
    model_->clk_i = 1;
    model_->eval();
    model_->clk_i = 0;
    model_->eval();
    ++cycles_;
  }
  std::uint64_t cycles() const { return cycles_; }

 private:
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Model> model_;
  std::uint64_t cycles_ = 0;
};

}  // namespace heliograph::rtl
