// The card without its bus: limb slots and the units that compute on them. The words of a descriptor:
//   0  [7:0] operation (hg_pkg::OP_*)   [11:8] log2 N   [12] NTT: inverse; permutation: of NTT order   [13] a, [14] b, [15] c are
//      limbs   [16] subtract   [17] product at word 0 only   [22:18] shift   [23] interrupt after all earlier instructions
//      [24] load, store: wait for all earlier loads and stores
//   1  slots: [7:0] out   [15:8] a   [23:16] b   [31:24] c
//   2  q            3  q << shift           4  Barrett's constant of 3      5  constant b
//   6  permutation: [16:0] g    NTT: [15:0] the table's first row
//      conversion: [7:0] sources - 1   [15:8] targets - 1   [23:16] set of constants
//   8  (and 9) address in the card's memory; a conversion: 8 to 11 slots of sources, 12 and 13 slots of targets, a byte each
//  10  number of beats of constants.
// An instruction goes to unit u (hg_pkg::UNIT_*) by valid_i[u]. read_done_o[u] reports that the operands of its oldest
// instruction are read, done_o[u] that the result is written. The issuer of instructions prevents conflicts of banks and
// slots (hg_scoreboard).
module hg_core #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned BANKS = 4,
    parameter int unsigned SLOTS = 32,
    parameter int unsigned TABLES = 2,  // number of twiddle tables of 2^LOG_N words
    parameter int unsigned P = 4,  // shape of a conversion: coefficients per cycle, targets, sources, sets of constants
    parameter int unsigned T = 8,
    parameter int unsigned SOURCES = 16,
    parameter int unsigned SETS = 8,
    localparam int unsigned SB = $clog2(SLOTS),
    localparam int unsigned LB = $clog2(B),
    localparam int unsigned RW = LOG_N - LB,
    localparam int unsigned AW = RW - 1,
    localparam int unsigned TW = RW + $clog2(TABLES),
    localparam int unsigned IB = $clog2(SOURCES),
    localparam int unsigned NB = $clog2(SETS),
    localparam int unsigned SOURCE_WIDTH = 48 + T * W,
    localparam int unsigned TARGET_WIDTH = 4 * W + 6
) (
    input  logic                                  clk_i,
    input  logic                                  rst_ni,
    input  logic [            15:0][ 31:0]        words_i,
    input  logic [             3:0]               valid_i,
    output logic [             3:0]               ready_o,
    output logic [             3:0]               read_done_o,
    output logic [             3:0]               done_o,
    output logic                                  ntt_last_o,      // the NTT requests its write bank
    input  logic                                  ntt_grant_i,
    // From the bus: two rows, 2c and 2c + 1.
    input  logic                                  load_i,
    input  logic [          SB-1:0]               load_slot_i,
    input  logic [          AW-1:0]               load_pair_i,
    input  logic [             1:0][B-1:0][W-1:0] load_data_i,
    // Stored rows go to the bus two cycles after store_i.
    input  logic                                  store_i,
    input  logic [          SB-1:0]               store_slot_i,
    input  logic [          AW-1:0]               store_pair_i,
    output logic [             1:0][B-1:0][W-1:0] store_data_o,
    input  logic                                  table_write_i,
    input  logic [          TW-1:0]               table_row_i,
    input  logic [           B-1:0][W-1:0]        table_data_i,
    input  logic                                  source_write_i,
    input  logic                                  target_write_i,
    input  logic [          NB-1:0]               write_set_i,
    input  logic [          IB-1:0]               write_index_i,
    input  logic [SOURCE_WIDTH-1:0]               source_data_i,
    input  logic [TARGET_WIDTH-1:0]               target_data_i,
    output logic                                  conflict_o
);
  import hg_pkg::*;

  if (SLOTS > 256 || LOG_N > 15) begin : g_check
    $error("hg_core: 256 slots of 2^15 words at most");
  end

  localparam int unsigned READERS = 7, WRITERS = 5;
  localparam int unsigned NTT = 0, BUS = 1, POINTWISE = 2, PERMUTE = 5, CONVERT = 6;  // index of each unit's first read
                                                                                      // port; pointwise has three ports
  localparam int unsigned W_NTT = 0, W_BUS = 1, W_POINTWISE = 2, W_PERMUTE = 3, W_CONVERT = 4;
  logic [READERS-1:0] read;
  logic [READERS-1:0][SB-1:0] read_slot;
  logic [READERS-1:0][1:0][AW-1:0] read_address;
  logic [READERS-1:0][1:0][B-1:0][W-1:0] read_data;
  logic [WRITERS-1:0][1:0][B-1:0] write;
  logic [WRITERS-1:0][SB-1:0] write_slot;
  logic [WRITERS-1:0][1:0][B-1:0][AW-1:0] write_address;
  logic [WRITERS-1:0][1:0][B-1:0][W-1:0] write_data;
  hg_memory #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .BANKS(BANKS),
      .SLOTS(SLOTS),
      .READERS(READERS),
      .WRITERS(WRITERS)
  ) i_memory (
    .clk_i,
    .rst_ni,
    .read_i(read),
    .read_slot_i(read_slot),
    .read_address_i(read_address),
    .read_data_o(read_data),
    .write_i(write),
    .write_slot_i(write_slot),
    .write_address_i(write_address),
    .write_data_i(write_data),
    .conflict_o
  );

  // Fields of the descriptor.
  logic [3:0] log_n;
  logic [W-1:0] q;
  logic [SB-1:0] out;
  logic [2:0][SB-1:0] slots;
  logic unused;
  assign log_n = words_i[0][11:8];
  assign q = words_i[2][W-1:0];
  assign out = SB'(words_i[1]);
  assign slots = {SB'(words_i[1] >> 24), SB'(words_i[1] >> 16), SB'(words_i[1] >> 8)};
  assign unused = ^{words_i, read_data};

  // Units that use one row at a time. The row's group is the parity of the row's number, delayed until the row arrives.
  localparam int unsigned ROW_READERS = 5;
  logic [ROW_READERS-1:0][RW-1:0] row;
  logic [ROW_READERS-1:0] group1, group2;
  logic [ROW_READERS-1:0][B-1:0][W-1:0] row_data;
  for (genvar r = 0; r < ROW_READERS; ++r) begin : g_row
    always_ff @(posedge clk_i) begin
      group1[r] <= ^row[r];
      group2[r] <= group1[r];
    end
    assign read_address[POINTWISE+r] = {2{row[r][RW-1:1]}};
    assign row_data[r] = read_data[POINTWISE+r][group2[r]];
  end

  // The NTT. The unit reads the rows of a limb as soon as it accepts the limb, and writes the rows at the end.
  logic [SB-1:0] ntt_from, ntt_to, ntt_to_next;
  logic ntt_read, ntt_write, ntt_last, ntt_last_late;
  logic [1:0][AW-1:0] ntt_write_address;
  hg_ntt #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .TABLES(TABLES)
  ) i_ntt (
    .clk_i,
    .rst_ni,
    .valid_i(valid_i[UNIT_NTT]),
    .ready_o(ready_o[UNIT_NTT]),
    .inverse_i(words_i[0][12]),
    .log_n_i(log_n),
    .table_i(TW'(words_i[6])),
    .q_i(q),
    .read_o(ntt_read),
    .read_address_o(read_address[NTT]),
    .read_data_i(read_data[NTT]),
    .read_done_o(read_done_o[UNIT_NTT]),
    .last_o(ntt_last),
    .grant_i(ntt_grant_i),
    .write_o(ntt_write),
    .write_address_o(ntt_write_address),
    .write_data_o(write_data[W_NTT]),
    .done_o(done_o[UNIT_NTT]),
    .table_write_i,
    .table_row_i,
    .table_data_i
  );
  always_ff @(posedge clk_i) begin
    ntt_last_late <= ntt_last && rst_ni;
    if (valid_i[UNIT_NTT] && ready_o[UNIT_NTT]) begin
      ntt_from <= slots[0];
      ntt_to_next <= out;
    end
    // The last rows of the previous limb are already written.
    if (ntt_last && !ntt_last_late) ntt_to <= ntt_to_next;
  end
  assign ntt_last_o = ntt_last;
  assign read[NTT] = ntt_read;
  assign read_slot[NTT] = ntt_from;
  assign write[W_NTT] = {2 * B{ntt_write}};
  assign write_slot[W_NTT] = ntt_to;
  assign write_address[W_NTT] = {{B{ntt_write_address[1]}}, {B{ntt_write_address[0]}}};

  // The bus.
  logic load_odd, store_odd1, store_odd2;
  assign load_odd = ^load_pair_i;
  assign write[W_BUS] = {2 * B{load_i}};
  assign write_slot[W_BUS] = load_slot_i;
  assign write_address[W_BUS] = {2 * B{load_pair_i}};
  assign write_data[W_BUS] = load_odd ? {load_data_i[0], load_data_i[1]} : load_data_i;
  assign read[BUS] = store_i;
  assign read_slot[BUS] = store_slot_i;
  assign read_address[BUS] = {2{store_pair_i}};
  always_ff @(posedge clk_i) begin
    store_odd1 <= ^store_pair_i;
    store_odd2 <= store_odd1;
  end
  assign store_data_o = store_odd2 ? {read_data[BUS][0], read_data[BUS][1]} : read_data[BUS];

  // Element-wise operations.
  logic [RW-1:0] pointwise_row, pointwise_write_row;
  logic pointwise_write;
  logic [B-1:0][W-1:0] pointwise_data;
  hg_pointwise #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .SB(SB),
      .BB($clog2(BANKS))
  ) i_pointwise (
    .clk_i,
    .rst_ni,
    .valid_i(valid_i[UNIT_POINTWISE]),
    .ready_o(ready_o[UNIT_POINTWISE]),
    .log_n_i(log_n),
    .row_a_i(words_i[0][13]),
    .row_b_i(words_i[0][14]),
    .row_c_i(words_i[0][15]),
    .subtract_i(words_i[0][16]),
    .first_only_i(words_i[0][17]),
    .slot_i(slots),
    .out_i(out),
    .q_i(q),
    .normal_i(words_i[3][W-1:0]),
    .k_i(words_i[4][W:0]),
    .shift_i(words_i[0][22:18]),
    .constant_i(words_i[5][W-1:0]),
    .read_o(read[POINTWISE+:3]),
    .read_slot_o(read_slot[POINTWISE+:3]),
    .read_row_o(pointwise_row),
    .read_data_i(row_data[2:0]),
    .read_done_o(read_done_o[UNIT_POINTWISE]),
    .write_o(pointwise_write),
    .write_slot_o(write_slot[W_POINTWISE]),
    .write_row_o(pointwise_write_row),
    .write_data_o(pointwise_data),
    .done_o(done_o[UNIT_POINTWISE])
  );
  assign row[2:0] = {3{pointwise_row}};
  logic pointwise_group;
  assign pointwise_group = ^pointwise_write_row;
  assign write[W_POINTWISE] = {{B{pointwise_write && pointwise_group}}, {B{pointwise_write && !pointwise_group}}};
  assign write_address[W_POINTWISE] = {2 * B{pointwise_write_row[RW-1:1]}};
  assign write_data[W_POINTWISE] = {2{pointwise_data}};

  // Permutations. The lanes of a row move to different rows.
  logic permute_write;
  logic [B-1:0][RW-1:0] permute_rows;
  logic [B-1:0][W-1:0] permute_data;
  hg_permute #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .SB(SB)
  ) i_permute (
    .clk_i,
    .rst_ni,
    .valid_i(valid_i[UNIT_PERMUTE]),
    .ready_o(ready_o[UNIT_PERMUTE]),
    .ntt_i(words_i[0][12]),
    .log_n_i(log_n),
    .galois_i((LOG_N + 1)'(words_i[6])),
    .q_i(q),
    .slot_i(slots[0]),
    .out_i(out),
    .read_o(read[PERMUTE]),
    .read_slot_o(read_slot[PERMUTE]),
    .read_row_o(row[3]),
    .read_data_i(row_data[3]),
    .read_done_o(read_done_o[UNIT_PERMUTE]),
    .write_o(permute_write),
    .write_slot_o(write_slot[W_PERMUTE]),
    .write_row_o(permute_rows),
    .write_data_o(permute_data),
    .done_o(done_o[UNIT_PERMUTE])
  );
  for (genvar l = 0; l < B; ++l) begin : g_permute
    assign write[W_PERMUTE][0][l] = permute_write && !(^permute_rows[l]);
    assign write[W_PERMUTE][1][l] = permute_write && (^permute_rows[l]);
    assign write_address[W_PERMUTE][0][l] = permute_rows[l][RW-1:1];
    assign write_address[W_PERMUTE][1][l] = permute_rows[l][RW-1:1];
  end
  assign write_data[W_PERMUTE] = {2{permute_data}};

  // Conversions.
  logic convert_write;
  logic [B-1:0] convert_lanes;
  logic [RW-1:0] convert_row;
  logic [B-1:0][W-1:0] convert_data;
  logic [SOURCES-1:0][SB-1:0] convert_from;
  logic [T-1:0][SB-1:0] convert_to;
  for (genvar i = 0; i < SOURCES; ++i) begin : g_from
    assign convert_from[i] = SB'(words_i[8+i/4] >> (8 * (i % 4)));
  end
  for (genvar j = 0; j < T; ++j) begin : g_to
    assign convert_to[j] = SB'(words_i[12+j/4] >> (8 * (j % 4)));
  end
  hg_convert #(
      .W(W),
      .B(B),
      .LOG_N(LOG_N),
      .SB(SB),
      .P(P),
      .T(T),
      .SOURCES(SOURCES),
      .SETS(SETS)
  ) i_convert (
    .clk_i,
    .rst_ni,
    .valid_i(valid_i[UNIT_CONVERT]),
    .ready_o(ready_o[UNIT_CONVERT]),
    .log_n_i(log_n),
    .last_source_i(IB'(words_i[6])),
    .last_target_i(($clog2(T))'(words_i[6] >> 8)),
    .set_i(NB'(words_i[6] >> 16)),
    .source_i(convert_from),
    .target_i(convert_to),
    .read_o(read[CONVERT]),
    .read_slot_o(read_slot[CONVERT]),
    .read_row_o(row[4]),
    .read_data_i(row_data[4]),
    .read_done_o(read_done_o[UNIT_CONVERT]),
    .write_o(convert_write),
    .write_lanes_o(convert_lanes),
    .write_slot_o(write_slot[W_CONVERT]),
    .write_row_o(convert_row),
    .write_data_o(convert_data),
    .done_o(done_o[UNIT_CONVERT]),
    .source_write_i,
    .target_write_i,
    .write_set_i,
    .write_index_i,
    .source_data_i,
    .target_data_i
  );
  assign write[W_CONVERT] = convert_write ? (^convert_row ? {convert_lanes, {B{1'b0}}} : {{B{1'b0}}, convert_lanes}) : '0;
  assign write_address[W_CONVERT] = {2 * B{convert_row[RW-1:1]}};
  assign write_data[W_CONVERT] = {2{convert_data}};

endmodule
