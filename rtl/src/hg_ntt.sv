// The negacyclic NTT of one limb and its inverse, with B butterflies a cycle, in the engine's order (src/math/ring.h).
//
// A row has B words; row r has the words from r B to r B + B - 1 of the polynomial. Rows are in two groups: row r is in
// group parity(r) at address r / 2. Partners of a stage differ in one bit of r, so they are in different groups. Each cycle
// reads two rows and writes two, without conflicts. Partners at a distance below B words share a row; then rows 2c and 2c +
// 1 are processed together, and lanes are exchanged. The first stage reads from outside this module (read_*), the last stage
// writes outside (write_*); intermediate rows are in a memory of this module. So the memory outside is busy for N / 2B
// cycles at each end, and limbs follow each other without a gap. Twiddles: one table, w[k] = psi^rev(k) 2^W mod q in rows of
// B. The inverse reads entry k ^ (m - 1) of stage m, since psi^-rev(m + i) = -psi^rev(2m - 1 - i); the butterfly applies the
// sign. The memory holds TABLES tables; table_i selects one.
//
// A limb is accepted when valid_i and ready_o are high. read_address_o is presented with read_o, and its rows arrive two
// cycles later. The last stage waits for grant_i (last_o: the engine is before or in the last stage). read_done_o: all reads
// are done. done_o comes with the limb's last rows written. Cycles from the acceptance of a limb to done_o: log_n (N / 2B +
// gap) - gap + latency + 1. For consecutive limbs, a limb takes log_n (N / 2B + gap) - gap cycles. gap and latency (20) are
// in hg_pkg; the gap is nonzero only if N < 80 B.
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
    input  logic [TW-1:0]                table_i,          // number of the table's first row
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

  // Cycles between two stages, for each degree.
  function automatic logic [GAP_BITS-1:0] gap_of(logic [3:0] log_n);
    gap_of = '0;
    for (int unsigned l = 9; l <= LOG_N; ++l) begin
      if (log_n == 4'(l)) gap_of = GAP_BITS'(hg_pkg::ntt_gap(W, STEP, B, l));
    end
  endfunction

  // The current pair of rows: pair `pair` of the stage whose partners are 2^span words apart.
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

  // Registers with the values that all pairs of a stage share. The registers change at the start of a stage, because every
  // cycle needs all of these values.
  logic last, crosses;  // crosses: partners are in two rows (span >= LB)
  logic [AW-1:0] final_pair, below;  // below: mask of the bits below the one in which the rows of partners differ
  logic [LOG_N-1:0] under;  // the stage's twiddles start at entry under + 1, a power of two
  logic [LB:0] stride;  // twiddles per step: across rows 1 after every `below` + 1 pairs; within rows B / t per pair
  logic final_one, advance;  // final_one: `pair` is the stage's last one; advance: the next pair uses another twiddle

  logic issue, stage_end, limb_end, take;
  assign last_o = busy && last;
  assign issue = busy && gap == 0 && (!last || grant_i);
  assign stage_end = issue && final_one;
  assign limb_end = stage_end && last;
  assign ready_o = !busy || limb_end;
  assign take = valid_i && ready_o;

  // Returns the lowest bit above a mask of ones.
  function automatic logic [LOG_N-1:0] above(logic [LOG_N-1:0] mask);
    return {mask[LOG_N-2:0], 1'b1} & ~mask;
  endfunction

  // The first pair and the first twiddle of the limb's next stage, or of the next limb.
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

  // Cycle 1: addresses of the two rows, by group. A row's number is the pair's number with a 0 inserted at the bit in
  // which partners differ; the partner's number has a 1 there.
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
    logic               odd;        // whether the row of the lower words is in group 1
    logic               inverse;
    logic               crosses;
    logic [3:0]         span;
    logic [1:0][AW-1:0] address;
  } pass_t;
  pass_t pass[LATENCY];  // pass[i] describes the pair that was issued i + 1 cycles ago
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

  // Cycles 2 and 3: the memory reads both rows.
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

  // Cycle 4: the row of the lower words comes first.
  always_ff @(posedge clk_i) begin
    rows[0] <= pass[2].first ? read_data_i[pass[2].odd] : own_data[pass[2].odd];
    rows[1] <= pass[2].first ? read_data_i[!pass[2].odd] : own_data[!pass[2].odd];
  end

  // Cycle 5: selects the lanes. Within rows, butterfly j of stage t takes lane `low_lane` of row j / (B / 2), and the lane
  // at distance t.
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

  // Twiddles are read early enough for cycle 8, in which the butterflies need them.
  typedef struct packed {
    logic [TW-1:0] row;
    logic [LB:0] start;  // lane of the first twiddle
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
  // Within rows, the twiddle of lane j is j / t entries after the first one. In the inverse the entries count down, and
  // all bits of the row's number are inverted.
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

  // The last cycle restores the order of lanes and groups.
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
