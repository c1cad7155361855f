// A load requests each of its beats once and accepts each once. The rows of each beat go to the next pair of the slot,
// unchanged, before the beat's register is filled again. The load ends when all rows are written. An address stays until it
// is accepted.
// Assumed: instructions have at least one beat, at addresses that are multiples of a beat's size; the bus sends only
// requested beats.
module hg_dma_read_proof #(
    parameter int unsigned DW = 512,
    parameter int unsigned SB = 5,
    parameter int unsigned AW = 8
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          valid_i,
    input logic          ready_o,
    input logic [   7:0] operation_i,
    input logic [  63:0] address_i,
    input logic [  15:0] beats_i,
    input logic [SB-1:0] slot_i,
    input logic          done_o,
    input logic          load_o,
    input logic [SB-1:0] load_slot_o,
    input logic [AW-1:0] load_pair_o,
    input logic          table_write_o,
    input logic          arvalid_o,
    input logic          arready_i,
    input logic [  63:0] araddr_o,
    input logic [   7:0] arlen_o,
    input logic          rvalid_i,
    input logic          rready_o,
    input logic [DW-1:0] rdata_i,
    input logic [DW-1:0] beat,
    input logic          held,
    input logic          piece,
    input logic          busy,
    input logic          two,
    input logic [   7:0] operation,
    input logic [  15:0] left,
    input logic [  15:0] to_ask
);
  import hg_pkg::*;

  localparam int unsigned BYTES = DW / 8;
  logic began = 1'b0, offered = 1'b0;
  logic [63:0] address_offered;
  logic [ 7:0] length_offered;
  // Counters of the instruction: beats not yet requested, beats not yet received, beats not yet passed on, and beats that
  // were passed on. `newest`: the last beat that was received.
  logic [15:0] unasked, uncome, unwritten, written;
  logic [7:0] kind;
  logic [SB-1:0] slot;
  logic [DW-1:0] newest;
  logic active;
  logic hands_on;
  assign hands_on = held && (!two || piece);
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    offered <= rst_ni && arvalid_o && !arready_i;
    address_offered <= araddr_o;
    length_offered <= arlen_o;
    if (!rst_ni) begin
      active <= 1'b0;
      {unasked, uncome, unwritten} <= '0;
    end else if (valid_i && ready_o) begin
      active <= 1'b1;
      unasked <= beats_i;
      uncome <= beats_i;
      unwritten <= beats_i;
      written <= '0;
      slot <= slot_i;
      kind <= operation_i;
    end else begin
      if (done_o) active <= 1'b0;
      if (arvalid_o && arready_i) unasked <= unasked - (16'(arlen_o) + 16'd1);
      if (rvalid_i && rready_o) uncome <= uncome - 1'b1;
      if (hands_on) unwritten <= unwritten - 1'b1;
      if (hands_on) written <= written + 1'b1;
    end
    if (rvalid_i && rready_o) newest <= rdata_i;
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (beats_i != 0 && address_i % 64'(BYTES) == 0);
    assume (!rvalid_i || uncome != unasked);
    if (began) begin
      if (offered) assert (arvalid_o && araddr_o == address_offered && arlen_o == length_offered);
      assert (active == busy);
      if (active) assert (unasked == to_ask && uncome == left && kind == operation && load_slot_o == slot);
      assert (uncome >= unasked);
      // At most one beat is held. A beat is accepted only if the register is empty or is emptied in this cycle.
      assert (unwritten == uncome + 16'(held));
      if (rvalid_i && rready_o && held) assert (hands_on);
      if (held) assert (active && beat == newest);
      if (load_o) assert (kind == OP_LOAD && load_slot_o == slot && load_pair_o == AW'(written));
      if (load_o) assert (hands_on && !table_write_o);
      if (done_o) assert (unwritten == 0 && unasked == 0);
      if (active && !two && operation == OP_LOAD) assert (AW'(written) == load_pair_o);
      if (!active) assert (to_ask == 0);
    end
  end

endmodule

bind hg_dma_read hg_dma_read_proof #(
    .DW(DW),
    .SB(SB),
    .AW(AW)
) i_proof (
  .*,
  .to_ask(i_bursts.left)
);
