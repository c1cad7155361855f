// A queue returns each word once, in order. The proof compares the queue with a list whose words move up with each word that
// is read.
module hg_fifo_proof #(
    parameter int unsigned WIDTH = 32,
    parameter int unsigned DEPTH = 16,
    localparam int unsigned CB = $clog2(DEPTH + 1),
    localparam int unsigned PB = $clog2(DEPTH)
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             valid_i,
    input logic             ready_o,
    input logic [WIDTH-1:0] data_i,
    input logic             valid_o,
    input logic             ready_i,
    input logic [WIDTH-1:0] data_o,
    input logic [   CB-1:0] count_o,
    input logic [   PB-1:0] head,
    input logic [   PB-1:0] tail,
    input logic [WIDTH-1:0] words  [DEPTH]
);

  logic began = 1'b0;
  logic [WIDTH-1:0] list[DEPTH];
  logic [CB-1:0] length, after;
  assign after = length - CB'(valid_o && ready_i);
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    if (!rst_ni) begin
      length <= '0;
    end else begin
      length <= after + CB'(valid_i && ready_o);
      if (ready_i && valid_o) for (int i = 1; i < int'(DEPTH); ++i) list[i-1] <= list[i];
      if (valid_i && ready_o) list[PB'(after)] <= data_i;
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    if (began) begin
      assert (valid_o == (length != 0));
      assert (ready_o == (length != CB'(DEPTH)));
      assert (count_o == length && length <= CB'(DEPTH));
      if (valid_o) assert (data_o == list[0]);
      // Invariants for the induction.
      assert (tail == PB'(head + PB'(length)));
      for (int i = 0; i < int'(DEPTH); ++i) if (CB'(i) < length) assert (words[PB'(head+PB'(i))] == list[i]);
    end
  end

endmodule

bind hg_fifo hg_fifo_proof #(
    .WIDTH(WIDTH),
    .DEPTH(DEPTH)
) i_proof (.*);
