// Every requested descriptor leaves the ring once, complete. An address stays until it is accepted. There is always room for
// the requested descriptors. Assumed: the bus sends only requested pieces; while an address is offered the host does not
// change the ring's address and does not move the tail backward.
module hg_ring_proof #(
    parameter int unsigned DEPTH = 4
) (
    input logic                             clk_i,
    input logic                             rst_ni,
    input logic [               63:0]       base_i,
    input logic [                4:0]       log_size_i,
    input logic [               31:0]       tail_i,
    input logic [               31:0]       head_o,
    input logic                             valid_o,
    input logic                             ready_i,
    input logic                             arvalid_o,
    input logic                             arready_i,
    input logic [               63:0]       araddr_o,
    input logic                             rvalid_i,
    input logic [               63:0]       rdata_i,
    input logic [               31:0]       asked,
    input logic [                2:0]       part,
    input logic                             whole,
    input logic                             offered,
    input logic [                7:0][63:0] words,
    input logic                             room,
    input logic [$clog2(DEPTH+1)-1:0]       count
);

  logic began = 1'b0, was_offered = 1'b0;
  logic [63:0] address_offered, base_before;
  logic [4:0] log_size_before;
  // Number of requested descriptors that have not left the ring; pieces of 8 bytes that are still expected; an arbitrary bit
  // of the pieces of the descriptor in assembly.
  logic [2:0] open_ones;
  logic [5:0] owed, coming, which;
  logic [7:0] pieces, stored;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    which <= which;
    was_offered <= rst_ni && arvalid_o && !arready_i;
    address_offered <= araddr_o;
    base_before <= base_i;
    log_size_before <= log_size_i;
    if (!rst_ni) begin
      owed <= '0;
      open_ones <= '0;
    end else begin
      owed <= owed + (arvalid_o && arready_i ? 6'd8 : 6'd0) - 6'(rvalid_i);
      open_ones <= open_ones + 3'(arvalid_o && arready_i) - 3'(valid_o && ready_i);
    end
    if (rvalid_i) pieces[part] <= rdata_i[which];
  end
  assign coming = owed + 6'(part);
  for (genvar i = 0; i < 8; ++i) begin : g_stored
    assign stored[i] = words[i][which];
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (!rvalid_i || owed != 0);
    if (was_offered) assume (base_i == base_before && log_size_i == log_size_before && tail_i != asked);
    if (began) begin
      assert (offered == was_offered);
      if (was_offered) assert (arvalid_o && araddr_o == address_offered);
      if (whole) assert (room && part == 0 && stored == pieces);
      for (int i = 0; i < 8; ++i) if (3'(i) < part) assert (stored[3'(i)-part] == pieces[i]);
      assert (asked == head_o + 32'(open_ones) && 32'(open_ones) <= DEPTH);
      assert (6'(open_ones) == (coming >> 3) + 6'(whole) + 6'(count) && coming % 8 == 0);
      assert (valid_o == (count != 0) && owed <= 6'(8 * DEPTH));
    end
  end

endmodule

bind hg_ring hg_ring_proof #(
    .DEPTH(DEPTH)
) i_proof (
  .*,
  .room (i_descriptors.ready_o),
  .count(i_descriptors.count_o)
);
