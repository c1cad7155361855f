// z = x * y mod q for a constant y with its quotient k = floor(y 2^W / q): x y - floor(x k / 2^W) q is in [0, 2q). Latency
// 8, one product a cycle; q_i and k_i come with the operands. Valid for any q < 2^W, any x < 2^W, and y < q.
module hg_mul_shoup #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic [W-1:0] x_i,
    input  logic [W-1:0] y_i,
    input  logic [W-1:0] q_i,
    input  logic [W-1:0] k_i,
    output logic [W-1:0] z_o
);

  localparam int unsigned P = hg_pkg::PRODUCT_LATENCY;
  if (W < 25 || W > 33) begin : g_check
    $error("hg_mul_shoup: W of 25 to 33 bits");
  end

  logic [2*W-1:0] quotient;
  logic [W:0] product, product_late, multiple;
  logic [W-1:0] q, q_late;
  logic [16:0] unused_low[3];
  logic unused;
  assign unused = ^{unused_low[0], unused_low[1], unused_low[2], quotient[W-1:0]};

  hg_product #(
      .AW(W),
      .BW(W)
  ) i_quotient (
    .clk_i,
    .a_i  (x_i),
    .b_i  (k_i),
    .p_o  (quotient),
    .low_o(unused_low[0])
  );
  hg_product #(
      .AW(W),
      .BW(W),
      .OW(W + 1)
  ) i_product (
    .clk_i,
    .a_i  (x_i),
    .b_i  (y_i),
    .p_o  (product),
    .low_o(unused_low[1])
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(P)
  ) i_q (
    .clk_i,
    .d_i(q_i),
    .d_o(q)
  );
  hg_product #(
      .AW(W),
      .BW(W),
      .OW(W + 1)
  ) i_multiple (
    .clk_i,
    .a_i  (quotient[2*W-1:W]),
    .b_i  (q),
    .p_o  (multiple),
    .low_o(unused_low[2])
  );
  hg_delay #(
      .WIDTH (W + 1),
      .CYCLES(P)
  ) i_product_late (
    .clk_i,
    .d_i(product),
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

  logic [W:0] rest;
  logic [W+1:0] less;
  logic unused_less;
  assign less = {1'b0, rest} - {2'b0, q_late};
  assign unused_less = less[W];
  always_ff @(posedge clk_i) begin
    rest <= product_late - multiple;
    z_o  <= less[W+1] ? rest[W-1:0] : less[W-1:0];
  end

endmodule
