// The automorphism X -> X^g of a limb, g odd, B words a cycle.
// In NTT order (ntt_i) a row moves to a row, with permuted lanes: position i is the value at psi^(2 rev(i) + 1). Rows are
// processed in the order of rev, so that exponents grow by 2g and no multiplication is needed.
// On coefficients word i moves to i g mod 2N, with a negative sign from N on: the lanes of a row move to different rows and
// different lanes.
//
// An instruction is accepted when valid_i and ready_o are high; rows arrive two cycles after read_o. Cycles from the
// acceptance of an instruction to done_o, both included: rows + 6; for consecutive instructions rows + 1.
module hg_permute #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned SB = 5,
    localparam int unsigned LB = $clog2(B),
    localparam int unsigned RW = LOG_N - LB
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic                   valid_i,
    output logic                   ready_o,
    input  logic                   ntt_i,
    input  logic [    3:0]         log_n_i,
    input  logic [LOG_N:0]         galois_i,
    input  logic [  W-1:0]         q_i,
    input  logic [ SB-1:0]         slot_i,
    input  logic [ SB-1:0]         out_i,
    output logic                   read_o,
    output logic [ SB-1:0]         read_slot_o,
    output logic [ RW-1:0]         read_row_o,
    input  logic [  B-1:0][ W-1:0] read_data_i,
    output logic                   read_done_o,
    output logic                   write_o,
    output logic [ SB-1:0]         write_slot_o,
    output logic [  B-1:0][RW-1:0] write_row_o,   // row to which each lane is written
    output logic [  B-1:0][ W-1:0] write_data_o,
    output logic                   done_o
);

  localparam int unsigned STEPS = 5;
  if (B > 16 || B != 1 << LB || LOG_N < LB + 2) begin : g_check
    $error("hg_permute: 1, 2, 4, 8 or 16 lanes");
  end

  logic ntt, busy, take, last;
  logic [3:0] log_n;
  logic [LOG_N:0] galois, position, stride;  // position: g (2u + 1) or g B r; reduced modulo 2N where it is used
  logic [W-1:0] q;
  logic [SB-1:0] slot, out;
  logic [RW-1:0] count, final_row;

  assign last = busy && count == final_row;
  assign ready_o = !busy;
  assign take = valid_i && ready_o;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) busy <= 1'b0;
    else if (take) busy <= 1'b1;
    else if (last) busy <= 1'b0;
    if (take) begin
      ntt <= ntt_i;
      log_n <= log_n_i;
      galois <= galois_i;
      q <= q_i;
      slot <= slot_i;
      out <= out_i;
      count <= '0;
      final_row <= RW'((32'd1 << (log_n_i - 4'(LB))) - 1);
      position <= ntt_i ? galois_i : '0;
      stride <= ntt_i ? galois_i << 1 : galois_i << LB;
    end else begin
      count <= count + 1'b1;
      position <= position + stride;
    end
  end
  assign read_done_o = last;

  // Reverses the bits of a row's number.
  function automatic logic [RW-1:0] reversed(logic [RW-1:0] v, logic [3:0] bits);
    logic [RW-1:0] all;
    for (int i = 0; i < int'(RW); ++i) all[i] = v[int'(RW)-1-i];
    return all >> (RW - int'(bits));
  endfunction
  function automatic logic [LB:0] reversed_lane(logic [LB:0] v);
    reversed_lane = '0;
    for (int i = 0; i < int'(LB); ++i) reversed_lane[i] = v[int'(LB)-1-i];
  endfunction

  // Cycle 1: the row is read. Cycle 3: the row arrives. Cycle 4: the lanes of the row are permuted. Cycle 5: words are
  // negated.
  typedef struct packed {
    logic           valid,    last, ntt;
    logic [3:0]     log_n;
    logic [LOG_N:0] galois;
    logic [LOG_N:0] position;
    logic [RW-1:0]  row;                  // the row's destination in NTT order
    logic [W-1:0]   q;
    logic [SB-1:0]  out;
  } step_t;
  step_t step[STEPS];
  logic [3:0] row_bits;
  logic [RW-1:0] count_reversed;
  assign row_bits = log_n - 4'(LB);
  assign count_reversed = reversed(count, row_bits);
  always_ff @(posedge clk_i) begin
    read_row_o <= ntt ? reversed(RW'(position >> 1) & final_row, row_bits) : count;
    read_slot_o <= slot;
    step[0] <= '{
        valid: busy,
        last: last,
        ntt: ntt,
        log_n: log_n,
        galois: galois,
        position: position,
        row: count_reversed,
        q: q,
        out: out
    };
    for (int i = 1; i < int'(STEPS); ++i) step[i] <= step[i-1];
    if (!rst_ni) for (int i = 0; i < int'(STEPS); ++i) step[i].valid <= 1'b0;
  end
  assign read_o = step[0].valid;

  logic [LOG_N:0] modulo;  // mask for the number of a coefficient and its sign
  assign modulo = (LOG_N + 1)'((32'd1 << (step[2].log_n + 4'd1)) - 1);
  // g^-1 modulo B: g itself for B up to 8, g^3 for 16.
  logic [3:0] g4, inverse;
  assign g4 = 4'(step[2].galois);
  assign inverse = LB == 4 ? 4'(g4 * g4 * g4) : g4;
  logic [LB:0] turned;  // the bits of the exponent above those of the row's number
  assign turned = (LB + 1)'(step[2].position >> (step[2].log_n + 4'd1 - 4'(LB)));
  logic [LOG_N:0] goes[B];  // destination of the word in each lane, with its sign
  for (genvar l = 0; l < B; ++l) begin : g_goes
    assign goes[l] = (step[2].position + (LOG_N + 1)'(32'(l) * 32'(step[2].galois))) & modulo;
  end
  logic [B-1:0][W-1:0] lanes;
  logic [B-1:0] negative;
  logic [B-1:0][RW-1:0] rows;
  for (genvar j = 0; j < B; ++j) begin : g_lane
    logic [LB:0] from, value, coefficient;
    assign value = turned + (LB + 1)'(32'(reversed_lane((LB + 1)'(j))) * 32'(step[2].galois));
    assign coefficient = (LB + 1)'(4'(j) * inverse);
    assign from = (step[2].ntt ? reversed_lane(value) : coefficient) & (LB + 1)'(B - 1);
    if (B == 1) begin : g_only
      logic unused_from;
      assign unused_from = ^from;
      always_ff @(posedge clk_i) begin
        lanes[j] <= read_data_i[0];
        negative[j] <= !step[2].ntt && goes[0][step[2].log_n];
        rows[j] <= step[2].ntt ? step[2].row : RW'(goes[0] & (modulo >> 1));
      end
    end else begin : g_of
      logic unused_from;
      assign unused_from = from[LB];
      always_ff @(posedge clk_i) begin
        lanes[j] <= read_data_i[from[LB-1:0]];
        negative[j] <= !step[2].ntt && goes[from[LB-1:0]][step[2].log_n];
        rows[j] <= step[2].ntt ? step[2].row : RW'((goes[from[LB-1:0]] & (modulo >> 1)) >> LB);
      end
    end
    always_ff @(posedge clk_i) begin
      write_data_o[j] <= negative[j] && lanes[j] != 0 ? step[3].q - lanes[j] : lanes[j];
      write_row_o[j]  <= rows[j];
    end
  end
  assign write_o = step[STEPS-1].valid;
  assign write_slot_o = step[STEPS-1].out;
  assign done_o = step[STEPS-1].valid && step[STEPS-1].last;
  logic unused;
  assign unused = ^{galois[0], turned, inverse};

endmodule
