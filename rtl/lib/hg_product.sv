// Unsigned product of two words, or its low OW bits, in pieces of 17 bits. Each piece is one multiplier of an xc7 (25x18) or
// of an ECP5 (18x18).
//   p_o     a_i * b_i, low OW bits                          latency 3
//   low_o   the low 17 bits of the product, two cycles before p_o (latency 1)
// One product a cycle. Operands must come from registers.
module hg_product #(
    parameter int unsigned AW = 30,
    parameter int unsigned BW = 30,
    parameter int unsigned OW = AW + BW
) (
    input  logic          clk_i,
    input  logic [AW-1:0] a_i,
    input  logic [BW-1:0] b_i,
    output logic [OW-1:0] p_o,
    output logic [  16:0] low_o
);

  localparam int unsigned AL = 17, BL = 17;
  localparam int unsigned AH = AW - AL, BH = BW - BL;

  if (AW <= AL || AW > 2 * AL || BW <= BL || BW > 2 * BL || OW > AW + BW || OW <= BL) begin : g_check
    $error("hg_product: operands of 18 to 34 bits, a result of 18 bits to their sum");
  end

  // Four pieces, without the bits above OW, so that a product of few low bits needs fewer bits.
  localparam int unsigned LL = AL + BL > OW ? OW : AL + BL;
  localparam int unsigned LH = BL + AL + BH > OW ? OW - BL : AL + BH;
  localparam int unsigned HL = AL + AH + BL > OW ? OW - AL : AH + BL;
  localparam bit CORNER = OW > AL + BL;
  localparam int unsigned HH = CORNER ? (AW + BW > OW ? OW - AL - BL : AH + BH) : 1;

  logic [LL-1:0] ll;
  logic [LH-1:0] lh;
  logic [HL-1:0] hl;
  always_ff @(posedge clk_i) begin
    ll <= LL'(LL'(a_i[AL-1:0]) * LL'(b_i[BL-1:0]));
    lh <= LH'(LH'(a_i[AL-1:0]) * LH'(b_i[BW-1:BL]));
    hl <= HL'(HL'(a_i[AW-1:AL]) * HL'(b_i[BL-1:0]));
  end

  // First computes the sums for a_low * b and for a_high * b, then the sum of both.
  localparam int unsigned LOW = AL + BW > OW ? OW : AL + BW;
  localparam int unsigned HIGH = OW - AL;
  logic [ LOW-1:0] low;
  logic [HIGH-1:0] high;
  always_ff @(posedge clk_i) begin
    low[BL-1:0]   <= ll[BL-1:0];
    low[LOW-1:BL] <= (LOW - BL)'(lh) + (LOW - BL)'(ll[LL-1:BL]);
  end
  if (CORNER) begin : g_corner
    logic [HH-1:0] hh;
    always_ff @(posedge clk_i) begin
      hh <= HH'(HH'(a_i[AW-1:AL]) * HH'(b_i[BW-1:BL]));
      high[BL-1:0] <= hl[BL-1:0];
      high[HIGH-1:BL] <= (HIGH - BL)'(hh) + (HIGH - BL)'(hl[HL-1:BL]);
    end
  end else begin : g_no_corner
    always_ff @(posedge clk_i) high <= HIGH'(hl);
  end

  always_ff @(posedge clk_i) begin
    p_o[AL-1:0]  <= low[AL-1:0];
    p_o[OW-1:AL] <= high + HIGH'(low[LOW-1:AL]);
  end
  assign low_o = ll[AL-1:0];

endmodule
