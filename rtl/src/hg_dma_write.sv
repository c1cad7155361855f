// The write half of the bus: a slot's rows to memory, by AXI4 bursts of beats of rows 2c and 2c + 1, 32 bits for each word.
// An instruction is accepted when valid_i and ready_o are high. Rows arrive two cycles after store_o. The unit requests only
// as many rows as the queue before the bus can hold, so the bus may stall at any time. read_done_o: the slot is read;
// done_o: the bus has answered all bursts.
module hg_dma_write #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned SB = 5,
    parameter int unsigned AW = 8,
    localparam int unsigned WORDS = 2 * B,
    localparam int unsigned DW = 32 * WORDS
) (
    input  logic                        clk_i,
    input  logic                        rst_ni,
    input  logic                        valid_i,
    output logic                        ready_o,
    input  logic [  63:0]               address_i,
    input  logic [  15:0]               beats_i,
    input  logic [SB-1:0]               slot_i,
    output logic                        read_done_o,
    output logic                        done_o,
    output logic                        error_o,
    output logic                        beat_o,
    output logic                        store_o,
    output logic [SB-1:0]               store_slot_o,
    output logic [AW-1:0]               store_pair_o,
    input  logic [   1:0][B-1:0][W-1:0] store_data_i,
    output logic                        awvalid_o,
    input  logic                        awready_i,
    output logic [  63:0]               awaddr_o,
    output logic [   7:0]               awlen_o,
    output logic                        wvalid_o,
    input  logic                        wready_i,
    output logic [DW-1:0]               wdata_o,
    output logic                        wlast_o,
    input  logic                        bvalid_i,
    output logic                        bready_o,
    input  logic [   1:0]               bresp_i
);

  localparam int unsigned DEPTH = 8;
  localparam int unsigned CB = $clog2(DEPTH + 1);
  localparam int unsigned BURSTS = 16;

  logic busy, take, idle, burst_last;
  logic [15:0] left;
  assign ready_o = !busy;
  assign take = valid_i && ready_o;

  // Lengths of the announced bursts. The lengths determine wlast and the number of expected responses.
  logic burst_room, burst_valid, burst_end;
  logic [7:0] burst_length;
  logic announce;
  logic want;
  assign awvalid_o = want && burst_room;
  assign announce  = awvalid_o && awready_i;
  hg_bursts #(
      .BYTES(DW / 8),
      .COUNT(16)
  ) i_bursts (
    .clk_i,
    .rst_ni,
    .start_i(take),
    .idle_o(idle),
    .address_i,
    .beats_i,
    .valid_o(want),
    .ready_i(awready_i && burst_room),
    .address_o(awaddr_o),
    .length_o(awlen_o),
    .last_o(burst_last)
  );
  logic [$clog2(BURSTS+1)-1:0] unused_bursts;
  hg_fifo #(
      .WIDTH(8),
      .DEPTH(BURSTS)
  ) i_lengths (
    .clk_i,
    .rst_ni,
    .valid_i(announce),
    .ready_o(burst_room),
    .data_i (awlen_o),
    .valid_o(burst_valid),
    .ready_i(burst_end),
    .data_o (burst_length),
    .count_o(unused_bursts)
  );

  // The queue has room for all rows that are requested, in flight or queued.
  logic [AW-1:0] pair;
  logic [SB-1:0] slot;
  logic read1, read2, unused_room;
  logic [CB-1:0] queued;
  logic [1:0] coming;
  assign coming = {1'b0, read1} + {1'b0, read2};
  assign store_o = busy && left != 0 && queued + CB'(coming) < CB'(DEPTH);
  assign store_slot_o = slot;
  assign store_pair_o = pair;
  assign read_done_o = store_o && left == 1;
  logic [DW-1:0] beat;
  for (genvar i = 0; i < WORDS; ++i) begin : g_word
    assign beat[32*i+:32] = 32'(store_data_i[i/B][i%B]);
  end
  logic beat_valid;
  hg_fifo #(
      .WIDTH(DW),
      .DEPTH(DEPTH)
  ) i_beats (
    .clk_i,
    .rst_ni,
    .valid_i(read2),
    .ready_o(unused_room),
    .data_i (beat),
    .valid_o(beat_valid),
    .ready_i(wready_i && burst_valid),
    .data_o (wdata_o),
    .count_o(queued)
  );

  // Data follow the address of their burst.
  logic [7:0] sent;
  assign wvalid_o = beat_valid && burst_valid;
  assign wlast_o = sent == burst_length;
  assign beat_o = wvalid_o && wready_i;
  assign burst_end = beat_o && wlast_o;
  logic [7:0] open_bursts;
  assign bready_o = 1'b1;
  assign done_o   = busy && left == 0 && idle && open_bursts == 0 && !read1 && !read2 && !beat_valid;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy <= 1'b0;
      read1 <= 1'b0;
      read2 <= 1'b0;
      sent <= '0;
      open_bursts <= '0;
      error_o <= 1'b0;
    end else begin
      if (take) busy <= 1'b1;
      else if (done_o) busy <= 1'b0;
      read1 <= store_o;
      read2 <= read1;
      if (beat_o) sent <= wlast_o ? '0 : sent + 1'b1;
      open_bursts <= open_bursts + 8'(announce) - 8'(bvalid_i);
      if (bvalid_i && bresp_i != 2'b00) error_o <= 1'b1;
    end
    if (take) begin
      left <= beats_i;
      slot <= slot_i;
      pair <= '0;
    end else if (store_o) begin
      left <= left - 1'b1;
      pair <= pair + 1'b1;
    end
  end
  logic unused;
  assign unused = ^{burst_last, unused_bursts, unused_room};

endmodule
