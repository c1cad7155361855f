// A butterfly of the NTT on two residues.
//   forward   x = u + v w          y = u - v w            (Cooley-Tukey)
//   inverse   x = (u + v) / 2      y = (v - u) / 2 * w    (Gentleman-Sande; halved here, so that no pass divides by N)
// w_i is the twiddle times 2^W mod q. The inverse of the forward step with w = psi^e uses the twiddle -psi^-e, another entry
// of the same table. Latency 5 plus the latency of Montgomery's product (14), one butterfly a cycle. q_i and inverse_i come
// with u_i and v_i, w_i three cycles later.
module hg_butterfly #(
    parameter int unsigned W = 30,
    parameter int unsigned STEP = 10
) (
    input  logic         clk_i,
    input  logic         inverse_i,
    input  logic [W-1:0] q_i,
    input  logic [W-1:0] u_i,
    input  logic [W-1:0] v_i,
    input  logic [W-1:0] w_i,
    output logic [W-1:0] x_o,
    output logic [W-1:0] y_o
);

  localparam int unsigned M = hg_pkg::montgomery_latency(W, STEP);
  if (M + 5 != hg_pkg::butterfly_latency(W, STEP)) begin : g_check
    $error("hg_butterfly: latency");
  end

  // Steps before the product. In the forward direction both sums are doubled, so that the halving restores the operands.
  logic [W:0] sum;
  logic signed [W+1:0] difference;
  logic signed [W+1:0] even_sum, even_difference;  // even numbers that are congruent to sum and difference modulo q
  logic [W-1:0] a, b, q1, q2, q3;
  logic signed [W+1:0] v, other;
  assign v = $signed({2'b0, v_i});
  assign other = inverse_i ? ~$signed({2'b0, u_i}) : v;  // -u - 1
  always_ff @(posedge clk_i) begin
    sum <= {1'b0, u_i} + {1'b0, inverse_i ? v_i : u_i};
    difference <= v + other + $signed({{(W + 1) {1'b0}}, inverse_i});
    even_sum <= $signed({1'b0, sum}) - $signed({2'b0, sum[0] ? q1 : '0});
    even_difference <= difference + $signed({2'b0, difference[0] ? q1 : '0});
    a <= even_sum[W:1] + (even_sum[W+1] ? q2 : '0);
    b <= even_difference[W:1] + (even_difference[W+1] ? q2 : '0);
    q1 <= q_i;
    q2 <= q1;
    q3 <= q2;
  end

  logic [W-1:0] product, a_late, q_late;
  logic inverse_late;
  hg_mul_montgomery #(
      .W(W),
      .STEP(STEP)
  ) i_mul (
    .clk_i,
    .x_i(b),
    .y_i(w_i),
    .q_i(q3),
    .z_o(product)
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(M)
  ) i_a (
    .clk_i,
    .d_i(a),
    .d_o(a_late)
  );
  hg_delay #(
      .WIDTH (1),
      .CYCLES(3 + M)
  ) i_inverse (
    .clk_i,
    .d_i(inverse_i),
    .d_o(inverse_late)
  );
  hg_delay #(
      .WIDTH (W),
      .CYCLES(M + 1)
  ) i_q (
    .clk_i,
    .d_i(q3),
    .d_o(q_late)
  );

  // Steps after the product. In the inverse direction, the sum and the difference are taken before the product, and these
  // steps do not change them.
  logic [  W:0] after_sum;
  logic [  W:0] after_difference;
  logic [W+1:0] less;
  assign less = {1'b0, after_sum} - {2'b0, q_late};
  always_ff @(posedge clk_i) begin
    after_sum <= {1'b0, a_late} + {1'b0, inverse_late ? '0 : product};
    after_difference <= inverse_late ? {1'b0, product} : {1'b0, a_late} - {1'b0, product};
    x_o <= less[W+1] ? after_sum[W-1:0] : less[W-1:0];
    y_o <= after_difference[W-1:0] + (after_difference[W] ? q_late : '0);
  end
  logic unused;
  assign unused = ^{less[W], even_sum[0], even_difference[0]};

endmodule
