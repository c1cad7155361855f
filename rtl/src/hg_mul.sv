// One of the available multipliers, behind one interface: z = x * y mod q.
//   KIND              y_i               q_i            k_i                             latency (W = 30)   prime_i, tables
//   KIND_MONTGOMERY   c 2^W mod q       1 mod 2^STEP   -                                9                 -
//   KIND_SHOUP        a constant        any            floor(y 2^W / q)                 8                 -
//   KIND_BARRETT      any               top bit set    min(floor(4^W / q), 2^(W+1)-1)  12                 -
//   KIND_WINDOW       any               top bit set    -                               11 (WIDTH 6)       written at run time
// One product a cycle; the latency is hg_pkg::mul_latency(KIND, W, STEP, WIDTH).
module hg_mul #(
    parameter int unsigned KIND = hg_pkg::KIND_WINDOW,
    parameter int unsigned W = 30,
    parameter int unsigned STEP = 10,
    parameter int unsigned WIDTH = 6,
    parameter int unsigned PRIMES = 1,
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
    input  logic [         W:0] k_i,
    output logic [       W-1:0] z_o
);

  if (KIND > hg_pkg::KIND_WINDOW) begin : g_check
    $error("hg_mul: KIND is one of hg_pkg's");
  end

  logic unused;
  if (KIND == hg_pkg::KIND_WINDOW) begin : g_window
    hg_mul_window #(
        .W(W),
        .WIDTH(WIDTH),
        .PRIMES(PRIMES)
    ) i_mul (
      .clk_i,
      .we_i,
      .entry_i,
      .data_i,
      .prime_i,
      .x_i,
      .y_i,
      .q_i,
      .z_o
    );
    assign unused = ^k_i;
  end else begin : g_other
    assign unused = ^{we_i, entry_i, data_i, prime_i, k_i};
    if (KIND == hg_pkg::KIND_MONTGOMERY) begin : g_montgomery
      hg_mul_montgomery #(
          .W(W),
          .STEP(STEP)
      ) i_mul (
        .clk_i,
        .x_i,
        .y_i,
        .q_i,
        .z_o
      );
    end else if (KIND == hg_pkg::KIND_SHOUP) begin : g_shoup
      hg_mul_shoup #(
          .W(W)
      ) i_mul (
        .clk_i,
        .x_i,
        .y_i,
        .q_i,
        .k_i(k_i[W-1:0]),
        .z_o
      );
    end else begin : g_barrett
      hg_mul_barrett #(
          .W(W)
      ) i_mul (
        .clk_i,
        .x_i,
        .y_i,
        .q_i,
        .k_i,
        .z_o
      );
    end
  end

endmodule
