// Element-wise operations on a limb, B words a cycle: out = c + a b or c - a b. a is a limb or 1, b a limb or a constant, c
// a limb or 0. With these operands the unit computes all element-wise instructions of the card: a sum is c + a * 1, a
// negation 0 - a * 1, a copy 0 + a * 1, zero 0 + a * 0. With first_only_i the product is computed only at word 0 (a constant
// polynomial).
//
// An instruction is accepted when valid_i and ready_o are high. Each operand is read from its own bank. Operands in one
// bank, in different slots, are read one after the other: a row takes `phases` cycles, 1 to 3. Rows arrive two cycles after
// read_o. Cycles from the acceptance of an instruction to done_o, both included: rows * phases + 21; for consecutive
// instructions rows * phases.
module hg_pointwise #(
    parameter  int unsigned W     = 30,
    parameter  int unsigned B     = 8,
    parameter  int unsigned LOG_N = 12,
    parameter  int unsigned SB    = 5,                 // bits of a slot's number; its lowest BB bits are the bank's number
    parameter  int unsigned BB    = 2,
    localparam int unsigned RW    = LOG_N - $clog2(B)
) (
    input  logic                         clk_i,
    input  logic                         rst_ni,
    input  logic                         valid_i,
    output logic                         ready_o,
    input  logic [   3:0]                log_n_i,
    input  logic                         row_a_i,       // a is a limb, otherwise 1
    input  logic                         row_b_i,       // b is a limb, otherwise constant_i
    input  logic                         row_c_i,       // c is a limb, otherwise 0
    input  logic                         subtract_i,
    input  logic                         first_only_i,
    input  logic [   2:0][SB-1:0]        slot_i,        // numbers of the slots of a, b and c
    input  logic [SB-1:0]                out_i,
    input  logic [ W-1:0]                q_i,
    input  logic [ W-1:0]                normal_i,
    input  logic [   W:0]                k_i,
    input  logic [   4:0]                shift_i,
    input  logic [ W-1:0]                constant_i,
    output logic [   2:0]                read_o,
    output logic [   2:0][SB-1:0]        read_slot_o,
    output logic [RW-1:0]                read_row_o,
    input  logic [   2:0][ B-1:0][W-1:0] read_data_i,
    output logic                         read_done_o,
    output logic                         write_o,
    output logic [SB-1:0]                write_slot_o,
    output logic [RW-1:0]                write_row_o,
    output logic [ B-1:0][ W-1:0]        write_data_o,
    output logic                         done_o
);

  localparam int unsigned LB = $clog2(B);
  localparam int unsigned LATENCY = hg_pkg::LANE_LATENCY + 4;
  if (BB >= SB) begin : g_check
    $error("hg_pointwise: a bank's number is a part of a slot's");
  end

  typedef struct packed {
    logic row_a, row_b, row_c, subtract, first_only;
    logic [SB-1:0] out;
    logic [W-1:0] q;
    logic [W-1:0] normal;
    logic [W:0] k;
    logic [4:0] shift;
    logic [W-1:0] constant;
  } work_t;
  work_t work;
  logic busy;
  logic [2:0][SB-1:0] slot;
  logic [2:0] wanted;
  logic [2:0][1:0] turn;  // phase in which each operand is read
  logic [1:0] phase, final_phase;
  logic [RW-1:0] row, final_row;

  // Whether two operands need separate phases: they are in one bank, but not in the same slot.
  function automatic logic clash(logic [SB-1:0] x, logic [SB-1:0] y);
    return x[BB-1:0] == y[BB-1:0] && x != y;
  endfunction
  logic ab, ac, bc;
  assign ab = row_a_i && row_b_i && clash(slot_i[0], slot_i[1]);
  assign ac = row_a_i && row_c_i && clash(slot_i[0], slot_i[2]);
  assign bc = row_b_i && row_c_i && clash(slot_i[1], slot_i[2]);
  logic [1:0] turn_b, turn_c;
  assign turn_b = {1'b0, ab};
  // c is read after the operands from which it needs a separate phase. If c is in the slot of another operand, both operands
  // are read together.
  always_comb begin
    turn_c = 2'd0;
    if (ac && bc) turn_c = turn_b + 2'd1;
    else if (ac) turn_c = row_b_i && slot_i[1] == slot_i[2] ? turn_b : 2'd1;
    else if (bc) turn_c = row_a_i && slot_i[0] == slot_i[2] ? 2'd0 : turn_b ^ 2'd1;
    else if (row_b_i && slot_i[1] == slot_i[2]) turn_c = turn_b;
  end

  logic row_end, limb_end, take;
  assign row_end = busy && phase == final_phase;
  assign limb_end = row_end && row == final_row;
  assign ready_o = !busy || limb_end;
  assign take = valid_i && ready_o;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) busy <= 1'b0;
    else if (take) busy <= 1'b1;
    else if (limb_end) busy <= 1'b0;
    if (take) begin
      work <= '{
          row_a: row_a_i,
          row_b: row_b_i,
          row_c: row_c_i,
          subtract: subtract_i,
          first_only: first_only_i,
          out: out_i,
          q: q_i,
          normal: normal_i,
          k: k_i,
          shift: shift_i,
          constant: constant_i
      };
      slot <= slot_i;
      wanted <= {row_c_i, row_b_i, row_a_i};
      turn <= {turn_c, turn_b, 2'd0};
      final_phase <= turn_c > turn_b && row_c_i ? turn_c : turn_b;
      final_row <= RW'((32'd1 << (log_n_i - 4'(LB))) - 1);
      phase <= '0;
      row <= '0;
    end else if (row_end) begin
      phase <= '0;
      row   <= row + 1'b1;
    end else begin
      phase <= phase + 1'b1;
    end
  end
  assign read_done_o = limb_end;

  // Cycle 1: addresses. Cycle 3: the row of an operand arrives in the phase that reads it and is
  // held until the last phase. Cycle 4: all operands of the row are available.
  typedef struct packed {
    logic          valid;      // whether this is the row's last phase
    logic          final_row;
    logic [RW-1:0] row;
  } step_t;
  step_t step[LATENCY];
  logic [2:0] read1, read2, read3;
  logic [2:0][SB-1:0] slot1;
  work_t work1, work2, work3, work4;
  for (genvar i = 0; i < 3; ++i) begin : g_read
    always_ff @(posedge clk_i) read1[i] <= busy && wanted[i] && turn[i] == phase;
  end
  always_ff @(posedge clk_i) begin
    slot1   <= slot;
    read2   <= read1;
    read3   <= read2;
    work1   <= work;
    work2   <= work1;
    work3   <= work2;
    work4   <= work3;
    step[0] <= '{valid: row_end, final_row: limb_end, row: row};
    for (int unsigned i = 1; i < LATENCY; ++i) step[i] <= step[i-1];
    if (!rst_ni) for (int unsigned i = 0; i < LATENCY; ++i) step[i].valid <= 1'b0;
  end
  assign read_o = read1;
  assign read_slot_o = slot1;
  assign read_row_o = step[0].row;
  logic [2:0][B-1:0][W-1:0] held;
  for (genvar i = 0; i < 3; ++i) begin : g_held
    always_ff @(posedge clk_i) if (read3[i]) held[i] <= read_data_i[i];
  end

  logic first_row;
  assign first_row = step[3].row == 0;
  for (genvar l = 0; l < B; ++l) begin : g_lane
    logic [W-1:0] a, b, c;
    logic nothing;
    assign nothing = work4.first_only && !(first_row && l == 0);
    assign a = work4.row_a ? held[0][l] : W'(1);
    assign b = nothing ? '0 : work4.row_b ? held[1][l] : work4.constant;
    assign c = work4.row_c ? held[2][l] : '0;
    hg_lane #(
        .W(W)
    ) i_lane (
      .clk_i,
      .subtract_i(work4.subtract),
      .q_i(work4.q),
      .normal_i(work4.normal),
      .k_i(work4.k),
      .shift_i(work4.shift),
      .a_i(a),
      .b_i(b),
      .c_i(c),
      .z_o(write_data_o[l])
    );
  end

  hg_delay #(
      .WIDTH (SB),
      .CYCLES(LATENCY - 4)
  ) i_out (
    .clk_i,
    .d_i(work4.out),
    .d_o(write_slot_o)
  );
  assign write_o = step[LATENCY-1].valid;
  assign write_row_o = step[LATENCY-1].row;
  assign done_o = step[LATENCY-1].valid && step[LATENCY-1].final_row;

endmodule
