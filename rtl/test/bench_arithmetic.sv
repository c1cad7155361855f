// Arithmetic of lanes, butterflies and conversions, driven by test_arithmetic.cpp.
//   reduced_o   0 to 2: reduced sums of 2^2, 2^4 and 2^6 products (hg_reduce_sum), from the low bits of sum_i and v_i
//   pieces_o    sums of pieces as in the conversion (hg_pieces): of a target, and of v with 2^57 added for rounding
//   sum_*_o     sums of 16 products in pieces (hg_product_sum), with constants of 30 and of 48 bits
module bench_arithmetic #(
    parameter int unsigned W = 30
) (
    input  logic                clk_i,
    input  logic [ 65:0]        sum_i,
    input  logic [  6:0]        v_i,
    input  logic [W-1:0]        wrap_i,
    input  logic [W-1:0]        fold_i,
    input  logic [W-1:0]        normal_i,
    input  logic [  W:0]        k_i,
    input  logic [  4:0]        shift_i,
    output logic [  2:0][W-1:0] reduced_o,
    input  logic [ 44:0]        ll_i,
    input  logic [ 44:0]        lh_i,
    input  logic [ 40:0]        hl_i,
    input  logic [ 40:0]        hh_i,
    output logic [  1:0][ 63:0] pieces_o,
    input  logic                add_i,
    input  logic                first_i,
    input  logic [W-1:0]        a_i,
    input  logic [ 47:0]        b_i,
    output logic [ 44:0]        sum_ll_o,
    output logic [ 26:0]        sum_lh_o,
    output logic [ 40:0]        sum_hl_o,
    output logic [ 22:0]        sum_hh_o,
    output logic [ 44:0]        long_ll_o,
    output logic [ 44:0]        long_lh_o,
    output logic [ 40:0]        long_hl_o,
    output logic [ 40:0]        long_hh_o,
    input  logic [W-1:0]        q_i,
    input  logic [W+1:0]        four_i,
    output logic [W-1:0]        less_o,      // four_i, which is below 4 q_i, modulo q_i
    input  logic                subtract_i,
    input  logic [W-1:0]        x_i,
    input  logic [W-1:0]        y_i,
    input  logic [W-1:0]        z_i,
    output logic [W-1:0]        lane_o,
    input  logic                inverse_i,
    input  logic [W-1:0]        w_i,
    output logic [W-1:0]        upper_o,
    output logic [W-1:0]        lower_o
);

  for (genvar i = 0; i < 3; ++i) begin : g_reduce
    localparam int unsigned MORE = 2 + 2 * i;
    hg_reduce_sum #(
        .W(W),
        .MORE(MORE)
    ) i_reduce (
      .clk_i,
      .sum_i(sum_i[2*W+MORE-1:0]),
      .v_i  (v_i[MORE:0]),
      .wrap_i,
      .fold_i,
      .normal_i,
      .k_i,
      .shift_i,
      .z_o  (reduced_o[i])
    );
  end
  hg_pieces i_pieces (
    .clk_i,
    .ll_i,
    .lh_i (lh_i[26:0]),
    .hl_i,
    .hh_i (hh_i[22:0]),
    .sum_o(pieces_o[0])
  );
  assign pieces_o[1][63] = 1'b0;
  hg_pieces #(
      .LH  (45),
      .HH  (41),
      .OW  (63),
      .PLUS(63'(1) << 57)
  ) i_rounded (
    .clk_i,
    .ll_i,
    .lh_i,
    .hl_i,
    .hh_i,
    .sum_o(pieces_o[1][62:0])
  );
  hg_product_sum i_sum (
    .clk_i,
    .add_i,
    .first_i,
    .a_i,
    .b_i (b_i[29:0]),
    .ll_o(sum_ll_o),
    .lh_o(sum_lh_o),
    .hl_o(sum_hl_o),
    .hh_o(sum_hh_o)
  );
  hg_product_sum #(
      .BW(48)
  ) i_long (
    .clk_i,
    .add_i,
    .first_i,
    .a_i,
    .b_i,
    .ll_o(long_ll_o),
    .lh_o(long_lh_o),
    .hl_o(long_hl_o),
    .hh_o(long_hh_o)
  );
  hg_reduce4 #(
      .W(W)
  ) i_less (
    .clk_i,
    .v_i(four_i),
    .q_i,
    .z_o(less_o)
  );
  hg_lane #(
      .W(W)
  ) i_lane (
    .clk_i,
    .subtract_i,
    .q_i,
    .normal_i,
    .k_i,
    .shift_i,
    .a_i(x_i),
    .b_i(y_i),
    .c_i(z_i),
    .z_o(lane_o)
  );
  hg_butterfly #(
      .W(W)
  ) i_butterfly (
    .clk_i,
    .inverse_i,
    .q_i,
    .u_i(x_i),
    .v_i(y_i),
    .w_i,
    .x_o(upper_o),
    .y_o(lower_o)
  );

endmodule
