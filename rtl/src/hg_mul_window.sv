// z = x * y mod q by sliding windows (the slides of the FPGA project, papers). From the top, WIDTH bits of the product at a
// time are replaced by table[w] = w * 2^W mod q in lower bits. The sum may carry into the lowest bit of the window, so the
// next window contains this bit again. The remaining sum is in [0, 3q). Moduli have their top bit set: q in [2^(W-1), 2^W).
//   RUNTIME = 0   tables of the PRIMES moduli in QS, lookup tables made at elaboration
//   RUNTIME = 1   tables in LUT RAM, written through we_i: entry {prime, w} is data_i. QS is not used.
// Latency 5 + windows (W = 30: 6 windows of 6 bits, 29 of 2), one product a cycle; prime_i and q_i come with the operands.
module hg_mul_window #(
    parameter int unsigned W = 30,
    parameter int unsigned WIDTH = 6,
    parameter int unsigned PRIMES = 1,
    parameter bit RUNTIME = 1,
    parameter logic [PRIMES-1:0][W-1:0] QS = '0,
    localparam int unsigned PW = PRIMES > 1 ? $clog2(PRIMES) : 1
) (
    input  logic                clk_i,
    input  logic                we_i,
    input  logic [PW+WIDTH-1:0] entry_i,
    input  logic [       W-1:0] data_i,
    input  logic [      PW-1:0] prime_i,
    input  logic [       W-1:0] x_i,
    input  logic [       W-1:0] y_i,
    input  logic [       W-1:0] q_i,
    output logic [       W-1:0] z_o
);

  localparam int unsigned P = hg_pkg::PRODUCT_LATENCY;
  localparam int unsigned K = hg_pkg::windows(W, WIDTH);
  localparam int unsigned ENTRIES = PRIMES << WIDTH;
  if (W > 32 || WIDTH < 2 || WIDTH > 8 || WIDTH >= W || PRIMES < 1) begin : g_check
    $error("hg_mul_window: W up to 32, windows of 2 to 8 bits, one prime or more");
  end
  for (genvar i = 0; i < PRIMES; ++i) begin : g_check_prime
    if (!RUNTIME && QS[i][W-1] == 1'b0) begin : g_short
      $error("hg_mul_window: each modulus in QS has its top bit set");
    end
  end

  logic [2*W-1:0] product;
  logic [16:0] unused_low;
  hg_product #(
      .AW(W),
      .BW(W)
  ) i_product (
    .clk_i,
    .a_i  (x_i),
    .b_i  (y_i),
    .p_o  (product),
    .low_o(unused_low)
  );

  logic [PW-1:0] prime[K];
  hg_delay #(
      .WIDTH (PW),
      .CYCLES(P)
  ) i_prime (
    .clk_i,
    .d_i(prime_i),
    .d_o(prime[0])
  );
  for (genvar k = 1; k < K; ++k) begin : g_prime
    always_ff @(posedge clk_i) prime[k] <= prime[k-1];
  end

  function automatic logic [W-1:0] constant(int unsigned entry);
    logic [63:0] w = 64'(WIDTH'(entry)) << W;
    logic [63:0] q = 64'(QS[entry>>WIDTH]);
    return q == 0 ? '0 : W'(w % q);
  endfunction

  for (genvar k = 0; k < K; ++k) begin : g_window
    // The bits of the window are [HI:LO]; a window step does not change the bits below LO.
    localparam int unsigned HI = 2 * W - 1 - k * (WIDTH - 1);
    localparam int unsigned WANTED = HI + 1 - WIDTH;
    localparam int unsigned LO = WANTED > W ? WANTED : W;
    logic [HI:0] held;
    logic [LO:0] sum;
    logic [WIDTH-1:0] w;
    logic [W-1:0] replaced;
    if (k == 0) begin : g_first
      assign held = product;
    end else begin : g_later
      assign held = g_window[k-1].sum;
    end
    assign w = WIDTH'(held[HI:LO]);

    if (RUNTIME) begin : g_ram
      (* ram_style = "distributed" *)
      logic [W-1:0] entries[ENTRIES];
      always_ff @(posedge clk_i) if (we_i) entries[($clog2(ENTRIES))'(entry_i)] <= data_i;
      assign replaced = entries[($clog2(ENTRIES))'({prime[k], w})];
    end else begin : g_rom
      logic [W-1:0] entries[ENTRIES];
      for (genvar e = 0; e < ENTRIES; ++e) begin : g_entry
        assign entries[e] = constant(e);
      end
      assign replaced = entries[($clog2(ENTRIES))'({prime[k], w})];
    end

    always_ff @(posedge clk_i) sum <= (LO + 1)'(held[LO-1:0]) + ((LO + 1)'(replaced) << (LO - W));
  end

  logic [W-1:0] q;
  hg_delay #(
      .WIDTH (W),
      .CYCLES(P + K)
  ) i_q (
    .clk_i,
    .d_i(q_i),
    .d_o(q)
  );
  hg_reduce4 #(
      .W(W)
  ) i_reduce (
    .clk_i,
    .v_i({1'b0, g_window[K-1].sum}),
    .q_i(q),
    .z_o
  );

  logic unused;
  assign unused = ^{unused_low, we_i & ~RUNTIME, entry_i, data_i};

endmodule
