// The read half of the bus: limbs to slots, twiddles to the NTT's tables, constants to the conversion's tables. The unit
// uses AXI4 bursts of beats of 2B words of 32 bits (residues in their low W bits).
//   KIND (operation)  a beat is
//   LOAD        rows 2c and 2c + 1 of the slot; one a cycle
//   TWIDDLES    rows 2c and 2c + 1 of the table; one in two cycles
//   CONSTANTS   a part of records of 16 words; the last word is the address: [7:0] index, [16] target (not source).
//               Source: m_0 .. m_(T-1), fraction [31:0] in word 8, [47:32] in word 9. Target: normal, wrap, fold, k, shift.
// An instruction is accepted when valid_i and ready_o are high. done_o: all rows or records are written. error_o stays high
// after an error response. Cycles: the number of beats (twice for twiddles), plus the bus's latency to its first beat.
module hg_dma_read #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned SB = 5,
    parameter int unsigned AW = 8,  // bits of the number of a pair of rows
    parameter int unsigned TW = 10,  // bits of the number of a row of twiddles
    parameter int unsigned T = 8,
    parameter int unsigned IB = 4,
    parameter int unsigned NB = 3,
    localparam int unsigned WORDS = 2 * B,
    localparam int unsigned DW = 32 * WORDS
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            valid_i,
    output logic                            ready_o,
    input  logic [       7:0]               operation_i,
    input  logic [      63:0]               address_i,
    input  logic [      15:0]               beats_i,
    input  logic [    SB-1:0]               slot_i,
    input  logic [    TW-1:0]               row_i,
    input  logic [    NB-1:0]               set_i,           // set of constants
    output logic                            done_o,
    output logic                            error_o,
    output logic                            beat_o,          // a beat was accepted; counters use it
    output logic                            load_o,
    output logic [    SB-1:0]               load_slot_o,
    output logic [    AW-1:0]               load_pair_o,
    output logic [       1:0][B-1:0][W-1:0] load_data_o,
    output logic                            table_write_o,
    output logic [    TW-1:0]               table_row_o,
    output logic [     B-1:0][W-1:0]        table_data_o,
    output logic                            source_write_o,
    output logic                            target_write_o,
    output logic [    NB-1:0]               write_set_o,
    output logic [    IB-1:0]               write_index_o,
    output logic [48+T*W-1:0]               source_data_o,
    output logic [   4*W+5:0]               target_data_o,
    // AXI4, one id.
    output logic                            arvalid_o,
    input  logic                            arready_i,
    output logic [      63:0]               araddr_o,
    output logic [       7:0]               arlen_o,
    input  logic                            rvalid_i,
    output logic                            rready_o,
    input  logic [    DW-1:0]               rdata_i,
    input  logic [       1:0]               rresp_i
);
  import hg_pkg::*;

  localparam int unsigned RECORD = 16;
  localparam int unsigned PARTS = WORDS > RECORD ? WORDS / RECORD : 1;  // records per beat
  localparam int unsigned PIECE = WORDS > RECORD ? RECORD : WORDS;  // words of a record in one beat
  if (T > 8 || B > 16) begin : g_check
    $error("hg_dma_read: records have room for 8 targets");
  end

  logic busy, take, idle, unused_last;
  logic [7:0] operation;
  logic [15:0] left;  // remaining beats
  logic [SB-1:0] slot;
  logic [TW-1:0] row;
  logic [NB-1:0] set;
  logic [AW-1:0] pair;
  assign ready_o = !busy;
  assign take = valid_i && ready_o;
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
    .valid_o(arvalid_o),
    .ready_i(arready_i),
    .address_o(araddr_o),
    .length_o(arlen_o),
    .last_o(unused_last)
  );

  // A beat is accepted when the previous beat has been passed on.
  logic [WORDS-1:0][31:0] beat;
  logic held, piece_end, record_write;
  logic piece;  // the beat takes two cycles and this is the second
  logic two;
  assign two = operation == OP_TWIDDLES || (operation == OP_CONSTANTS && PARTS == 2);
  assign piece_end = held && (!two || piece);
  assign rready_o = busy && left != 0 && (!held || piece_end);
  assign beat_o = rvalid_i && rready_o;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy <= 1'b0;
      held <= 1'b0;
      error_o <= 1'b0;
    end else begin
      if (take) busy <= 1'b1;
      else if (done_o) busy <= 1'b0;
      if (beat_o) held <= 1'b1;
      else if (piece_end) held <= 1'b0;
      if (beat_o && rresp_i != 2'b00) error_o <= 1'b1;
    end
    if (beat_o) beat <= rdata_i;
    if (beat_o) piece <= 1'b0;
    else if (held) piece <= 1'b1;
    if (take) begin
      operation <= operation_i;
      left <= beats_i;
      slot <= slot_i;
      row <= row_i;
      set <= set_i;
      pair <= '0;
    end else begin
      if (beat_o) left <= left - 1'b1;
      if (held) begin
        if (piece_end) pair <= pair + 1'b1;
        if (operation == OP_TWIDDLES) row <= row + 1'b1;
      end
    end
  end
  // All beats of the instruction were passed on. The last record is written one cycle after its last piece.
  assign done_o = busy && left == 0 && !held && idle && !record_write;

  for (genvar i = 0; i < WORDS; ++i) begin : g_word
    assign load_data_o[i/B][i%B] = beat[i][W-1:0];
  end
  assign load_o = held && operation == OP_LOAD;
  assign load_slot_o = slot;
  assign load_pair_o = pair;
  assign table_write_o = held && operation == OP_TWIDDLES;
  assign table_row_o = row;
  assign table_data_o = load_data_o[piece];

  // A record is a shift register of pieces: the newest piece has the highest words.
  logic [RECORD-1:0][31:0] record;
  logic [3:0] pieces;
  logic [PIECE-1:0][31:0] newest;
  if (PARTS == 2) begin : g_parts
    assign newest = piece ? beat[WORDS-1-:PIECE] : beat[PIECE-1:0];
  end else begin : g_piece
    assign newest = beat;
  end
  localparam int unsigned NEEDED = RECORD / PIECE;
  always_ff @(posedge clk_i) begin
    record_write <= 1'b0;
    if (take) pieces <= '0;
    if (held && operation == OP_CONSTANTS) begin
      record <= (RECORD * 32)'({newest, record} >> (PIECE * 32));
      pieces <= pieces == 4'(NEEDED - 1) ? '0 : pieces + 1'b1;
      record_write <= rst_ni && pieces == 4'(NEEDED - 1);
    end
  end
  for (genvar j = 0; j < T; ++j) begin : g_source
    assign source_data_o[j*W+:W] = record[j][W-1:0];
  end
  assign source_data_o[T*W+:48] = {record[9][15:0], record[8]};
  assign target_data_o = {record[4][4:0], record[3][W:0], record[2][W-1:0], record[1][W-1:0], record[0][W-1:0]};
  assign write_index_o = record[15][IB-1:0];
  assign write_set_o = set;
  assign source_write_o = record_write && !record[15][16];
  assign target_write_o = record_write && record[15][16];
  logic unused;
  assign unused = ^{beat, record, unused_last};

endmodule
