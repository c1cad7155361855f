// The host's interface: 32-bit registers by AXI4-Lite, one access at a time.
//   0x00 r   0x48454c49            0x04 r  version of this map
//   0x08 r   [7:0] LOG_N  [15:8] B  [23:16] W  [31:24] BANKS
//   0x0c r   [7:0] SLOTS - 1  [15:8] TABLES  [19:16] P  [23:20] T  [27:24] SOURCES - 1  [31:28] SETS - 1
//   0x10 rw  [0] enable  [1] counters to zero (reads 0)
//   0x14 r   [0] idle: every entry up to the tail has ended  [1] faulty bus response  [2] two users of a bank  [3] an instruction was dropped (hg_dispatch)
//   0x18 rw  0x1c rw  ring's address, low and high: a multiple of 64, the lowest six bits stay 0     0x20 rw  log2 of its entries
//   0x24 rw  tail      0x28 r  head      0x2c r  fences passed    0x30 rw  [0] interrupt, written 1 clears
//   0x40 r   counters of 64 bits: cycles while not idle; cycles in which the next descriptor waited; beats read, then written;
//            cycles with work of each unit (NTT, pointwise, permutation, conversion, load, store). Reading a low half
//            latches the high half until the low half of another counter is read.
// A write changes the bytes of its strobes. Accesses to other addresses, or to addresses within a word, have no effect and
// read 0. Accesses to other addresses are answered with SLVERR, as is a write to a read-only register. Latency of an access
// 2.
module hg_registers #(
    parameter int unsigned COUNTERS = 10,
    parameter logic [31:0] SHAPE = '0,
    parameter logic [31:0] SHAPE2 = '0
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                awvalid_i,
    output logic                awready_o,
    input  logic [         7:0] awaddr_i,
    input  logic                wvalid_i,
    output logic                wready_o,
    input  logic [        31:0] wdata_i,
    input  logic [         3:0] wstrb_i,
    output logic                bvalid_o,
    input  logic                bready_i,
    output logic [         1:0] bresp_o,
    input  logic                arvalid_i,
    output logic                arready_o,
    input  logic [         7:0] araddr_i,
    output logic                rvalid_o,
    input  logic                rready_i,
    output logic [        31:0] rdata_o,
    output logic [         1:0] rresp_o,
    output logic                enable_o,
    output logic [        63:0] base_o,
    output logic [         4:0] log_size_o,
    output logic [        31:0] tail_o,
    input  logic [        31:0] head_i,
    input  logic                idle_i,       // no instruction runs or waits
    input  logic                error_i,
    input  logic                conflict_i,
    input  logic                unknown_i,
    input  logic                fence_i,
    input  logic                interrupt_i,
    output logic                interrupt_o,
    input  logic [COUNTERS-1:0] count_i
);

  if (COUNTERS > 24) begin : g_check
    $error("hg_registers: the map has room for 24 counters");
  end

  logic write, read;
  logic [63:0] counters[COUNTERS];
  logic [31:0] fences, high;
  logic conflict, unknown, clear, idle;
  assign idle = idle_i && head_i == tail_o;

  // A write waits until both its address and its data are valid.
  assign write = awvalid_i && wvalid_i && !bvalid_o;
  assign awready_o = write;
  assign wready_o = write;
  assign read = arvalid_i && !rvalid_o;
  assign arready_o = read;
  assign clear = write && awaddr_i == 8'h10 && wstrb_i[0] && wdata_i[1];

  // Returns a register's value after a write: bytes with a strobe are new.
  function automatic logic [31:0] written(logic [31:0] old, logic [31:0] data, logic [3:0] strobes);
    for (int i = 0; i < 4; ++i) written[8*i+:8] = strobes[i] ? data[8*i+:8] : old[8*i+:8];
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      bvalid_o <= 1'b0;
      enable_o <= 1'b0;
      base_o <= '0;
      log_size_o <= '0;
      tail_o <= '0;
      interrupt_o <= 1'b0;
      fences <= '0;
      conflict <= 1'b0;
      unknown <= 1'b0;
    end else begin
      if (write) bvalid_o <= 1'b1;
      else if (bready_i) bvalid_o <= 1'b0;
      if (write) begin
        case (awaddr_i)
          8'h10:   if (wstrb_i[0]) enable_o <= wdata_i[0];
          8'h18:   base_o[31:0] <= written(base_o[31:0], {wdata_i[31:6], 6'b0}, wstrb_i);
          8'h1c:   base_o[63:32] <= written(base_o[63:32], wdata_i, wstrb_i);
          8'h20:   if (wstrb_i[0]) log_size_o <= wdata_i[4:0];
          8'h24:   tail_o <= written(tail_o, wdata_i, wstrb_i);
          8'h30:   if (wstrb_i[0] && wdata_i[0]) interrupt_o <= 1'b0;
          default: ;
        endcase
      end
      if (interrupt_i) interrupt_o <= 1'b1;
      if (fence_i) fences <= fences + 1;
      conflict <= conflict || conflict_i;
      unknown  <= unknown || unknown_i;
    end
  end

  for (genvar i = 0; i < COUNTERS; ++i) begin : g_counter
    always_ff @(posedge clk_i) begin
      if (!rst_ni || clear) counters[i] <= '0;
      else if (count_i[i]) counters[i] <= counters[i] + 1;
    end
  end

  logic [63:0] counter;
  logic counter_named;
  always_comb begin
    counter = '0;
    counter_named = 1'b0;
    for (int i = 0; i < int'(COUNTERS); ++i) begin
      if (araddr_i[7:3] == 5'(8 + i) && araddr_i[1:0] == 2'b00) begin
        counter = counters[i];
        counter_named = 1'b1;
      end
    end
  end
  // Response codes of AXI.
  localparam logic [1:0] OKAY = 2'b00, SLVERR = 2'b10;
  logic writable, readable;
  assign writable = awaddr_i inside {8'h10, 8'h18, 8'h1c, 8'h20, 8'h24, 8'h30};
  assign readable = (araddr_i <= 8'h30 && araddr_i[1:0] == 2'b00) || counter_named;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) rvalid_o <= 1'b0;
    else if (read) rvalid_o <= 1'b1;
    else if (rready_i) rvalid_o <= 1'b0;
    if (write) bresp_o <= writable ? OKAY : SLVERR;
    if (read) begin
      rresp_o <= readable ? OKAY : SLVERR;
      case (araddr_i)
        8'h00:   rdata_o <= 32'h48454c49;
        8'h04:   rdata_o <= 32'd1;
        8'h08:   rdata_o <= SHAPE;
        8'h0c:   rdata_o <= SHAPE2;
        8'h10:   rdata_o <= {31'b0, enable_o};
        8'h14:   rdata_o <= {28'b0, unknown, conflict, error_i, idle};
        8'h18:   rdata_o <= base_o[31:0];
        8'h1c:   rdata_o <= base_o[63:32];
        8'h20:   rdata_o <= {27'b0, log_size_o};
        8'h24:   rdata_o <= tail_o;
        8'h28:   rdata_o <= head_i;
        8'h2c:   rdata_o <= fences;
        8'h30:   rdata_o <= {31'b0, interrupt_o};
        default: rdata_o <= !counter_named ? '0 : araddr_i[2] ? high : counter[31:0];
      endcase
    end
    if (!rst_ni) high <= '0;
    else if (read && counter_named && !araddr_i[2]) high <= counter[63:32];
  end

endmodule
