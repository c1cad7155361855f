// z = x * y / 2^W mod q for primes q = 1 mod 2^STEP. A constant y contains the factor: y = c * 2^W mod q gives z = x * c, a
// canonical residue. Each step removes STEP bits: t - (t mod 2^STEP) * q is a multiple of 2^STEP. As q = 1 modulo 2^STEP, no
// inverse of q is needed. After W bits t is in (-q, q). Latency 3 + 2 W / STEP, one product a cycle. q_i comes with the
// operands. x * y < 2^W q.
module hg_mul_montgomery #(
    parameter int unsigned W = 30,
    parameter int unsigned STEP = 10
) (
    input  logic         clk_i,
    input  logic [W-1:0] x_i,
    input  logic [W-1:0] y_i,
    input  logic [W-1:0] q_i,
    output logic [W-1:0] z_o
);

  localparam int unsigned STEPS = W / STEP;
  if (STEP < 2 || STEP > 17 || W % STEP != 0 || STEPS < 2) begin : g_check
    $error("hg_mul_montgomery: STEP of 2 to 17 bits must divide W at least twice");
  end

  logic [2*W-1:0] product;
  logic [16:0] low;
  hg_product #(
      .AW(W),
      .BW(W)
  ) i_product (
    .clk_i,
    .a_i  (x_i),
    .b_i  (y_i),
    .p_o  (product),
    .low_o(low)
  );

  // Delayed copies of q, one for each step. Step 0 multiplies in cycle 1, step s in cycle 2 + 2 s. The last addition is in
  // cycle 2 + 2 STEPS.
  logic [W-1:0] q[STEPS+1];
  hg_delay #(
      .WIDTH (W),
      .CYCLES(1)
  ) i_first (
    .clk_i,
    .d_i(q_i),
    .d_o(q[0])
  );

  // The product digit * (q >> STEP) of step s. A multiplier computes the multiple for the lower 18 bits of q; the remaining
  // bits need few gates.
  localparam int unsigned LOW = W - STEP > 18 ? 18 : W - STEP;
  localparam int unsigned HIGH = W - STEP > LOW ? W - STEP - LOW : 1;
  function automatic logic [HIGH+STEP-1:0] times(input logic [STEP-1:0] digit, input logic [HIGH-1:0] few);
    times = '0;
    for (int i = 0; i < int'(HIGH); ++i) if (few[i]) times += (HIGH + STEP)'(digit) << i;
  endfunction

  for (genvar s = 0; s < STEPS; ++s) begin : g_step
    localparam int unsigned HAS = 2 * W + 1 - s * STEP;  // bits of t, including its sign
    logic [STEP-1:0] digit;
    logic [LOW+STEP-1:0] multiple_low;
    logic [HIGH+STEP-1:0] multiple_high;
    logic signed [HAS-STEP-1:0] rest, multiple;
    assign multiple_high = times(digit, HIGH'(q[s] >> (STEP + LOW)));
    always_ff @(posedge clk_i) multiple_low <= (LOW + STEP)'(digit) * (LOW + STEP)'(q[s][STEP+LOW-1:STEP]);
    if (s == 0) begin : g_first
      // The digit is ready two cycles before the product, so its multiple is computed in these cycles.
      logic [HIGH+STEP-1:0] high;
      assign digit = low[STEP-1:0];
      assign rest  = $signed({1'b0, product[2*W-1:STEP]});
      always_ff @(posedge clk_i) begin
        high <= multiple_high;
        multiple <= $signed((HAS - STEP)'(multiple_low)) + $signed((HAS - STEP)'({high, LOW'(0)}));
      end
    end else begin : g_later
      assign digit = g_step[s-1].t[STEP-1:0];
      assign multiple = $signed((HAS - STEP)'(multiple_low));
      always_ff @(posedge clk_i) begin
        rest <= $signed(g_step[s-1].t[HAS-1:STEP]) - $signed((HAS - STEP)'({multiple_high, LOW'(0)}));
      end
    end

    logic signed [HAS-STEP-1:0] t;
    always_ff @(posedge clk_i) t <= rest - multiple;

    hg_delay #(
        .WIDTH (W),
        .CYCLES(s == 0 ? 3 : 2)
    ) i_q (
      .clk_i,
      .d_i(q[s]),
      .d_o(q[s+1])
    );
  end

  // The number has W + 1 bits and the sign; all higher bits equal the sign.
  logic negative, unused;
  assign negative = g_step[STEPS-1].t[W];
  assign unused   = ^{product[STEP-1:0], low};
  always_ff @(posedge clk_i) z_o <= g_step[STEPS-1].t[W-1:0] + (negative ? q[STEPS] : '0);

  if (hg_pkg::montgomery_latency(W, STEP) != hg_pkg::PRODUCT_LATENCY - 1 + 2 * STEPS + 1) begin : g_latency
    $error("hg_mul_montgomery: latency");
  end

endmodule
