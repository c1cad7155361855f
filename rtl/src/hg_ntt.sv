// The negacyclic NTT of one limb and its inverse, B butterflies a cycle, in the engine's order (src/math/ring.h).
//
// A row is B words; row r is words r B .. r B + B - 1 of the polynomial. Rows lie in two groups, row r in group parity(r) at
// address r / 2. Partners of a stage differ in one bit of r, so they are in different groups: two rows are read and two
// written in each cycle, without conflict. Where partners are nearer than B words they share a row; then rows 2c and 2c + 1
// go together, and lanes are exchanged on the way.
//   The first stage reads from outside (read_*), the last writes outside (write_*); between them rows live in a memory of the
// engine's own. So the outside is busy N / 2B cycles at each end, and limbs follow each other without a gap.
//   Twiddles: one table, w[k] = psi^rev(k) 2^W mod q as rows of B. The inverse reads entry k ^ (m - 1) of stage m, for
// psi^-rev(m + i) = -psi^rev(2m - 1 - i); the sign is the butterfly's. TABLES tables fit; table_i is which.
//
// A limb is taken where valid_i and ready_o are. read_address_o is presented with read_o, its rows come two cycles later.
// The last stage waits for grant_i (last_o says that it stands before or in it). read_done_o: nothing more is read.
// done_o: with the limb's last rows written.
// Cycles from taking a limb to done_o: log_n (N / 2B + gap) - gap + latency + 1; limb after limb log_n (N / 2B + gap) - gap,
// gap and latency (20) in hg_pkg; a gap is only where N < 80 B.
module hg_ntt #(
    parameter int unsigned W = 30,
    parameter int unsigned STEP = 10,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned TABLES = 1,
    localparam int unsigned LB = $clog2(B),
    localparam int unsigned ROWS = (1 << LOG_N) / B,
    localparam int unsigned AW = $clog2(ROWS) - 1,
    localparam int unsigned TW = $clog2(ROWS * TABLES)
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         valid_i,
    output logic                         ready_o,
    input  logic                         inverse_i,
    input  logic [   3:0]                log_n_i,
    input  logic [TW-1:0]                table_i,          // its first row
    input  logic [ W-1:0]                q_i,
    output logic                         read_o,
    output logic [   1:0][AW-1:0]        read_address_o,
    input  logic [   1:0][ B-1:0][W-1:0] read_data_i,
    output logic                         read_done_o,
    output logic                         last_o,
    input  logic                         grant_i,
    output logic                         write_o,
    output logic [   1:0][AW-1:0]        write_address_o,
    output logic [   1:0][ B-1:0][W-1:0] write_data_o,
    output logic                         done_o,
    input  logic                         table_write_i,
    input  logic [TW-1:0]                table_row_i,
    input  logic [ B-1:0][ W-1:0]        table_data_i
);

  localparam int unsigned BUTTERFLY = hg_pkg::butterfly_latency(W, STEP);
  localparam int unsigned LATENCY = hg_pkg::ntt_latency(W, STEP);
  localparam int unsigned GAP_BITS = $clog2(LATENCY + 1);
  if (B != 1 << LB || B > 16) begin : g_check_lanes
    $error("hg_ntt: 1, 2, 4, 8 or 16 butterflies");
  end
  if (LOG_N < 9 || LOG_N > 15 || LOG_N < 2 * LB || LOG_N < LB + 3) begin : g_check_degree
    $error("hg_ntt: LOG_N of 9 to 15, and at least B * B words");
  end

  // Cycles between stages, by the degree.
  function automatic logic [GAP_BITS-1:0] gap_of(logic [3:0] log_n);
    gap_of = '0;
    for (int unsigned l = 9; l <= LOG_N; ++l) begin
      if (log_n == 4'(l)) gap_of = GAP_BITS'(hg_pkg::ntt_gap(W, STEP, B, l));
    end
  endfunction

  // What is issued: pair `pair` of the stage whose partners are 2^span words apart.
  typedef struct packed {
    logic inverse;
    logic [3:0] log_n;
    logic [TW-1:0] base;
    logic [W-1:0] q;
  } limb_t;
  limb_t limb;
  logic busy, first;
  logic [3:0] span;
  logic [AW-1:0] pair;
  logic [LOG_N-1:0] twiddle;
  logic [GAP_BITS-1:0] gap;

  // What a stage's pairs have in common is in registers, made anew where a stage begins, for all of it is needed in each cycle.
  logic last, crosses;  // crosses: partners are in two rows (span >= LB)
  logic [AW-1:0] final_pair, below;  // below: the bits under the one in which partners' rows differ
  logic [LOG_N-1:0] under;  // the stage's twiddles begin at entry under + 1, a power of two
  logic [LB:0] stride;  // twiddles from a pair to the next: across rows one for as many pairs as lie below; within B / t
  logic final_one, advance;  // of `pair`: it is the stage's last; the next one takes another twiddle

  logic issue, stage_end, limb_end, take;
  assign last_o = busy && last;
  assign issue = busy && gap == 0 && (!last || grant_i);
  assign stage_end = issue && final_one;
  assign limb_end = stage_end && last;
  assign ready_o = !busy || limb_end;
  assign take = valid_i && ready_o;

  // The bit above a mask of ones.
  function automatic logic [LOG_N-1:0] above(logic [LOG_N-1:0] mask);
    return {mask[LOG_N-2:0], 1'b1} & ~mask;
  endfunction

  // The first pair and twiddle of the limb's next stage, and of the next limb.
  logic [3:0] next_span;
  logic next_crosses;
  logic [AW-1:0] next_below, limb_pair;
  logic [LOG_N-1:0] next_under, limb_under;
  logic [LB:0] next_stride;
  assign next_span = limb.inverse ? span + 4'd1 : span - 4'd1;
  assign next_crosses = {1'b1, next_span} > 5'd15 + 5'(LB);
  assign next_below = !limb.inverse ? below >> 1 : crosses ? AW'({below, 1'b1}) : '0;
  assign next_under = limb.inverse ? under >> 1 : {under[LOG_N-2:0], 1'b1};
  always_comb begin
    if (next_crosses) next_stride = (LB + 1)'(1);
    else if (limb.inverse) next_stride = (LB + 1)'({1'b0, stride} >> 1);
    else next_stride = (LB + 1)'({stride, 1'b0});
  end
  assign limb_pair  = AW'((32'd1 << (log_n_i - 4'(LB) - 4'd1)) - 1);
  assign limb_under = inverse_i ? LOG_N'((32'd1 << (log_n_i - 4'd1)) - 1) : '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy <= 1'b0;
    end else begin
      if (take) busy <= 1'b1;
      else if (limb_end) busy <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (take) begin
      limb <= '{inverse: inverse_i, log_n: log_n_i, base: table_i, q: q_i};
      first <= 1'b1;
      last <= 1'b0;
      span <= inverse_i ? 4'd0 : log_n_i - 4'd1;
      crosses <= !inverse_i || LB == 0;
      final_pair <= limb_pair;
      below <= inverse_i ? '0 : limb_pair;
      under <= limb_under;
      stride <= inverse_i ? (LB + 1)'(B) : (LB + 1)'(1);
      pair <= '0;
      final_one <= 1'b0;
      twiddle <= above(limb_under);
      advance <= inverse_i;
      gap <= '0;
    end else if (stage_end) begin
      first <= 1'b0;
      last <= limb.inverse ? next_span == limb.log_n - 4'd1 : next_span == 4'd0;
      span <= next_span;
      crosses <= next_crosses;
      below <= next_below;
      under <= next_under;
      stride <= next_stride;
      pair <= '0;
      final_one <= 1'b0;
      twiddle <= above(next_under);
      advance <= next_below == '0;
      gap <= gap_of(limb.log_n);
    end else begin
      if (gap != 0) gap <= gap - 1'b1;
      if (issue) begin
        pair <= pair + 1'b1;
        final_one <= pair == (final_pair & ~AW'(1));
        if (advance) twiddle <= twiddle + LOG_N'(stride);
        advance <= (pair & below) == (below & ~AW'(1));
      end
    end
  end
  assign read_done_o = stage_end && first;

  // Cycle 1: addresses of the two rows, by group. A row's number is its pair's with a 0 among the bits, the partner's with a 1.
  logic [AW:0] row, partner;
  logic odd;
  assign row = ({1'b0, pair & ~below} << 1) | {1'b0, pair & below};
  assign partner = row | ({below, 1'b1} & ~{1'b0, below});
  assign odd = ^pair;

  typedef struct packed {
    logic               valid;
    logic               first;
    logic               last;
    logic               final_one;
    logic               odd;        // the first of the rows is in group 1
    logic               inverse;
    logic               crosses;
    logic [3:0]         span;
    logic [1:0][AW-1:0] address;
  } pass_t;
  pass_t pass[LATENCY];  // pass[i]: i + 1 cycles after the issue
  logic [W-1:0] q_first;
  always_ff @(posedge clk_i) begin
    pass[0] <= '{
        valid: issue,
        first: first,
        last: last,
        final_one: limb_end,
        odd: odd,
        inverse: limb.inverse,
        crosses: crosses,
        span: span,
        address: odd ? {row[AW:1], partner[AW:1]} : {partner[AW:1], row[AW:1]}
    };
    for (int unsigned i = 1; i < LATENCY; ++i) pass[i] <= pass[i-1];
    q_first <= limb.q;
    if (!rst_ni) for (int unsigned i = 0; i < LATENCY; ++i) pass[i].valid <= 1'b0;
  end
  assign read_o = pass[0].valid && pass[0].first;
  assign read_address_o = pass[0].address;

  // Cycles 2 and 3: memory.
  logic [1:0][B-1:0][W-1:0] own_data, rows;
  logic own_write;
  for (genvar g = 0; g < 2; ++g) begin : g_group
    hg_ram #(
        .WIDTH(B * W),
        .DEPTH(ROWS / 2)
    ) i_own (
      .clk_i,
      .write_i(own_write),
      .write_address_i(write_address_o[g]),
      .write_data_i(write_data_o[g]),
      .read_address_i(pass[0].address[g]),
      .read_data_o(own_data[g])
    );
  end

  // Cycle 4: the row of the lower words first.
  always_ff @(posedge clk_i) begin
    rows[0] <= pass[2].first ? read_data_i[pass[2].odd] : own_data[pass[2].odd];
    rows[1] <= pass[2].first ? read_data_i[!pass[2].odd] : own_data[!pass[2].odd];
  end

  // Cycle 5: lanes. Within rows, butterfly j of stage t takes lane `low_lane` and the one t above of row j / (B / 2).
  logic [B-1:0][W-1:0] u, v, x, y, w;
  if (B == 1) begin : g_one_lane
    always_ff @(posedge clk_i) begin
      u <= rows[0];
      v <= rows[1];
    end
  end else begin : g_lanes
    for (genvar j = 0; j < B; ++j) begin : g_lane
      localparam int unsigned ROW = j / (B / 2), K = j % (B / 2);
      logic [W-1:0] to_u, to_v;
      always_comb begin
        to_u = rows[0][j];
        to_v = rows[1][j];
        for (int s = 0; s < int'(LB); ++s) begin
          if (!pass[3].crosses && pass[3].span == 4'(s)) begin
            to_u = rows[ROW][((K>>s)<<(s+1))+(K&((1<<s)-1))];
            to_v = rows[ROW][((K>>s)<<(s+1))+(K&((1<<s)-1))+(1<<s)];
          end
        end
      end
      always_ff @(posedge clk_i) begin
        u[j] <= to_u;
        v[j] <= to_v;
      end
    end
  end

  // Twiddles are read in time for cycle 8, where the butterflies want them.
  typedef struct packed {
    logic [TW-1:0] row;
    logic [LB:0] start;  // the lane of the first
    logic crosses;
    logic [3:0] span;
  } choice_t;
  choice_t choice, choice_late, choice_lanes;
  logic [LOG_N-1:0] entry;
  assign entry = limb.inverse ? twiddle ^ under : twiddle;
  always_ff @(posedge clk_i) begin
    choice <= '{
        row: limb.base + TW'(32'(entry) >> LB),
        start: (LB + 1)'(entry & LOG_N'(B - 1)),
        crosses: crosses,
        span: span
    };
  end
  hg_delay #(
      .WIDTH ($bits(choice_t)),
      .CYCLES(4)
  ) i_choice (
    .clk_i,
    .d_i(choice),
    .d_o(choice_late)
  );
  hg_delay #(
      .WIDTH ($bits(choice_t)),
      .CYCLES(2)
  ) i_choice_lanes (
    .clk_i,
    .d_i(choice_late),
    .d_o(choice_lanes)
  );
  logic [B-1:0][W-1:0] twiddles;
  hg_ram #(
      .WIDTH(B * W),
      .DEPTH(ROWS * TABLES)
  ) i_table (
    .clk_i,
    .write_i(table_write_i),
    .write_address_i(table_row_i),
    .write_data_i(table_data_i),
    .read_address_i(choice_late.row),
    .read_data_o(twiddles)
  );
  // Within rows, lane j's is j / t entries on; the inverse counts down, in a row of which all bits are inverted.
  for (genvar j = 0; j < B; ++j) begin : g_twiddle
    logic [LB:0] lane;
    always_comb begin
      lane = choice_lanes.start;
      for (int s = 0; s < int'(LB); ++s) begin
        if (!choice_lanes.crosses && choice_lanes.span == 4'(s)) begin
          lane = choice_lanes.start ^ (LB + 1)'(j >> s);
        end
      end
    end
    if (B == 1) begin : g_only
      logic unused_lane;
      assign unused_lane = ^lane;
      always_ff @(posedge clk_i) w[j] <= twiddles[j];
    end else begin : g_of
      logic unused_lane;
      assign unused_lane = lane[LB];
      always_ff @(posedge clk_i) w[j] <= twiddles[lane[LB-1:0]];
    end
  end

  logic [W-1:0] q_lanes;
  hg_delay #(
      .WIDTH (W),
      .CYCLES(4)
  ) i_q (
    .clk_i,
    .d_i(q_first),
    .d_o(q_lanes)
  );
  for (genvar j = 0; j < B; ++j) begin : g_butterfly
    hg_butterfly #(
        .W(W),
        .STEP(STEP)
    ) i_butterfly (
      .clk_i,
      .inverse_i(pass[4].inverse),
      .q_i(q_lanes),
      .u_i(u[j]),
      .v_i(v[j]),
      .w_i(w[j]),
      .x_o(x[j]),
      .y_o(y[j])
    );
  end

  // The last cycle: lanes and groups back.
  localparam int unsigned BACK = 4 + BUTTERFLY;
  logic [1:0][B-1:0][W-1:0] back;
  for (genvar i = 0; i < B; ++i) begin : g_back
    always_comb begin
      back[0][i] = x[i];
      back[1][i] = y[i];
      for (int s = 0; s < int'(LB); ++s) begin
        if (!pass[BACK].crosses && pass[BACK].span == 4'(s)) begin
          for (int unsigned r = 0; r < 2; ++r) begin
            back[r][i] = i[s] ? y[r*(B/2)+((i>>(s+1))<<s)+(i&((1<<s)-1))] : x[r*(B/2)+((i>>(s+1))<<s)+(i&((1<<s)-1))];
          end
        end
      end
    end
  end
  always_ff @(posedge clk_i) begin
    write_data_o[0] <= back[pass[BACK].odd];
    write_data_o[1] <= back[!pass[BACK].odd];
  end
  assign write_address_o = pass[LATENCY-1].address;
  assign write_o = pass[LATENCY-1].valid && pass[LATENCY-1].last;
  assign own_write = pass[LATENCY-1].valid && !pass[LATENCY-1].last;
  assign done_o = pass[LATENCY-1].final_one && pass[LATENCY-1].valid;

  if (BACK + 2 != LATENCY) begin : g_check_latency
    $error("hg_ntt: latency");
  end
  logic unused;
  assign unused = ^{choice_lanes.row, partner[0]};

`ifndef SYNTHESIS
  assert property (@(posedge clk_i) disable iff (!rst_ni) take |-> log_n_i >= 4'd9 && log_n_i <= 4'(LOG_N));
`endif

endmodule
