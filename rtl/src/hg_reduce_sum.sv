// Reduces a sum of products to a residue: z = (s + v * wrap mod (q << shift)) >> shift, s below 2^(2W+MORE), v at most
// 2^MORE. All constants are shifted, as s is (see hg_mul_barrett): normal_i = q << shift, wrap_i, and fold_i = 2^(2W) mod
// normal_i. The constant fold_i reduces the bits of s above 2W, before Barrett's quotient is computed. Latency 13, one sum a
// cycle; all inputs arrive in the same cycle.
module hg_reduce_sum #(
    parameter int unsigned W = 30,
    parameter int unsigned MORE = 6
) (
    input  logic                clk_i,
    input  logic [2*W+MORE-1:0] sum_i,
    input  logic [      MORE:0] v_i,
    input  logic [       W-1:0] wrap_i,
    input  logic [       W-1:0] fold_i,
    input  logic [       W-1:0] normal_i,
    input  logic [         W:0] k_i,
    input  logic [         4:0] shift_i,
    output logic [       W-1:0] z_o
);

  localparam int unsigned P = hg_pkg::PRODUCT_LATENCY;
  if (W < 27 || W > 31 || MORE < 2 || MORE > 6 || 2 * P + 7 != hg_pkg::REDUCE_SUM_LATENCY) begin : g_check
    $error("hg_reduce_sum: W of 27 to 31 bits, MORE of 2 to 6");
  end

  // Cycles 1 to 3 fold the sum to below 2^(2W) + 2^(W+7), by products of constants and few bits. The low 24 bits of a
  // constant use a DSP; the remaining bits need few gates.
  localparam int unsigned LOW = 24;
  logic [LOW+MORE-1:0] folded;
  logic [  LOW+MORE:0] wrapped;
  logic [W-LOW+MORE:0] folded_high, wrapped_high;
  logic [W+MORE+1:0] both;
  function automatic logic [W-LOW+MORE:0] times(input logic [MORE:0] few, input logic [W-LOW-1:0] high);
    times = '0;
    for (int i = 0; i <= int'(MORE); ++i) if (few[i]) times += (W - LOW + MORE + 1)'(high) << i;
  endfunction
  logic [2*W-1:0] low, low_late;
  logic [2*W:0] sum;
  always_ff @(posedge clk_i) begin
    folded <= (LOW + MORE)'(sum_i[2*W+MORE-1:2*W]) * (LOW + MORE)'(fold_i[LOW-1:0]);
    wrapped <= (LOW + MORE + 1)'(v_i) * (LOW + MORE + 1)'(wrap_i[LOW-1:0]);
    folded_high <= times({1'b0, sum_i[2*W+MORE-1:2*W]}, fold_i[W-1:LOW]);
    wrapped_high <= times(v_i, wrap_i[W-1:LOW]);
    low <= sum_i[2*W-1:0];
    both <= (W + MORE + 2)'(folded) + (W + MORE + 2)'(wrapped) +
        ({(W - LOW + MORE + 2)'(folded_high) + (W - LOW + MORE + 2)'(wrapped_high), LOW'(0)});
    low_late <= low;
    sum <= {1'b0, low_late} + (2 * W + 1)'(both);
  end

  logic [W:0] k;
  hg_delay #(
      .WIDTH (W + 1),
      .CYCLES(3)
  ) i_k (
    .clk_i,
    .d_i(k_i),
    .d_o(k)
  );
  logic [2*W+2:0] quotient;
  logic [W+1:0] multiple, sum_late, rest;
  logic [W-1:0] normal, normal_late;
  logic [ 4:0] shift;
  logic [16:0] unused_low[2];
  hg_product #(
      .AW(W + 1),
      .BW(W + 2)
  ) i_quotient (
    .clk_i,
    .a_i  (k),
    .b_i  (sum[2*W:W-1]),
    .p_o  (quotient),
    .low_o(unused_low[0])
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(3 + P)
  ) i_normal (
    .clk_i,
    .d_i(normal_i),
    .d_o(normal)
  );
  hg_product #(
      .AW(W + 2),
      .BW(W),
      .OW(W + 2)
  ) i_multiple (
    .clk_i,
    .a_i  (quotient[2*W+2:W+1]),
    .b_i  (normal),
    .p_o  (multiple),
    .low_o(unused_low[1])
  );
  hg_delay #(
      .WIDTH (W + 2),
      .CYCLES(2 * P)
  ) i_sum_late (
    .clk_i,
    .d_i(sum[W+1:0]),
    .d_o(sum_late)
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(P + 1)
  ) i_normal_late (
    .clk_i,
    .d_i(normal),
    .d_o(normal_late)
  );
  hg_delay #(
      .WIDTH (5),
      .CYCLES(2 * P + 6)
  ) i_shift (
    .clk_i,
    .d_i(shift_i),
    .d_o(shift)
  );
  // The quotient is too small by at most 3, so the remainder is below 4q.
  logic [W-1:0] reduced;
  always_ff @(posedge clk_i) rest <= sum_late - multiple;
  hg_reduce4 #(
      .W(W)
  ) i_reduce (
    .clk_i,
    .v_i(rest),
    .q_i(normal_late),
    .z_o(reduced)
  );
  always_ff @(posedge clk_i) z_o <= reduced >> shift;
  logic unused;
  assign unused = ^{quotient[W:0], unused_low[0], unused_low[1]};

endmodule
