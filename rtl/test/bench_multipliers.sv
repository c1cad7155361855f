// The whole menu side by side on the same operands: what test_multipliers.cpp drives.
// z_o: 0 Montgomery, 1 Shoup, 2 Barrett, 3 window of 6 in LUT RAM, 4 of 2 in LUT RAM, 5 and 6 the same with
// tables of PRIMES moduli, 7 and 8 windows of 6 and 2 with one modulus made at elaboration, 9 sum, 10 difference.
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

  hg_mul #(
      .KIND(KIND_MONTGOMERY),
      .W(W)
  ) i_montgomery (
    .clk_i,
    .we_i(1'b0),
    .entry_i('0),
    .data_i('0),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .k_i('0),
    .z_o(z_o[0])
  );
  hg_mul #(
      .KIND(KIND_SHOUP),
      .W(W)
  ) i_shoup (
    .clk_i,
    .we_i(1'b0),
    .entry_i('0),
    .data_i('0),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .k_i({1'b0, shoup_i}),
    .z_o(z_o[1])
  );
  hg_mul #(
      .KIND(KIND_BARRETT),
      .W(W)
  ) i_barrett (
    .clk_i,
    .we_i(1'b0),
    .entry_i('0),
    .data_i('0),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .k_i(barrett_i),
    .z_o(z_o[2])
  );
  // One modulus at a time: the entries of prime 0.
  hg_mul #(
      .KIND(KIND_WINDOW),
      .W(W),
      .WIDTH(6)
  ) i_window6 (
    .clk_i,
    .we_i(we_i && entry_i < 64),
    .entry_i(entry_i[6:0]),
    .data_i(data6_i),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .k_i('0),
    .z_o(z_o[3])
  );
  hg_mul #(
      .KIND(KIND_WINDOW),
      .W(W),
      .WIDTH(2)
  ) i_window2 (
    .clk_i,
    .we_i(we_i && entry_i < 4),
    .entry_i(entry_i[2:0]),
    .data_i(data2_i),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .k_i('0),
    .z_o(z_o[4])
  );
  hg_mul #(
      .KIND(KIND_WINDOW),
      .W(W),
      .WIDTH(6),
      .PRIMES(PRIMES)
  ) i_window6_many (
    .clk_i,
    .we_i,
    .entry_i(entry_i[9:0]),
    .data_i(data6_i),
    .prime_i,
    .x_i,
    .y_i,
    .q_i,
    .k_i('0),
    .z_o(z_o[5])
  );
  hg_mul #(
      .KIND(KIND_WINDOW),
      .W(W),
      .WIDTH(2),
      .PRIMES(PRIMES)
  ) i_window2_many (
    .clk_i,
    .we_i(we_i && entry_i < 64),
    .entry_i(entry_i[5:0]),
    .data_i(data2_i),
    .prime_i,
    .x_i,
    .y_i,
    .q_i,
    .k_i('0),
    .z_o(z_o[6])
  );
  hg_mul_window #(
      .W(W),
      .WIDTH(6),
      .RUNTIME(0),
      .QS(Q)
  ) i_fixed6 (
    .clk_i,
    .we_i(1'b0),
    .entry_i('0),
    .data_i('0),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .z_o(z_o[7])
  );
  hg_mul_window #(
      .W(W),
      .WIDTH(2),
      .RUNTIME(0),
      .QS(Q)
  ) i_fixed2 (
    .clk_i,
    .we_i(1'b0),
    .entry_i('0),
    .data_i('0),
    .prime_i('0),
    .x_i,
    .y_i,
    .q_i,
    .z_o(z_o[8])
  );
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
