// All multipliers on the same operands, driven by test_multipliers.cpp.
// Entries of z_o: 0 Montgomery, 1 Shoup, 2 Barrett, 3 to 8 window multipliers, 9 the sum, 10 the difference. Odd window
// multipliers have windows of 6 bits, even ones of 2 bits. Entries 3 and 4 have the table of one modulus in LUT RAM, entries
// 5 and 6 the tables of PRIMES moduli. Entries 7 and 8 have one modulus, fixed at elaboration.
module bench_multipliers #(
    parameter int unsigned W = 30,
    parameter int unsigned PRIMES = 15,
    parameter logic [W-1:0] Q = 30'd1073643521
) (
    input  logic                clk_i,
    input  logic                we_i,
    input  logic [ 11:0]        entry_i,
    input  logic [W-1:0]        data6_i,
    input  logic [W-1:0]        data2_i,
    input  logic [  3:0]        prime_i,
    input  logic [W-1:0]        x_i,
    input  logic [W-1:0]        y_i,
    input  logic [W-1:0]        q_i,
    input  logic [W-1:0]        shoup_i,
    input  logic [  W:0]        barrett_i,
    output logic [ 10:0][W-1:0] z_o,
    output logic [ 10:0][  7:0] latency_o
);
  import hg_pkg::*;

  // Multipliers without tables.
  localparam int unsigned KINDS[3] = '{KIND_MONTGOMERY, KIND_SHOUP, KIND_BARRETT};
  logic [W:0] k[3];
  assign k = '{'0, {1'b0, shoup_i}, barrett_i};
  for (genvar i = 0; i < 3; ++i) begin : g_plain
    hg_mul #(
        .KIND(KINDS[i]),
        .W(W)
    ) i_mul (
      .*,
      .k_i(k[i]),
      .z_o(z_o[i]),
      .we_i(1'b0),
      .entry_i('0),
      .data_i('0),
      .prime_i('0)
    );
  end

  // Window multipliers with tables in LUT RAM, alternately with windows of 6 and 2 bits. The first two multipliers hold the
  // table of one modulus (entries of prime 0), the other two the tables of PRIMES moduli.
  for (genvar i = 0; i < 4; ++i) begin : g_window
    localparam int unsigned WIDTH = i % 2 == 0 ? 6 : 2;
    localparam int unsigned PW = i < 2 ? 1 : $clog2(PRIMES);
    localparam int unsigned BITS = WIDTH + (i < 2 ? 0 : PW);  // bits of an entry's index
    hg_mul #(
        .KIND(KIND_WINDOW),
        .W(W),
        .WIDTH(WIDTH),
        .PRIMES(i < 2 ? 1 : PRIMES)
    ) i_mul (
      .clk_i,
      .we_i(we_i && (entry_i >> BITS) == 0),
      .entry_i(entry_i[PW+WIDTH-1:0]),
      .data_i(WIDTH == 6 ? data6_i : data2_i),
      .prime_i(PW'(i < 2 ? 4'd0 : prime_i)),
      .x_i,
      .y_i,
      .q_i,
      .k_i('0),
      .z_o(z_o[3+i])
    );
  end

  // Window multipliers with the table of one modulus, Q, computed at elaboration.
  for (genvar i = 0; i < 2; ++i) begin : g_fixed
    hg_mul_window #(
        .W(W),
        .WIDTH(i == 0 ? 6 : 2),
        .RUNTIME(0),
        .QS(Q)
    ) i_mul (
      .*,
      .we_i(1'b0),
      .entry_i('0),
      .data_i('0),
      .prime_i('0),
      .z_o(z_o[7+i])
    );
  end

  hg_mod_add #(
      .W(W)
  ) i_add (
    .clk_i,
    .x_i,
    .y_i,
    .q_i,
    .z_o(z_o[9])
  );
  hg_mod_sub #(
      .W(W)
  ) i_sub (
    .clk_i,
    .x_i,
    .y_i,
    .q_i,
    .z_o(z_o[10])
  );

  assign latency_o = {
    8'(SUB_LATENCY),
    8'(ADD_LATENCY),
    8'(window_latency(W, 2)),
    8'(window_latency(W, 6)),
    8'(window_latency(W, 2)),
    8'(window_latency(W, 6)),
    8'(window_latency(W, 2)),
    8'(mul_latency(KIND_WINDOW, W, 10, 6)),
    8'(mul_latency(KIND_BARRETT, W, 10, 6)),
    8'(mul_latency(KIND_SHOUP, W, 10, 6)),
    8'(mul_latency(KIND_MONTGOMERY, W, 10, 6))
  };

endmodule
