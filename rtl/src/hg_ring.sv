// Fetches descriptors of 64 bytes from a ring in the card's memory: entry i of 2^log_size_i is at base_i + 64 (i mod
// 2^log_size_i). The driver writes entries and then raises tail_i; both counts wrap modulo 2^32. Descriptors leave in order
// by valid_o / ready_i. The read of a descriptor is one AXI4 burst of 8 beats of 8 bytes; up to DEPTH are requested in
// advance. base_i is a multiple of 64. An offered address stays until it is accepted, even if enable_i falls.
module hg_ring #(
    parameter int unsigned DEPTH = 4,
    localparam int unsigned CB = $clog2(DEPTH + 1)
) (
    input  logic              clk_i,
    input  logic              rst_ni,
    input  logic              enable_i,
    input  logic [63:0]       base_i,
    input  logic [ 4:0]       log_size_i,
    input  logic [31:0]       tail_i,
    output logic [31:0]       head_o,      // number of entries that left the ring
    output logic              error_o,
    output logic              valid_o,
    input  logic              ready_i,
    output logic [15:0][31:0] words_o,
    output logic              arvalid_o,
    input  logic              arready_i,
    output logic [63:0]       araddr_o,
    output logic [ 7:0]       arlen_o,
    input  logic              rvalid_i,
    output logic              rready_o,
    input  logic [63:0]       rdata_i,
    input  logic [ 1:0]       rresp_i
);

  if (DEPTH < 2) begin : g_check
    $error("hg_ring: two descriptors ahead or more");
  end

  logic [31:0] asked, head, entry;
  logic [2:0] part;
  logic [15:0][31:0] words;
  logic whole, offered, unused_room;
  logic [CB-1:0] unused_count;
  assign arvalid_o = (enable_i || offered) && asked != tail_i && asked - head < DEPTH;
  assign entry = asked & ((32'd1 << log_size_i) - 1);
  assign araddr_o = base_i + {26'b0, entry, 6'b0};
  assign arlen_o = 8'd7;
  assign rready_o = 1'b1;  // the unit requests only pieces for which it has room
  assign head_o = head;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      asked <= '0;
      head <= '0;
      part <= '0;
      whole <= 1'b0;
      offered <= 1'b0;
      error_o <= 1'b0;
    end else begin
      offered <= arvalid_o && !arready_i;
      if (arvalid_o && arready_i) asked <= asked + 1;
      if (valid_o && ready_i) head <= head + 1;
      if (rvalid_i) part <= part + 1'b1;
      whole <= rvalid_i && part == 3'd7;
      if (rvalid_i && rresp_i != 2'b00) error_o <= 1'b1;
    end
    if (rvalid_i) words <= {rdata_i, words[15:2]};
  end
  hg_fifo #(
      .WIDTH(512),
      .DEPTH(DEPTH)
  ) i_descriptors (
    .clk_i,
    .rst_ni,
    .valid_i(whole),
    .ready_o(unused_room),
    .data_i (words),
    .valid_o,
    .ready_i,
    .data_o (words_o),
    .count_o(unused_count)
  );
  logic unused;
  assign unused = ^{unused_room, unused_count};

endmodule
