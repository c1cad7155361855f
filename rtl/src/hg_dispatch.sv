// Issues descriptors (hg_core) to units in order: the first descriptor waits until the scoreboard permits it and its unit is
// free. Conversions read all their sources and write all their targets. Twiddles and constants write a table, which the NTT
// and conversions read until they end. A fence waits for all earlier instructions; a marked load or store waits for earlier
// loads and stores. The following instructions are dropped, and unknown_o reports them:
//   - unknown operations;
//   - permutations and conversions into a slot that they read, because they write rows before they read them;
//   - fields beyond the card's shape: slots, tables (which start at multiples of 2^RW rows), sets, sources and targets;
//   - degrees of less than one beat (an NTT: less than 2^9 words) or more than 2^LOG_N words;
//   - permutations by an even g; addresses that are not multiples of a beat's 8 B bytes;
//   - constants of 0 beats or of 2^16 or more.
// Latency: none; at most one instruction a cycle.
module hg_dispatch #(
    parameter  int unsigned SLOTS   = 32,
    parameter  int unsigned TABLES  = 2,
    parameter  int unsigned SETS    = 8,
    parameter  int unsigned BANKS   = 4,
    parameter  int unsigned SOURCES = 16,
    parameter  int unsigned T       = 8,
    parameter  int unsigned B       = 8,
    parameter  int unsigned LOG_N   = 12,
    localparam int unsigned RW      = LOG_N - $clog2(B),  // bits of the number of a row
    localparam int unsigned UNITS   = 6
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   valid_i,
    output logic                   ready_o,
    input  logic [     15:0][31:0] words_i,
    output logic [UNITS-1:0]       unit_valid_o,
    input  logic [UNITS-1:0]       unit_ready_i,
    input  logic [UNITS-1:0]       read_done_i,
    input  logic [UNITS-1:0]       done_i,
    input  logic                   ntt_want_i,
    output logic                   ntt_grant_o,
    output logic                   idle_o,        // no instruction runs
    output logic                   fence_o,       // a fence was passed
    output logic                   unknown_o      // an instruction was dropped
);
  import hg_pkg::*;

  localparam int unsigned SB = $clog2(SLOTS);
  localparam int unsigned ALL = SLOTS + TABLES + SETS;
  localparam int unsigned LB = $clog2(B);
  if (SOURCES > 16 || T > 8) begin : g_check
    $error("hg_dispatch: a descriptor names 16 sources and 8 targets at most");
  end

  logic [7:0] operation;
  logic [SB-1:0] out;
  logic [2:0] unit;
  logic [ALL-1:0] reads, writes;
  logic known, fence;
  logic [31:0] word1, word6;
  assign operation = words_i[0][7:0];
  assign word1 = words_i[1];
  assign word6 = words_i[6];
  assign out = SB'(word1);

  function automatic logic [ALL-1:0] slot(logic [7:0] number);
    return ALL'(1) << (32'(number) % SLOTS);
  endfunction
  function automatic logic [ALL-1:0] table_at(logic [15:0] row);
    return ALL'(1) << (SLOTS + (32'(row) >> RW) % TABLES);
  endfunction
  function automatic logic [ALL-1:0] constants(logic [7:0] number);
    return ALL'(1) << (SLOTS + TABLES + 32'(number) % SETS);
  endfunction

  // Checks fields against the card's shape.
  function automatic logic is_slot(logic [7:0] number);
    return 32'(number) < SLOTS;
  endfunction
  logic degree, table_exists, set_exists, beat_aligned;
  assign degree = 32'(words_i[0][11:8]) > LB && 32'(words_i[0][11:8]) <= LOG_N;
  assign table_exists = word6[RW-1:0] == 0 && 32'(word6[15:0]) >> RW < TABLES;
  assign set_exists = 32'(word6[23:16]) < SETS;
  assign beat_aligned = words_i[8][LB+2:0] == 0;

  always_comb begin
    unit   = 3'(UNIT_NTT);
    reads  = '0;
    writes = '0;
    known  = 1'b1;
    fence  = 1'b0;
    case (operation)
      OP_NTT: begin
        reads  = slot(word1[15:8]) | table_at(word6[15:0]);
        writes = slot(8'(out));
        known  = degree && words_i[0][11:8] >= 4'd9 && table_exists && is_slot(word1[7:0]) && is_slot(word1[15:8]);
      end
      OP_POINTWISE: begin
        unit = 3'(UNIT_POINTWISE);
        if (words_i[0][13]) reads |= slot(word1[15:8]);
        if (words_i[0][14]) reads |= slot(word1[23:16]);
        if (words_i[0][15]) reads |= slot(word1[31:24]);
        writes = slot(8'(out));
        known  = degree && is_slot(word1[7:0]);
        for (int i = 0; i < 3; ++i) known = known && (!words_i[0][13+i] || is_slot(word1[8*(i+1)+:8]));
      end
      OP_PERMUTE: begin
        unit   = 3'(UNIT_PERMUTE);
        reads  = slot(word1[15:8]);
        writes = slot(8'(out));
        known  = degree && word6[0] && is_slot(word1[7:0]) && is_slot(word1[15:8]) && (reads & writes) == 0;
      end
      OP_CONVERT: begin
        unit  = 3'(UNIT_CONVERT);
        reads = constants(word6[23:16]);
        known = degree && set_exists && 32'(word6[7:0]) < SOURCES && 32'(word6[15:8]) < T;
        for (int i = 0; i < int'(SOURCES); ++i) begin
          if (8'(i) <= word6[7:0]) begin
            reads |= slot(words_i[8+i/4][8*(i%4)+:8]);
            known = known && is_slot(words_i[8+i/4][8*(i%4)+:8]);
          end
        end
        for (int j = 0; j < int'(T); ++j) begin
          if (8'(j) <= word6[15:8]) begin
            writes |= slot(words_i[12+j/4][8*(j%4)+:8]);
            known = known && is_slot(words_i[12+j/4][8*(j%4)+:8]);
          end
        end
        known = known && (reads & writes) == 0;
      end
      OP_LOAD: begin
        unit   = 3'(UNIT_LOAD);
        writes = slot(8'(out));
        known  = degree && is_slot(word1[7:0]) && beat_aligned;
      end
      OP_STORE: begin
        unit  = 3'(UNIT_STORE);
        reads = slot(word1[15:8]);
        known = degree && is_slot(word1[15:8]) && beat_aligned;
      end
      OP_TWIDDLES: begin
        unit   = 3'(UNIT_LOAD);
        writes = table_at(word6[15:0]);
        known  = degree && table_exists && beat_aligned;
      end
      OP_CONSTANTS: begin
        unit   = 3'(UNIT_LOAD);
        writes = constants(word6[23:16]);
        known  = set_exists && beat_aligned && words_i[10][15:0] != 0 && words_i[10][31:16] == 0;
      end
      OP_FENCE: fence = 1'b1;
      default:  known = 1'b0;
    endcase
  end

  logic ok, go, bus_free;
  logic [UNITS-1:0] want, grant;
  assign want = UNITS'(ntt_want_i) << UNIT_NTT;
  assign ntt_grant_o = grant[UNIT_NTT];
  hg_scoreboard #(
      .SLOTS (SLOTS),
      .TABLES(TABLES + SETS),
      .BANKS (BANKS),
      .UNITS (UNITS),
      .LATE  (UNITS'(1) << UNIT_NTT)
  ) i_scoreboard (
    .clk_i,
    .rst_ni,
    .unit_i(unit),
    .reads_i(reads),
    .writes_i(writes),
    .ok_o(ok),
    .issue_i(go),
    .read_done_i,
    .done_i,
    .want_i(want),
    .grant_o(grant),
    .idle_o
  );
  // Loads and stores that wait for earlier ones. Two loads or stores may access the same memory, which the scoreboard does
  // not track.
  logic [1:0] open_loads, open_stores;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      open_loads  <= '0;
      open_stores <= '0;
    end else begin
      open_loads  <= open_loads + 2'(unit_valid_o[UNIT_LOAD]) - 2'(done_i[UNIT_LOAD]);
      open_stores <= open_stores + 2'(unit_valid_o[UNIT_STORE]) - 2'(done_i[UNIT_STORE]);
    end
  end
  assign bus_free = !words_i[0][24] || (open_loads == 0 && open_stores == 0);
  assign go = valid_i && known && !fence && ok && bus_free && unit_ready_i[unit];
  assign unit_valid_o = go ? UNITS'(1) << unit : '0;
  assign fence_o = valid_i && fence && idle_o;
  assign unknown_o = valid_i && !known;
  assign ready_o = go || fence_o || unknown_o;
  logic unused;
  assign unused = ^{words_i, grant, word1, word6};

endmodule
