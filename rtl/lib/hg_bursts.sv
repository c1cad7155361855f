// Splits a transfer of beats into AXI4 bursts of at most 256 beats that do not cross 4 KiB. A transfer is accepted when
// start_i and idle_o are high; then bursts are offered by valid_o / ready_i, the first one cycle later. last_o: the last
// burst of the transfer. The address is a multiple of BYTES, the bytes of a beat (8 to 128).
module hg_bursts #(
    parameter int unsigned BYTES = 64,
    parameter int unsigned COUNT = 16   // bits of a number of beats
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             start_i,
    output logic             idle_o,
    input  logic [     63:0] address_i,
    input  logic [COUNT-1:0] beats_i,    // number of beats, at least one
    output logic             valid_o,
    input  logic             ready_i,
    output logic [     63:0] address_o,
    output logic [      7:0] length_o,   // number of beats, minus 1
    output logic             last_o
);

  localparam int unsigned SHIFT = $clog2(BYTES);
  localparam int unsigned PAGE = 4096 / BYTES;
  localparam int unsigned LONGEST = PAGE > 256 ? 256 : PAGE;
  localparam int unsigned LB = $clog2(LONGEST) + 1;
  if (BYTES < 8 || BYTES > 128 || BYTES != 1 << SHIFT || COUNT < LB) begin : g_check
    $error("hg_bursts: beats of 8 to 128 bytes");
  end

  logic [63:0] address;
  logic [COUNT-1:0] left;
  logic [LB-1:0] room, now;
  // Beats to the next multiple of the longest burst, which is inside one page.
  assign room = LB'(LONGEST) - LB'(address[SHIFT+:LB-1]);
  assign last_o = left <= COUNT'(room);
  assign now = last_o ? LB'(left) : room;
  assign valid_o = left != 0;
  assign idle_o = left == 0;
  assign address_o = address;
  assign length_o = 8'(9'(now) - 9'd1);
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      left <= '0;
    end else if (start_i && idle_o) begin
      left <= beats_i;
    end else if (valid_o && ready_i) begin
      left <= left - COUNT'(now);
    end
    if (start_i && idle_o) address <= address_i;
    else if (valid_o && ready_i) address <= address + (64'(now) << SHIFT);
  end

endmodule
