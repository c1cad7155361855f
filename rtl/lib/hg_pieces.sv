// Sums the pieces of hg_product_sum: sum_o = ll_i + 2^24 lh_i + 2^17 hl_i + 2^41 hh_i + PLUS, its low OW bits. Latency 2.
module hg_pieces #(
    parameter int unsigned LL = 45,
    parameter int unsigned LH = 27,
    parameter int unsigned HL = 41,
    parameter int unsigned HH = 23,
    parameter int unsigned OW = 64,
    parameter logic [OW-1:0] PLUS = '0
) (
    input  logic          clk_i,
    input  logic [LL-1:0] ll_i,
    input  logic [LH-1:0] lh_i,
    input  logic [HL-1:0] hl_i,
    input  logic [HH-1:0] hh_i,
    output logic [OW-1:0] sum_o
);

  localparam int unsigned AL = 17, BL = 24;
  localparam int unsigned HIGH = OW - AL;
  if (OW <= AL + BL) begin : g_check
    $error("hg_pieces: a sum of more than 41 bits");
  end

  logic [  OW-1:0] low;
  logic [HIGH-1:0] high;
  always_ff @(posedge clk_i) begin
    low <= OW'(ll_i) + (OW'(lh_i) << BL);
    high <= (HIGH'(hl_i) + (HIGH'(hh_i) << BL)) + PLUS[OW-1:AL];
    sum_o[AL-1:0] <= low[AL-1:0];
    sum_o[OW-1:AL] <= high + low[OW-1:AL];
  end
  if (PLUS[AL-1:0] != 0) begin : g_plus
    $error("hg_pieces: PLUS is a multiple of 2^17");
  end

endmodule
