// Base conversion (src/math/conversion.h) of limbs of y_i: for each coefficient and up to T targets, the unit computes:
//   v = (sum_i y_i f_i + 2^57) >> 58          out_j = sum_i y_i m_ji + v wrap_j  modulo q_j
// P coefficients are processed at a time. In each cycle one source enters T + 1 columns of multipliers, the last of which
// computes v. Then the sums leave through P reducers, target by target. Fractions f_i have up to 48 bits, because moduli of
// sources are above 2^10. A later pointwise instruction adds an own term (x' own).
//
// Constants are written in advance, in SETS sets. source_write_i writes the constants of a source: {f, m of target T-1, ...,
// m of target 0}, where m carries the target's shift. target_write_i writes the constants of a target, {shift, k, fold,
// wrap, normal} (hg_reduce_sum). An instruction is accepted when valid_i and ready_o are high. The sources of an instruction
// are slots in banks that no other unit reads; rows arrive two cycles after read_o. Each row of a source is read B / P
// times. One cycle writes P lanes of a row of a target. Cycles from the acceptance of an instruction to done_o, both
// included, with S sources and T targets: (N / P - 1) max(S, T) + S + T + 23.
module hg_convert #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned SB = 5,
    parameter int unsigned P = 4,
    parameter int unsigned T = 8,
    parameter int unsigned SOURCES = 16,
    parameter int unsigned SETS = 8,
    localparam int unsigned RW = LOG_N - $clog2(B),
    localparam int unsigned IB = $clog2(SOURCES),
    localparam int unsigned TB = $clog2(T),
    localparam int unsigned NB = $clog2(SETS),
    localparam int unsigned FW = 48,
    localparam int unsigned SOURCE_WIDTH = FW + T * W,
    localparam int unsigned TARGET_WIDTH = 4 * W + 6
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            valid_i,
    output logic                            ready_o,
    input  logic [             3:0]         log_n_i,
    input  logic [          IB-1:0]         last_source_i,
    input  logic [          TB-1:0]         last_target_i,
    input  logic [          NB-1:0]         set_i,
    input  logic [     SOURCES-1:0][SB-1:0] source_i,
    input  logic [           T-1:0][SB-1:0] target_i,
    output logic                            read_o,
    output logic [          SB-1:0]         read_slot_o,
    output logic [          RW-1:0]         read_row_o,
    input  logic [           B-1:0][ W-1:0] read_data_i,
    output logic                            read_done_o,
    output logic                            write_o,
    output logic [           B-1:0]         write_lanes_o,
    output logic [          SB-1:0]         write_slot_o,
    output logic [          RW-1:0]         write_row_o,
    output logic [           B-1:0][ W-1:0] write_data_o,
    output logic                            done_o,
    input  logic                            source_write_i,
    input  logic                            target_write_i,
    input  logic [          NB-1:0]         write_set_i,
    input  logic [          IB-1:0]         write_index_i,
    input  logic [SOURCE_WIDTH-1:0]         source_data_i,
    input  logic [TARGET_WIDTH-1:0]         target_data_i
);

  localparam int unsigned PL = hg_pkg::PRODUCT_LATENCY;
  localparam int unsigned MORE = IB;  // bits by which a sum over all sources is longer than a product
  localparam int unsigned SUM = 2 * W + MORE;
  localparam int unsigned LL = 41 + MORE, LH = W - 7 + MORE, HL = W + 7 + MORE, HH = 2 * W - 41 + MORE;
  localparam int unsigned GB = LOG_N - $clog2(P);  // bits of the number of a group of P coefficients
  localparam int unsigned QB = B > P ? $clog2(B / P) : 1;
  if (B % P != 0 || T < 2 || T != 1 << TB || SOURCES != 1 << IB || IB < TB || SETS < 2 || SETS != 1 << NB) begin : g_check
    $error("hg_convert: P divides B; powers of two of targets, sources and sets, as many sources as targets or more");
  end

  logic busy, active, take, drained;
  logic [IB-1:0] step, last_step, last_source;
  logic [TB-1:0] last_target;
  logic [NB-1:0] set;
  logic [GB-1:0] group, final_group;
  logic [SOURCES-1:0][SB-1:0] source;
  logic [T-1:0][SB-1:0] target;
  logic group_end, limb_end;
  assign group_end = busy && step == last_step;
  assign limb_end = group_end && group == final_group;
  assign ready_o = !active;  // the output registers hold the targets of one instruction
  assign take = valid_i && ready_o;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) busy <= 1'b0;
    else if (take) busy <= 1'b1;
    else if (limb_end) busy <= 1'b0;
    if (!rst_ni) active <= 1'b0;
    else if (take) active <= 1'b1;
    else if (drained) active <= 1'b0;
    if (take) begin
      last_source <= last_source_i;
      last_target <= last_target_i;
      // One target leaves per cycle, so a group of coefficients takes at least one cycle per target.
      last_step <= last_source_i > IB'(last_target_i) ? last_source_i : IB'(last_target_i);
      set <= set_i;
      source <= source_i;
      target <= target_i;
      group <= '0;
      step <= '0;
      final_group <= GB'((32'd1 << (log_n_i - 4'($clog2(P)))) - 1);
    end else begin
      step <= group_end ? '0 : step + 1'b1;
      if (group_end) group <= group + 1'b1;
    end
  end
  assign read_done_o = limb_end;

  // Cycle 1: addresses. Cycle 3: rows and constants arrive. Cycle 4: P coefficients are selected. Products and sums
  // follow and are complete in cycle 5 + PL.
  localparam int unsigned STEPS = 4 + PL;
  typedef struct packed {
    logic valid, first, last, limb;
    logic [GB-1:0] group;
  } pass_t;
  pass_t pass[STEPS];
  logic [SOURCE_WIDTH-1:0] row_constants;
  always_ff @(posedge clk_i) begin
    read_o <= busy && step <= last_source;
    read_slot_o <= source[step];
    read_row_o <= RW'(group >> (GB - RW));
    pass[0] <= '{
        valid: busy && step <= last_source,
        first: step == 0,
        last: busy && step == last_source,
        limb: group == final_group,
        group: group
    };
    for (int i = 1; i < int'(STEPS); ++i) pass[i] <= pass[i-1];
    if (!rst_ni) begin
      for (int i = 0; i < int'(STEPS); ++i) begin
        pass[i].valid <= 1'b0;
        pass[i].last  <= 1'b0;
      end
    end
  end
  logic [NB+IB-1:0] constants_at;
  always_ff @(posedge clk_i) constants_at <= {set, step};
  hg_ram #(
      .WIDTH(SOURCE_WIDTH),
      .DEPTH(SETS * SOURCES)
  ) i_sources (
    .clk_i,
    .write_i(source_write_i),
    .write_address_i({write_set_i, write_index_i}),
    .write_data_i(source_data_i),
    .read_address_i(constants_at),
    .read_data_o(row_constants)
  );

  logic [P-1:0][W-1:0] y;
  logic [SOURCE_WIDTH-1:0] constants;
  always_ff @(posedge clk_i) constants <= row_constants;
  if (B == P) begin : g_whole
    always_ff @(posedge clk_i) y <= read_data_i;
  end else begin : g_part
    logic [B/P-1:0][P-1:0][W-1:0] parts;
    assign parts = read_data_i;
    always_ff @(posedge clk_i) y <= parts[pass[2].group[QB-1:0]];
  end

  // The array of multipliers. Each sum of pieces is in one DSP, and starts again at the first source.
  localparam int unsigned ADDED = STEPS - 1 - 2;  // add_i follows its operands by one cycle
  logic [LL-1:0] held_ll[P][T];
  logic [LH-1:0] held_lh[P][T];
  logic [HL-1:0] held_hl[P][T];
  logic [HH-1:0] held_hh[P][T];
  logic [P-1:0][MORE:0] v;
  logic early;  // the sums are complete
  always_ff @(posedge clk_i) early <= rst_ni && pass[ADDED].last;
  for (genvar p = 0; p < P; ++p) begin : g_coefficient
    for (genvar j = 0; j < T; ++j) begin : g_cell
      logic [LL-1:0] ll;
      logic [LH-1:0] lh;
      logic [HL-1:0] hl;
      logic [HH-1:0] hh;
      hg_product_sum #(
          .AW(W),
          .BW(W),
          .TERMS(SOURCES)
      ) i_sum (
        .clk_i,
        .add_i  (pass[ADDED].valid),
        .first_i(pass[ADDED].first),
        .a_i    (y[p]),
        .b_i    (constants[j*W+:W]),
        .ll_o   (ll),
        .lh_o   (lh),
        .hl_o   (hl),
        .hh_o   (hh)
      );
      always_ff @(posedge clk_i) begin
        if (early) begin
          held_ll[p][j] <= ll;
          held_lh[p][j] <= lh;
          held_hl[p][j] <= hl;
          held_hh[p][j] <= hh;
        end
      end
    end
    // f < 2^58 / q and y < q: each term is below 2^58.
    localparam int unsigned FH = FW - 24;
    logic [LL-1:0] ll, turns_ll;
    logic [17+FH+MORE-1:0] lh, turns_lh;
    logic [HL-1:0] hl, turns_hl;
    logic [W-17+FH+MORE-1:0] hh, turns_hh;
    logic [58+MORE:0] turns;
    hg_product_sum #(
        .AW(W),
        .BW(FW),
        .TERMS(SOURCES)
    ) i_turns (
      .clk_i,
      .add_i  (pass[ADDED].valid),
      .first_i(pass[ADDED].first),
      .a_i    (y[p]),
      .b_i    (constants[T*W+:FW]),
      .ll_o   (ll),
      .lh_o   (lh),
      .hl_o   (hl),
      .hh_o   (hh)
    );
    always_ff @(posedge clk_i) if (early) {turns_ll, turns_lh, turns_hl, turns_hh} <= {ll, lh, hl, hh};
    hg_pieces #(
        .LL  (LL),
        .LH  (17 + FH + MORE),
        .HL  (HL),
        .HH  (W - 17 + FH + MORE),
        .OW  (59 + MORE),
        .PLUS((59 + MORE)'(1) << 57)
    ) i_rounded (
      .clk_i,
      .ll_i (turns_ll),
      .lh_i (turns_lh),
      .hl_i (turns_hl),
      .hh_i (turns_hh),
      .sum_o(turns)
    );
    assign v[p] = turns[58+:MORE+1];
    logic unused;
    assign unused = ^turns[57:0];
  end

  // The output. Registers take all sums in the same cycle. In each cycle one target is selected and its pieces are added.
  logic [TB-1:0] pick;
  always_ff @(posedge clk_i) pick <= early ? '0 : pick + 1'b1;
  logic [P-1:0][SUM-1:0] leaving_sum;
  for (genvar p = 0; p < P; ++p) begin : g_leaving
    logic [LL-1:0] ll;
    logic [LH-1:0] lh;
    logic [HL-1:0] hl;
    logic [HH-1:0] hh;
    always_ff @(posedge clk_i) begin
      ll <= held_ll[p][pick];
      lh <= held_lh[p][pick];
      hl <= held_hl[p][pick];
      hh <= held_hh[p][pick];
    end
    hg_pieces #(
        .LL(LL),
        .LH(LH),
        .HL(HL),
        .HH(HH),
        .OW(SUM)
    ) i_sum (
      .clk_i,
      .ll_i (ll),
      .lh_i (lh),
      .hl_i (hl),
      .hh_i (hh),
      .sum_o(leaving_sum[p])
    );
  end

  logic whole, draining, drain_limb;  // whole: the pieces of the first target are in the pipeline
  logic [TB-1:0] leaving;
  logic [GB-1:0] drain_group, group_late;
  logic limb_late;
  always_ff @(posedge clk_i) begin
    whole <= rst_ni && pass[STEPS-1].last;
    group_late <= pass[STEPS-1].group;
    limb_late <= pass[STEPS-1].limb;
    if (whole) begin
      leaving <= '0;
      drain_group <= group_late;
      drain_limb <= limb_late;
    end else begin
      leaving <= leaving + 1'b1;
    end
    if (!rst_ni) draining <= 1'b0;
    else if (whole) draining <= 1'b1;
    else if (leaving == last_target) draining <= 1'b0;
  end

  assign drained = draining && drain_limb && leaving == last_target;

  // The constants of a target arrive two cycles after its address. The first address is presented in the cycle in which
  // the registers take the sums.
  logic [TARGET_WIDTH-1:0] target_constants;
  logic [TB-1:0] next;
  assign next = whole ? '0 : leaving + 1'b1;
  hg_ram #(
      .WIDTH(TARGET_WIDTH),
      .DEPTH(SETS * T)
  ) i_targets (
    .clk_i,
    .write_i(target_write_i),
    .write_address_i({write_set_i, write_index_i[TB-1:0]}),
    .write_data_i(target_data_i),
    .read_address_i({set, next}),
    .read_data_o(target_constants)
  );
  // `next` precedes `leaving` by a cycle. A target's constants arrive one cycle after its sums, so the sums are delayed by
  // that cycle.
  logic [P-1:0][MORE:0] leaving_v;
  always_ff @(posedge clk_i) leaving_v <= v;

  typedef struct packed {
    logic valid, done;
    logic [SB-1:0] slot;
    logic [GB-1:0] group;
  } out_t;
  localparam int unsigned OUT = 1 + hg_pkg::REDUCE_SUM_LATENCY;
  out_t out[OUT];
  always_ff @(posedge clk_i) begin
    out[0] <= '{valid: draining, done: drained, slot: target[leaving], group: drain_group};
    for (int i = 1; i < int'(OUT); ++i) out[i] <= out[i-1];
    if (!rst_ni) for (int i = 0; i < int'(OUT); ++i) out[i].valid <= 1'b0;
  end
  logic [P-1:0][W-1:0] z;
  for (genvar p = 0; p < P; ++p) begin : g_reduce
    hg_reduce_sum #(
        .W(W),
        .MORE(MORE)
    ) i_reduce (
      .clk_i,
      .sum_i(leaving_sum[p]),
      .v_i(leaving_v[p]),
      .normal_i(target_constants[0+:W]),
      .wrap_i(target_constants[W+:W]),
      .fold_i(target_constants[2*W+:W]),
      .k_i(target_constants[3*W+:W+1]),
      .shift_i(target_constants[4*W+1+:5]),
      .z_o(z[p])
    );
  end
  for (genvar l = 0; l < B; ++l) begin : g_write
    assign write_data_o[l]  = z[l%P];
    assign write_lanes_o[l] = B == P || out[OUT-1].group[QB-1:0] == QB'(l / P);
  end
  assign write_o = out[OUT-1].valid;
  assign write_slot_o = out[OUT-1].slot;
  assign write_row_o = RW'(out[OUT-1].group >> (GB - RW));
  assign done_o = out[OUT-1].valid && out[OUT-1].done;

endmodule
