// For any slot, twiddle table or set of constants: an instruction that reads it starts only after earlier writes have
// ended. An instruction that writes it starts only after earlier reads and writes have ended. Each valid instruction is
// issued to its unit once, when the unit is free. A fence waits until no instruction runs. The card drops exactly the
// instructions that would write rows before they read them, and the instructions with a field beyond the card's shape.
// Assumed: units end the instructions that they accept, after having read the operands, and accept another instruction only
// after these reads.
module hg_dispatch_proof #(
    parameter int unsigned SLOTS = 32,
    parameter int unsigned TABLES = 2,
    parameter int unsigned SETS = 8,
    parameter int unsigned SOURCES = 16,
    parameter int unsigned T = 8,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    localparam int unsigned RW = LOG_N - $clog2(B),
    localparam int unsigned UNITS = 6,
    localparam int unsigned ALL = SLOTS + TABLES + SETS
) (
    input logic                   clk_i,
    input logic                   rst_ni,
    input logic                   valid_i,
    input logic                   ready_o,
    input logic [     15:0][31:0] words_i,
    input logic [UNITS-1:0]       unit_valid_o,
    input logic [UNITS-1:0]       unit_ready_i,
    input logic [UNITS-1:0]       read_done_i,
    input logic [UNITS-1:0]       done_i,
    input logic                   ntt_want_i,
    input logic                   fence_o,
    input logic                   unknown_o,
    input logic [UNITS-1:0][ 1:0] board_valid,
    input logic [UNITS-1:0][ 1:0] board_reading,
    input logic [  ALL-1:0]       board_reads  [UNITS][2],
    input logic [  ALL-1:0]       board_writes [UNITS][2]
);
  import hg_pkg::*;

  logic began = 1'b0;
  logic [$clog2(ALL)-1:0] any;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    any   <= any;
  end

  // Whether a field of the descriptor refers to the slot, table or set `any` (hg_core). A byte is a slot's number; the
  // card has SLOTS slots.
  function automatic logic is_slot(logic [7:0] number);
    return 32'(number) % SLOTS == 32'(any);
  endfunction
  function automatic logic [7:0] byte_of(int unsigned word, int unsigned place);
    return words_i[word][8*place+:8];
  endfunction
  logic [7:0] operation;
  logic reads, writes, table_named, set_named;
  assign operation   = byte_of(0, 0);
  assign table_named = 32'(any) == SLOTS + (32'(words_i[6][15:0]) >> RW) % TABLES;
  assign set_named   = 32'(any) == SLOTS + TABLES + 32'(byte_of(6, 2)) % SETS;
  always_comb begin
    reads  = 1'b0;
    writes = 1'b0;
    case (operation)
      OP_NTT: {reads, writes} = {is_slot(byte_of(1, 1)) || table_named, is_slot(byte_of(1, 0))};
      OP_POINTWISE: begin
        reads  = (words_i[0][13] && is_slot(byte_of(1, 1))) || (words_i[0][14] && is_slot(byte_of(1, 2)));
        reads  = reads || (words_i[0][15] && is_slot(byte_of(1, 3)));
        writes = is_slot(byte_of(1, 0));
      end
      OP_PERMUTE: {reads, writes} = {is_slot(byte_of(1, 1)), is_slot(byte_of(1, 0))};
      OP_CONVERT: begin
        reads = set_named;
        for (int unsigned i = 0; i < SOURCES; ++i) begin
          reads = reads || (i <= 32'(byte_of(6, 0)) && is_slot(byte_of(8 + i / 4, i % 4)));
        end
        for (int unsigned j = 0; j < T; ++j) begin
          writes = writes || (j <= 32'(byte_of(6, 1)) && is_slot(byte_of(12 + j / 4, j % 4)));
        end
      end
      OP_LOAD: writes = is_slot(byte_of(1, 0));
      OP_STORE: reads = is_slot(byte_of(1, 1));
      OP_TWIDDLES: writes = table_named;
      OP_CONSTANTS: writes = set_named;
      default: ;
    endcase
  end

  // Whether every field of the operation is within the limits of the card's parameters.
  logic degree, row_of_table, whole_beats, sound;
  function automatic logic there(int unsigned word, int unsigned place);
    return 32'(byte_of(word, place)) < SLOTS;
  endfunction
  assign degree = 32'd1 << words_i[0][11:8] >= 2 * B && 32'd1 << words_i[0][11:8] <= 32'd1 << LOG_N;
  assign row_of_table = 32'(words_i[6][15:0]) % (1 << RW) == 0 && 32'(words_i[6][15:0]) < TABLES << RW;
  assign whole_beats = words_i[8] % (8 * B) == 0;
  always_comb begin
    sound = 1'b0;
    case (operation)
      OP_NTT: sound = degree && words_i[0][11:8] > 8 && row_of_table && there(1, 0) && there(1, 1);
      OP_POINTWISE: begin
        sound = degree && there(1, 0) && (!words_i[0][13] || there(1, 1)) && (!words_i[0][14] || there(1, 2));
        sound = sound && (!words_i[0][15] || there(1, 3));
      end
      OP_PERMUTE: sound = degree && words_i[6][0] && there(1, 0) && there(1, 1) && byte_of(1, 0) != byte_of(1, 1);
      OP_CONVERT: begin
        sound = degree && 32'(byte_of(6, 2)) < SETS && 32'(byte_of(6, 0)) < SOURCES && 32'(byte_of(6, 1)) < T;
        for (int unsigned i = 0; i < SOURCES; ++i) begin
          if (i <= 32'(byte_of(6, 0))) begin
            sound = sound && there(8 + i / 4, i % 4);
            for (int unsigned j = 0; j < T; ++j) begin
              if (j <= 32'(byte_of(6, 1))) sound = sound && byte_of(8 + i / 4, i % 4) != byte_of(12 + j / 4, j % 4);
            end
          end
        end
        for (int unsigned j = 0; j < T; ++j) if (j <= 32'(byte_of(6, 1))) sound = sound && there(12 + j / 4, j % 4);
      end
      OP_LOAD: sound = degree && there(1, 0) && whole_beats;
      OP_STORE: sound = degree && there(1, 1) && whole_beats;
      OP_TWIDDLES: sound = degree && row_of_table && whole_beats;
      OP_CONSTANTS: sound = 32'(byte_of(6, 2)) < SETS && whole_beats && words_i[10] > 0 && words_i[10] < 65536;
      default: ;
    endcase
  end

  // The running instructions: at most two per unit, the oldest first.
  typedef struct packed {logic live, reading, reads, writes;} entry_t;
  entry_t [UNITS-1:0][1:0] list, after;
  logic [UNITS-1:0] newest;
  always_comb begin
    after = list;
    for (int u = 0; u < int'(UNITS); ++u) begin
      newest[u] = list[u][1].live;
      if (read_done_i[u]) after[u][newest[u]].reading = 1'b0;
      if (done_i[u]) after[u] = {entry_t'('0), after[u][1]};
      if (unit_valid_o[u]) after[u][after[u][0].live] = '{live: 1'b1, reading: 1'b1, reads: reads, writes: writes};
    end
  end
  always_ff @(posedge clk_i) list <= rst_ni ? after : '0;
  logic read_now, written_now, running;
  always_comb begin
    read_now = 1'b0;
    written_now = 1'b0;
    running = 1'b0;
    for (int u = 0; u < int'(UNITS); ++u) begin
      for (int e = 0; e < 2; ++e) begin
        automatic entry_t x = list[u][e];
        if (x.live && x.reads && (x.reading || 32'(any) >= SLOTS)) read_now = 1'b1;
        if (x.live && x.writes) written_now = 1'b1;
        if (x.live) running = 1'b1;
      end
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (32'(any) < ALL);
    for (int u = 0; u < int'(UNITS); ++u) begin
      if (read_done_i[u]) assume (list[u][newest[u]].live && list[u][newest[u]].reading);
      if (done_i[u]) assume (list[u][0].live && (!list[u][0].reading || (read_done_i[u] && !newest[u])));
      if (unit_ready_i[u] && list[u][0].live) assume (!list[u][newest[u]].reading || read_done_i[u]);
    end
    if (ntt_want_i) assume (list[UNIT_NTT][0].live);
    if (began) begin
      assert ((unit_valid_o & (unit_valid_o - 1'b1)) == 0 && (unit_valid_o & ~unit_ready_i) == 0);
      if (unit_valid_o != 0) begin
        assert (valid_i && ready_o && !fence_o && !unknown_o);
        assert (!reads || !written_now);
        assert (!writes || (!written_now && !read_now));
        assert (!(reads && writes) || operation == OP_NTT || operation == OP_POINTWISE);
        assert (operation != OP_FENCE);
      end
      if (fence_o) assert (valid_i && operation == OP_FENCE && !running);
      assert (unknown_o == (valid_i && !sound && operation != OP_FENCE));
      if (valid_i && ready_o && sound) assert (unit_valid_o != 0);
      // The scoreboard's list equals the list of this proof.
      for (int u = 0; u < int'(UNITS); ++u) begin
        assert (!list[u][1].live || list[u][0].live);
        for (int e = 0; e < 2; ++e) begin
          automatic entry_t x = list[u][e];
          assert (x.live == board_valid[u][e]);
          if (x.live) assert (x.reading == board_reading[u][e]);
          if (x.live) assert (x.reads == board_reads[u][e][any] && x.writes == board_writes[u][e][any]);
        end
      end
    end
  end

endmodule

bind hg_dispatch hg_dispatch_proof #(
    .SLOTS(SLOTS),
    .TABLES(TABLES),
    .SETS(SETS),
    .SOURCES(SOURCES),
    .T(T),
    .B(B),
    .LOG_N(LOG_N)
) i_proof (
  .*,
  .board_valid  (i_scoreboard.valid),
  .board_reading(i_scoreboard.reading),
  .board_reads  (i_scoreboard.reads),
  .board_writes (i_scoreboard.writes)
);
