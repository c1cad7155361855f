// z = x * y mod q for any modulus with its top bit set, q in [2^(W-1), 2^W), and k = min(floor(2^(2W) / q), 2^(W+1) - 1).
// A shorter modulus is shifted up, q << s, and x (or a constant y) with it: z is then (x * y mod q) << s. Barrett's quotient
// (1986) is too small by at most 2: floor(floor(t / 2^(W-1)) k / 2^(W+1)). Latency 12, one product a cycle; q_i and k_i come
// with the operands. x, y < 2^W, x * y < 2^W q.
module hg_mul_barrett #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic [W-1:0] x_i,
    input  logic [W-1:0] y_i,
    input  logic [W-1:0] q_i,
    input  logic [  W:0] k_i,
    output logic [W-1:0] z_o
);

  localparam int unsigned P = hg_pkg::PRODUCT_LATENCY;
  if (W < 25 || W > 32) begin : g_check
    $error("hg_mul_barrett: W of 25 to 32 bits");
  end

  logic [2*W-1:0] product;
  logic [2*W+1:0] quotient;
  logic [W+1:0] product_late, multiple;
  logic [W-1:0] q, q_late;
  logic [W:0] k;
  logic [16:0] unused_low[3];
  logic unused;
  assign unused = ^{unused_low[0], unused_low[1], unused_low[2], quotient[W:0]};

  hg_product #(
      .AW(W),
      .BW(W)
  ) i_product (
    .clk_i,
    .a_i  (x_i),
    .b_i  (y_i),
    .p_o  (product),
    .low_o(unused_low[0])
  );
  hg_delay #(
      .WIDTH (W + 1),
      .CYCLES(P)
  ) i_k (
    .clk_i,
    .d_i(k_i),
    .d_o(k)
  );
  hg_product #(
      .AW(W + 1),
      .BW(W + 1)
  ) i_quotient (
    .clk_i,
    .a_i  (product[2*W-1:W-1]),
    .b_i  (k),
    .p_o  (quotient),
    .low_o(unused_low[1])
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(2 * P)
  ) i_q (
    .clk_i,
    .d_i(q_i),
    .d_o(q)
  );
  hg_product #(
      .AW(W + 1),
      .BW(W),
      .OW(W + 2)
  ) i_multiple (
    .clk_i,
    .a_i  (quotient[2*W+1:W+1]),
    .b_i  (q),
    .p_o  (multiple),
    .low_o(unused_low[2])
  );
  hg_delay #(
      .WIDTH (W + 2),
      .CYCLES(2 * P)
  ) i_product_late (
    .clk_i,
    .d_i(product[W+1:0]),
    .d_o(product_late)
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(P + 1)
  ) i_q_late (
    .clk_i,
    .d_i(q),
    .d_o(q_late)
  );

  logic [W+1:0] rest;
  always_ff @(posedge clk_i) rest <= product_late - multiple;
  hg_reduce4 #(
      .W(W)
  ) i_reduce (
    .clk_i,
    .v_i(rest),
    .q_i(q_late),
    .z_o
  );

endmodule
