// Operands that are read in one cycle are in different banks, or in the same slot. Every operand that is a limb is read
// once per row, before the row ends. So the three ports satisfy the memory's assumptions.
module hg_pointwise_proof #(
    parameter int unsigned SB = 5,
    parameter int unsigned BB = 2
) (
    input logic               clk_i,
    input logic               rst_ni,
    input logic               valid_i,
    input logic               ready_o,
    input logic               row_a_i,
    input logic               row_b_i,
    input logic               row_c_i,
    input logic [2:0][SB-1:0] slot_i,
    input logic [2:0]         read_o,
    input logic [2:0][SB-1:0] read_slot_o,
    input logic               busy,
    input logic               row_end,
    input logic [2:0]         wanted,
    input logic [2:0][SB-1:0] slot,
    input logic [2:0][   1:0] turn,
    input logic [1:0]         phase,
    input logic [1:0]         final_phase
);

  logic
      began = 1'b0,
      settled = 1'b0,
      active,
      row_ended;  // settled: the previous cycle was not a reset; reads of a reset are ignored
  logic [2:0] limbs, seen, now, all;
  logic [2:0][SB-1:0] slots;
  // Reads follow their phase by one cycle; `seen` are the reads of the row so far.
  assign now = settled ? seen | read_o : '0;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    settled <= rst_ni;
    row_ended <= rst_ni && row_end;
    all <= limbs;
    if (!rst_ni) begin
      active <= 1'b0;
    end else if (valid_i && ready_o) begin
      active <= 1'b1;
      limbs  <= {row_c_i, row_b_i, row_a_i};
      slots  <= slot_i;
    end else if (ready_o) begin
      active <= 1'b0;
    end
    seen <= !rst_ni || row_ended ? '0 : now;
  end

  always_comb begin
    assume (began || !rst_ni);
    if (began) begin
      for (int i = 0; i < 3; ++i) begin
        for (int j = 0; j < i; ++j) begin
          if (settled && read_o[i] && read_o[j] && read_slot_o[i][BB-1:0] == read_slot_o[j][BB-1:0]) begin
            assert (read_slot_o[i] == read_slot_o[j]);
          end
          // Invariant for the induction: operands in one bank, in different slots, are read in different phases.
          if (busy && wanted[i] && wanted[j] && slot[i][BB-1:0] == slot[j][BB-1:0] && slot[i] != slot[j]) begin
            assert (turn[i] != turn[j]);
          end
        end
        if (busy && wanted[i]) assert (turn[i] <= final_phase);
        if (row_ended) assert (now[i] == all[i]);
        if (settled && read_o[i]) assert (!seen[i]);
      end
      assert (active == busy);
      if (busy) assert (limbs == wanted && slots == slot && phase <= final_phase);
    end
  end

endmodule

bind hg_pointwise hg_pointwise_proof #(
    .SB(SB),
    .BB(BB)
) i_proof (.*);
