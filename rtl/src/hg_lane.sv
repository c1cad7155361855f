// A lane of the pointwise unit: z = c + a b or c - a b modulo q. The lane multiplies b << s modulo q << s, which has its top
// bit set, and shifts the product right by s. Latency 16, one result a cycle. All inputs arrive in the same cycle:
// subtract_i, q_i (of the sum), normal_i (q << s), k_i (its Barrett constant), shift_i (s).
module hg_lane #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic         subtract_i,
    input  logic [W-1:0] q_i,
    input  logic [W-1:0] normal_i,
    input  logic [  W:0] k_i,
    input  logic [  4:0] shift_i,
    input  logic [W-1:0] a_i,
    input  logic [W-1:0] b_i,
    input  logic [W-1:0] c_i,
    output logic [W-1:0] z_o
);

  localparam int unsigned M = hg_pkg::BARRETT_LATENCY;
  if (M + 4 != hg_pkg::LANE_LATENCY) begin : g_check
    $error("hg_lane: latency");
  end

  // Cycle 1 shifts b; the product is ready in cycle 1 + M. One cycle shifts the product back, and two cycles compute the
  // sum.
  logic [W-1:0] a, b, normal, product, back, c, q;
  logic [W:0] k;
  logic [4:0] shift;
  logic subtract;
  always_ff @(posedge clk_i) begin
    a <= a_i;
    b <= b_i << shift_i;
    normal <= normal_i;
    k <= k_i;
    back <= product >> shift;
  end
  hg_mul_barrett #(
      .W(W)
  ) i_mul (
    .clk_i,
    .x_i(b),
    .y_i(a),
    .q_i(normal),
    .k_i(k),
    .z_o(product)
  );
  hg_delay #(
      .WIDTH (5),
      .CYCLES(M + 1)
  ) i_shift (
    .clk_i,
    .d_i(shift_i),
    .d_o(shift)
  );
  hg_delay #(
      .WIDTH (2 * W + 1),
      .CYCLES(M + 2)
  ) i_late (
    .clk_i,
    .d_i({subtract_i, q_i, c_i}),
    .d_o({subtract, q, c})
  );

  // Computes c + p - q or c - p; a negative result is corrected by adding q.
  logic [W+1:0] sum;
  logic [W-1:0] q_late;
  logic signed [W+1:0] plus, minus;
  assign plus  = $signed({2'b0, c}) + $signed({2'b0, back}) - $signed({2'b0, q});
  assign minus = $signed({2'b0, c}) - $signed({2'b0, back});
  always_ff @(posedge clk_i) begin
    sum <= subtract ? minus : plus;
    q_late <= q;
    z_o <= sum[W-1:0] + (sum[W+1] ? q_late : '0);
  end
  logic unused;
  assign unused = sum[W];

endmodule
