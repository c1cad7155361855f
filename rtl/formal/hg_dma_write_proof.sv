// A store requests each row of its slot once, in order. The store sends each row once, after the address of its burst, and
// marks the last beat of a burst. The queue before the bus never overflows. The store ends when all bursts are answered.
// Address and data stay until they are accepted. Assumed: instructions have 1 to 2^14 beats (the longest limb with one
// lane), at addresses that are multiples of a beat's size. The bus answers each complete burst once.
module hg_dma_write_proof #(
    parameter int unsigned DW = 512,
    parameter int unsigned SB = 5,
    parameter int unsigned AW = 8
) (
    input logic          clk_i,
    input logic          rst_ni,
    input logic          valid_i,
    input logic          ready_o,
    input logic [  63:0] address_i,
    input logic [  15:0] beats_i,
    input logic [SB-1:0] slot_i,
    input logic          read_done_o,
    input logic          done_o,
    input logic          store_o,
    input logic [SB-1:0] store_slot_o,
    input logic [AW-1:0] store_pair_o,
    input logic          awvalid_o,
    input logic          awready_i,
    input logic [  63:0] awaddr_o,
    input logic [   7:0] awlen_o,
    input logic          wvalid_o,
    input logic          wready_i,
    input logic [DW-1:0] wdata_o,
    input logic          wlast_o,
    input logic          bvalid_i,
    input logic          bready_o,
    input logic          busy,
    input logic          read1,
    input logic          read2,
    input logic          room,
    input logic          burst_valid,
    input logic [   7:0] burst_length,
    input logic [   7:0] sent,
    input logic [   3:0] queued,
    input logic [  15:0] left,
    input logic [   7:0] open_bursts,
    input logic [   4:0] waiting_bursts,
    input logic [   3:0] burst_head,
    input logic [   3:0] burst_tail,
    input logic [   2:0] beat_head,
    input logic [   2:0] beat_tail,
    input logic [  15:0] to_ask,
    input logic [  63:0] to_address
);

  localparam int unsigned BYTES = DW / 8;
  localparam int unsigned LONGEST = 4096 / BYTES > 256 ? 256 : 4096 / BYTES;
  logic began = 1'b0, address_kept = 1'b0, data_kept = 1'b0;
  logic [63:0] address_before;
  logic [7:0] length_before;
  logic [DW-1:0] data_before;
  logic last_before;
  // Counters of the instruction. Counters of beats: not yet requested, not yet read, not yet sent, read. Counters of bursts:
  // announced; announced but incomplete on the bus; announced but unanswered.
  logic [15:0] unasked, unread, unsent, read;
  logic [7:0] announced, unended, unanswered;
  logic [SB-1:0] slot;
  logic active;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    address_kept <= rst_ni && awvalid_o && !awready_i;
    address_before <= awaddr_o;
    length_before <= awlen_o;
    data_kept <= rst_ni && wvalid_o && !wready_i;
    data_before <= wdata_o;
    last_before <= wlast_o;
    if (!rst_ni) begin
      active <= 1'b0;
      {unasked, unread, unsent, announced, unended, unanswered} <= '0;
    end else begin
      if (valid_i && ready_o) begin
        active <= 1'b1;
        unasked <= beats_i;
        unread <= beats_i;
        unsent <= beats_i;
        read <= '0;
        {announced, unended, unanswered} <= '0;
        slot <= slot_i;
      end else begin
        if (done_o) active <= 1'b0;
        if (awvalid_o && awready_i) unasked <= unasked - (16'(awlen_o) + 16'd1);
        if (store_o) unread <= unread - 1'b1;
        if (store_o) read <= read + 1'b1;
        if (wvalid_o && wready_i) unsent <= unsent - 1'b1;
        announced <= announced + 8'(awvalid_o && awready_i);
        unended <= unended + 8'(awvalid_o && awready_i) - 8'(wvalid_o && wready_i && wlast_o);
        unanswered <= unanswered + 8'(awvalid_o && awready_i) - 8'(bvalid_i && bready_o);
      end
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (beats_i != 0 && beats_i <= 16'd16384 && address_i % 64'(BYTES) == 0);
    assume (!bvalid_i || unanswered > unended);
    if (began) begin
      if (address_kept) assert (awvalid_o && awaddr_o == address_before && awlen_o == length_before);
      if (data_kept) assert (wvalid_o && wdata_o == data_before && wlast_o == last_before);
      assert (active == busy);
      if (active) assert (unasked == to_ask && unread == left && unasked <= 16'd16384);
      if (active) assert (unsent == unread + 16'(queued) + 16'(read1) + 16'(read2));
      if (!active) assert (to_ask == 0 && queued == 0 && !read1 && !read2 && open_bursts == 0);
      // Rows are requested in order, and the queue has room for all requested rows.
      if (store_o) assert (active && unread != 0);
      if (active) assert (store_pair_o == AW'(read) && store_slot_o == slot);
      if (read_done_o) assert (store_o && unread == 1);
      if (read2) assert (room);
      assert (queued <= 4'd8 && queued + 4'(read1) + 4'(read2) <= 4'd8);
      // Data follow the address of their burst; `sent` beats of the oldest burst are sent.
      assert (8'(waiting_bursts) == unended && open_bursts == unanswered);
      assert (unended <= unanswered && unanswered <= announced);
      assert (waiting_bursts <= 5'd16);
      assert (burst_tail == burst_head + 4'(waiting_bursts) && beat_tail == beat_head + 3'(queued));
      if (wvalid_o) assert (unended != 0 && wlast_o == (sent == burst_length));
      assert (sent == 0 || (burst_valid && sent <= burst_length));
      // All bursts except the first and the last have LONGEST beats, so the counters suffice.
      if (announced != 0 && unasked != 0) begin
        assert (to_address % 64'(LONGEST * BYTES) == 0 && 32'(unasked) + LONGEST * 32'(announced) < 16384 + LONGEST);
      end else begin
        assert (LONGEST * 32'(announced) <= 16384 + 2 * LONGEST);
      end
      if (done_o) assert (unsent == 0 && unasked == 0 && unanswered == 0);
    end
  end

endmodule

bind hg_dma_write hg_dma_write_proof #(
    .DW(DW),
    .SB(SB),
    .AW(AW)
) i_proof (
  .*,
  .waiting_bursts(i_lengths.count_o),
  .burst_head(i_lengths.head),
  .burst_tail(i_lengths.tail),
  .beat_head(i_beats.head),
  .beat_tail(i_beats.tail),
  .room(i_beats.ready_o),
  .to_ask(i_bursts.left),
  .to_address(i_bursts.address)
);
