// A sum of products of two words, as the sums of four pieces. Each piece is a product that fits a 24x17 multiplier, and a
// sum below 2^48, so that one xc7 DSP computes both. hg_pieces adds the four sums.
//   add_i, first_i   come one cycle after a_i and b_i: whether their product is added, and whether it starts a new sum
//   *_o              the pieces, two cycles after a_i and b_i:
//                    sum a b = ll + 2^24 lh + 2^17 hl + 2^41 hh
// One product a cycle, at most TERMS in a sum.
module hg_product_sum #(
    parameter int unsigned AW = 30,
    parameter int unsigned BW = 30,
    parameter int unsigned TERMS = 16,
    localparam int unsigned AL = 17,
    localparam int unsigned BL = 24,
    localparam int unsigned MORE = $clog2(TERMS)
) (
    input  logic                        clk_i,
    input  logic                        add_i,
    input  logic                        first_i,
    input  logic [              AW-1:0] a_i,
    input  logic [              BW-1:0] b_i,
    output logic [      AL+BL+MORE-1:0] ll_o,
    output logic [   AL+BW-BL+MORE-1:0] lh_o,
    output logic [   AW-AL+BL+MORE-1:0] hl_o,
    output logic [AW-AL+BW-BL+MORE-1:0] hh_o
);

  localparam int unsigned AH = AW - AL, BH = BW - BL;
  if (AW <= AL || AW > 2 * AL || BW <= BL || BW > 2 * BL || AL + BL + MORE > 48) begin : g_check
    $error("hg_product_sum: operands of 18 to 34 and 25 to 48 bits, 128 terms at most");
  end

  logic [AL+BL-1:0] ll;
  logic [AL+BH-1:0] lh;
  logic [AH+BL-1:0] hl;
  logic [AH+BH-1:0] hh;
  always_ff @(posedge clk_i) begin
    ll <= (AL + BL)'(a_i[AL-1:0]) * (AL + BL)'(b_i[BL-1:0]);
    lh <= (AL + BH)'(a_i[AL-1:0]) * (AL + BH)'(b_i[BW-1:BL]);
    hl <= (AH + BL)'(a_i[AW-1:AL]) * (AH + BL)'(b_i[BL-1:0]);
    hh <= (AH + BH)'(a_i[AW-1:AL]) * (AH + BH)'(b_i[BW-1:BL]);
    if (add_i) begin
      ll_o <= (first_i ? '0 : ll_o) + (AL + BL + MORE)'(ll);
      lh_o <= (first_i ? '0 : lh_o) + (AL + BH + MORE)'(lh);
      hl_o <= (first_i ? '0 : hl_o) + (AH + BL + MORE)'(hl);
      hh_o <= (first_i ? '0 : hh_o) + (AH + BH + MORE)'(hh);
    end
  end

endmodule
