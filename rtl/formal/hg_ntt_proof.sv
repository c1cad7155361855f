// The two rows of a cycle are in different groups. Each row of a limb belongs to exactly one pair of a stage. No row is
// read while a butterfly of the previous stage still computes its new words. Assumed: degrees that the engine supports.
module hg_ntt_proof #(
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned LATENCY = 20,
    localparam int unsigned LB = $clog2(B),
    localparam int unsigned AW = LOG_N - LB - 1,
    localparam int unsigned PASS = 11 + 2 * AW  // bits of hg_ntt's pass_t
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic [      3:0] log_n_i,
    input logic             busy,
    input logic             first,
    input logic             inverse,
    input logic [      3:0] log_n,
    input logic [      3:0] span,
    input logic [   AW-1:0] pair,
    input logic [   AW-1:0] final_pair,
    input logic             last,
    input logic             crosses,
    input logic [   AW-1:0] below,
    input logic [LOG_N-1:0] under,
    input logic [     LB:0] stride,
    input logic             final_one,
    input logic             advance,
    input logic [     AW:0] row,
    input logic [     AW:0] partner,
    input logic             odd,
    input logic [ PASS-1:0] pass      [LATENCY],
    input logic             own_write,
    input logic             write_o
);

  typedef struct packed {
    logic valid, first, last, final_one, odd, inverse, crosses;
    logic [3:0] span;
    logic [1:0][AW-1:0] address;
  } pass_t;
  pass_t [LATENCY-1:0] on_way;
  for (genvar i = 0; i < LATENCY; ++i) begin : g_on_way
    assign on_way[i] = pass[i];
  end
  logic began = 1'b0;
  logic [AW:0] any;  // an arbitrary row
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    any   <= any;
  end
  // The number of the pair to which a row belongs. The pair's number is the row's number without the bit in which partners
  // differ; `span` determines this bit.
  logic [  AW:0] bit_between;
  logic [AW-1:0] its_pair;
  assign bit_between = 32'(span) >= LB ? (AW + 1)'(1) << (32'(span) - LB) : (AW + 1)'(1);
  assign its_pair = AW'(((any >> 1) & ~(bit_between - 1'b1)) | (any & (bit_between - 1'b1)));

  always_comb begin
    assume (began || !rst_ni);
    assume (log_n_i >= 4'd9 && log_n_i <= 4'(LOG_N));
    if (began && busy) begin
      assert (log_n >= 4'd9 && log_n <= 4'(LOG_N) && span < log_n && pair <= final_pair);
      assert (^row != ^partner && odd == ^row && (row ^ partner) == bit_between);
      assert ((any == row || any == partner) == (pair == its_pair));
      assert (first == (span == (inverse ? 4'd0 : log_n - 4'd1)));
      // The registers of a stage have the values that follow from its span.
      assert (last == (span == (inverse ? log_n - 4'd1 : 4'd0)) && crosses == (32'(span) >= LB));
      assert (final_pair == AW'((32'd1 << (32'(log_n) - LB - 1)) - 1) && final_one == (pair == final_pair));
      assert (below == (crosses ? AW'(bit_between - 1'b1) : '0));
      assert (under == LOG_N'((32'd1 << (log_n - 4'd1 - span)) - 1));
      assert (stride == (crosses ? (LB + 1)'(1) : (LB + 1)'(32'd1 << (LB - 32'(span)))));
      assert (advance == ((pair & below) == below));
    end
    for (int i = 1; i < int'(LATENCY); ++i) begin
      if (began && on_way[0].valid && !on_way[0].first && on_way[i].valid && !on_way[i].last) begin
        assert (on_way[i].address[0] != on_way[0].address[0] && on_way[i].address[1] != on_way[0].address[1]);
      end
    end
    if (began) assert (!own_write || !write_o);
  end

endmodule

bind hg_ntt hg_ntt_proof #(
    .B(B),
    .LOG_N(LOG_N),
    .LATENCY(LATENCY)
) i_proof (
  .*,
  .inverse(limb.inverse),
  .log_n  (limb.log_n)
);
