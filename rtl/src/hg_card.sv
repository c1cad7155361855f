// The card: registers on AXI4-Lite (s_*), descriptors by an AXI4 read port of 64 bits (ring_*), and limbs, twiddles and
// constants by an AXI4 port of 64 B bits (m_*), with hg_core in between. Addresses are relative to the card's memory; data
// ports move aligned beats. The header of each unit lists the cycles of its instructions. Instructions start in order, at
// most one a cycle, and run concurrently if slots and banks allow.
module hg_card #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned BANKS = 4,
    parameter int unsigned SLOTS = 32,
    parameter int unsigned TABLES = 2,
    parameter int unsigned P = 4,
    parameter int unsigned T = 8,
    parameter int unsigned SOURCES = 16,
    parameter int unsigned SETS = 8,
    localparam int unsigned DW = 64 * B
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    output logic            interrupt_o,
    // Registers.
    input  logic            s_awvalid_i,
    output logic            s_awready_o,
    input  logic [     7:0] s_awaddr_i,
    input  logic            s_wvalid_i,
    output logic            s_wready_o,
    input  logic [    31:0] s_wdata_i,
    input  logic [     3:0] s_wstrb_i,
    output logic            s_bvalid_o,
    input  logic            s_bready_i,
    output logic [     1:0] s_bresp_o,
    input  logic            s_arvalid_i,
    output logic            s_arready_o,
    input  logic [     7:0] s_araddr_i,
    output logic            s_rvalid_o,
    input  logic            s_rready_i,
    output logic [    31:0] s_rdata_o,
    output logic [     1:0] s_rresp_o,
    // Descriptors.
    output logic            ring_arvalid_o,
    input  logic            ring_arready_i,
    output logic [    63:0] ring_araddr_o,
    output logic [     7:0] ring_arlen_o,
    input  logic            ring_rvalid_i,
    output logic            ring_rready_o,
    input  logic [    63:0] ring_rdata_i,
    input  logic [     1:0] ring_rresp_i,
    // The data port. Bursts are incrementing, consist of whole beats, have one id, and are answered in order.
    output logic            m_arvalid_o,
    input  logic            m_arready_i,
    output logic [    63:0] m_araddr_o,
    output logic [     7:0] m_arlen_o,
    input  logic            m_rvalid_i,
    output logic            m_rready_o,
    input  logic [  DW-1:0] m_rdata_i,
    input  logic [     1:0] m_rresp_i,
    output logic            m_awvalid_o,
    input  logic            m_awready_i,
    output logic [    63:0] m_awaddr_o,
    output logic [     7:0] m_awlen_o,
    output logic            m_wvalid_o,
    input  logic            m_wready_i,
    output logic [  DW-1:0] m_wdata_o,
    output logic [DW/8-1:0] m_wstrb_o,
    output logic            m_wlast_o,
    input  logic            m_bvalid_i,
    output logic            m_bready_o,
    input  logic [     1:0] m_bresp_i
);
  import hg_pkg::*;

  localparam int unsigned UNITS = 6;
  localparam int unsigned SB = $clog2(SLOTS);
  localparam int unsigned RW = LOG_N - $clog2(B);
  localparam int unsigned TW = RW + $clog2(TABLES);
  localparam int unsigned IB = $clog2(SOURCES);
  localparam int unsigned NB = $clog2(SETS);
  if (W > 32 || LOG_N < 9) begin : g_check
    $error("hg_card: words of 32 bits at most, LOG_N of 9 at least");
  end

  // The host's port.
  logic enable, idle, fence, unknown, conflict, ring_error, read_error, write_error;
  logic [63:0] base;
  logic [ 4:0] log_size;
  logic [31:0] tail, head;
  logic waiting, ready;
  logic [15:0][31:0] words;
  logic [9:0] count;
  logic beat_read, beat_written, running;
  hg_registers #(
      .COUNTERS(10),
      .SHAPE({8'(BANKS), 8'(W), 8'(B), 8'(LOG_N)}),
      .SHAPE2({4'(SETS - 1), 4'(SOURCES - 1), 4'(T), 4'(P), 8'(TABLES), 8'(SLOTS - 1)})
  ) i_registers (
    .clk_i,
    .rst_ni,
    .awvalid_i(s_awvalid_i),
    .awready_o(s_awready_o),
    .awaddr_i(s_awaddr_i),
    .wvalid_i(s_wvalid_i),
    .wready_o(s_wready_o),
    .wdata_i(s_wdata_i),
    .wstrb_i(s_wstrb_i),
    .bvalid_o(s_bvalid_o),
    .bready_i(s_bready_i),
    .bresp_o(s_bresp_o),
    .arvalid_i(s_arvalid_i),
    .arready_o(s_arready_o),
    .araddr_i(s_araddr_i),
    .rvalid_o(s_rvalid_o),
    .rready_i(s_rready_i),
    .rdata_o(s_rdata_o),
    .rresp_o(s_rresp_o),
    .enable_o(enable),
    .base_o(base),
    .log_size_o(log_size),
    .tail_o(tail),
    .head_i(head),
    .idle_i(idle),
    .error_i(ring_error || read_error || write_error),
    .conflict_i(conflict),
    .unknown_i(unknown),
    .fence_i(fence),
    .interrupt_i(fence && words[0][23]),
    .interrupt_o,
    .count_i(count)
  );
  hg_ring i_ring (
    .clk_i,
    .rst_ni,
    .enable_i(enable),
    .base_i(base),
    .log_size_i(log_size),
    .tail_i(tail),
    .head_o(head),
    .error_o(ring_error),
    .valid_o(waiting),
    .ready_i(ready),
    .words_o(words),
    .arvalid_o(ring_arvalid_o),
    .arready_i(ring_arready_i),
    .araddr_o(ring_araddr_o),
    .arlen_o(ring_arlen_o),
    .rvalid_i(ring_rvalid_i),
    .rready_o(ring_rready_o),
    .rdata_i(ring_rdata_i),
    .rresp_i(ring_rresp_i)
  );

  // Instructions to the units.
  logic [UNITS-1:0] unit_valid, unit_ready, read_done, done;
  logic ntt_want, ntt_grant;
  hg_dispatch #(
      .SLOTS(SLOTS),
      .TABLES(TABLES),
      .SETS(SETS),
      .BANKS(BANKS),
      .SOURCES(SOURCES),
      .T(T),
      .B(B),
      .LOG_N(LOG_N)
  ) i_dispatch (
    .clk_i,
    .rst_ni,
    .valid_i(waiting),
    .ready_o(ready),
    .words_i(words),
    .unit_valid_o(unit_valid),
    .unit_ready_i(unit_ready),
    .read_done_i(read_done),
    .done_i(done),
    .ntt_want_i(ntt_want),
    .ntt_grant_o(ntt_grant),
    .idle_o(idle),
    .fence_o(fence),
    .unknown_o(unknown)
  );
  // A unit is active from the start of an instruction until it has no instruction.
  logic [UNITS-1:0] active;
  logic [UNITS-1:0][1:0] open_instructions;
  for (genvar u = 0; u < UNITS; ++u) begin : g_active
    always_ff @(posedge clk_i) begin
      if (!rst_ni) open_instructions[u] <= '0;
      else open_instructions[u] <= open_instructions[u] + 2'(unit_valid[u]) - 2'(done[u]);
    end
    assign active[u] = open_instructions[u] != 0;
  end
  assign running = !idle || waiting;
  assign count   = {active, beat_written, beat_read, waiting && !ready, running};

  logic load, store, table_write, source_write, target_write;
  logic [SB-1:0] load_slot, store_slot;
  logic [RW-2:0] load_pair, store_pair;
  logic [1:0][B-1:0][W-1:0] load_data, store_data;
  logic [TW-1:0] table_row;
  logic [B-1:0][W-1:0] table_data;
  logic [NB-1:0] write_set;
  logic [IB-1:0] write_index;
  logic [48+T*W-1:0] source_data;
  logic [4*W+5:0] target_data;
  hg_core #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .BANKS(BANKS),
      .SLOTS(SLOTS),
      .TABLES(TABLES),
      .P(P),
      .T(T),
      .SOURCES(SOURCES),
      .SETS(SETS)
  ) i_core (
    .clk_i,
    .rst_ni,
    .words_i(words),
    .valid_i(unit_valid[3:0]),
    .ready_o(unit_ready[3:0]),
    .read_done_o(read_done[3:0]),
    .done_o(done[3:0]),
    .ntt_last_o(ntt_want),
    .ntt_grant_i(ntt_grant),
    .load_i(load),
    .load_slot_i(load_slot),
    .load_pair_i(load_pair),
    .load_data_i(load_data),
    .store_i(store),
    .store_slot_i(store_slot),
    .store_pair_i(store_pair),
    .store_data_o(store_data),
    .table_write_i(table_write),
    .table_row_i(table_row),
    .table_data_i(table_data),
    .source_write_i(source_write),
    .target_write_i(target_write),
    .write_set_i(write_set),
    .write_index_i(write_index),
    .source_data_i(source_data),
    .target_data_i(target_data),
    .conflict_o(conflict)
  );

  // The bus. A limb has N / 2B beats; instructions that load constants have their number of beats in a field.
  logic [15:0] limb_beats;
  assign limb_beats = 16'((32'd1 << words[0][11:8]) >> ($clog2(B) + 1));
  hg_dma_read #(
      .W (W),
      .B (B),
      .SB(SB),
      .AW(RW - 1),
      .TW(TW),
      .T (T),
      .IB(IB),
      .NB(NB)
  ) i_read (
    .clk_i,
    .rst_ni,
    .valid_i(unit_valid[UNIT_LOAD]),
    .ready_o(unit_ready[UNIT_LOAD]),
    .operation_i(words[0][7:0]),
    .address_i({words[9], words[8]}),
    .beats_i(words[0][7:0] == OP_CONSTANTS ? words[10][15:0] : limb_beats),
    .slot_i(SB'(words[1])),
    .row_i(TW'(words[6])),
    .set_i(NB'(words[6] >> 16)),
    .done_o(done[UNIT_LOAD]),
    .error_o(read_error),
    .beat_o(beat_read),
    .load_o(load),
    .load_slot_o(load_slot),
    .load_pair_o(load_pair),
    .load_data_o(load_data),
    .table_write_o(table_write),
    .table_row_o(table_row),
    .table_data_o(table_data),
    .source_write_o(source_write),
    .target_write_o(target_write),
    .write_set_o(write_set),
    .write_index_o(write_index),
    .source_data_o(source_data),
    .target_data_o(target_data),
    .arvalid_o(m_arvalid_o),
    .arready_i(m_arready_i),
    .araddr_o(m_araddr_o),
    .arlen_o(m_arlen_o),
    .rvalid_i(m_rvalid_i),
    .rready_o(m_rready_o),
    .rdata_i(m_rdata_i),
    .rresp_i(m_rresp_i)
  );
  assign read_done[UNIT_LOAD] = done[UNIT_LOAD];
  hg_dma_write #(
      .W (W),
      .B (B),
      .SB(SB),
      .AW(RW - 1)
  ) i_write (
    .clk_i,
    .rst_ni,
    .valid_i(unit_valid[UNIT_STORE]),
    .ready_o(unit_ready[UNIT_STORE]),
    .address_i({words[9], words[8]}),
    .beats_i(limb_beats),
    .slot_i(SB'(words[1] >> 8)),
    .read_done_o(read_done[UNIT_STORE]),
    .done_o(done[UNIT_STORE]),
    .error_o(write_error),
    .beat_o(beat_written),
    .store_o(store),
    .store_slot_o(store_slot),
    .store_pair_o(store_pair),
    .store_data_i(store_data),
    .awvalid_o(m_awvalid_o),
    .awready_i(m_awready_i),
    .awaddr_o(m_awaddr_o),
    .awlen_o(m_awlen_o),
    .wvalid_o(m_wvalid_o),
    .wready_i(m_wready_i),
    .wdata_o(m_wdata_o),
    .wlast_o(m_wlast_o),
    .bvalid_i(m_bvalid_i),
    .bready_o(m_bready_o),
    .bresp_i(m_bresp_i)
  );
  assign m_wstrb_o = '1;

endmodule
