// Prevents conflicts between instructions. The scoreboard tracks the running instructions of each unit, at most two, and
// decides whether the next instruction may start:
//   - A slot is not read while an earlier instruction writes it, nor written while an earlier instruction reads or writes
//     it.
//   - At most one unit reads a bank, and at most one unit writes it.
// A slot's readers end at read_done_i (of the unit's newest instruction), writers at done_i (of its oldest). Bits of reads_i
// from SLOTS on are tables and sets of constants, which are in use until done_i. A unit in LATE (one bit for each) claims
// its write bank not at its start but by want_i, before it writes; grant_o then stays high until done_i. The claim of a late
// unit has priority over instructions that are not yet issued. Latency: ok_o is combinational; an issued instruction counts
// from the next cycle on.
module hg_scoreboard #(
    parameter int unsigned SLOTS = 32,
    parameter int unsigned TABLES = 10,
    parameter int unsigned BANKS = 4,
    parameter int unsigned UNITS = 6,
    parameter logic [UNITS-1:0] LATE = 1,
    localparam int unsigned ALL = SLOTS + TABLES,
    localparam int unsigned UB = $clog2(UNITS)
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [   UB-1:0] unit_i,
    input  logic [  ALL-1:0] reads_i,
    input  logic [  ALL-1:0] writes_i,
    output logic             ok_o,
    input  logic             issue_i,      // allowed only if ok_o is high
    input  logic [UNITS-1:0] read_done_i,
    input  logic [UNITS-1:0] done_i,
    input  logic [UNITS-1:0] want_i,
    output logic [UNITS-1:0] grant_o,
    output logic             idle_o
);

  if (BANKS != 1 << $clog2(BANKS) || SLOTS % BANKS != 0 || UNITS < 2) begin : g_check
    $error("hg_scoreboard: a power of two of banks, equally filled");
  end

  localparam logic [ALL-1:0] KEPT = {{TABLES{1'b1}}, {SLOTS{1'b0}}};

  function automatic logic [BANKS-1:0] banks(logic [ALL-1:0] slots);
    banks = '0;
    for (int s = 0; s < int'(SLOTS); ++s) banks[s%int'(BANKS)] |= slots[s];
  endfunction

  // For each unit, entry 0 is the oldest instruction. `claims`: the instruction has claimed its write banks.
  logic [UNITS-1:0][1:0] valid, reading, claims;
  logic [ALL-1:0] reads[UNITS][2], writes[UNITS][2];

  logic [ALL-1:0] in_reading, in_writing;  // slots, tables and sets that any unit reads or writes
  logic [UNITS-1:0][BANKS-1:0] reads_banks, claims_banks, wants_banks;
  always_comb begin
    in_reading = '0;
    in_writing = '0;
    for (int u = 0; u < int'(UNITS); ++u) begin
      reads_banks[u]  = '0;
      claims_banks[u] = '0;
      wants_banks[u]  = '0;
      for (int e = 0; e < 2; ++e) begin
        if (valid[u][e]) begin
          in_reading |= reading[u][e] ? reads[u][e] : reads[u][e] & KEPT;
          in_writing |= writes[u][e];
          if (reading[u][e]) reads_banks[u] |= banks(reads[u][e]);
          if (claims[u][e]) claims_banks[u] |= banks(writes[u][e]);
        end
      end
      if (want_i[u]) wants_banks[u] = banks(writes[u][valid[u][1]]);
    end
  end

  // Only banks of other units count, because a unit processes its own instructions one after another.
  logic [BANKS-1:0] others_read, others_write;
  always_comb begin
    others_read  = '0;
    others_write = '0;
    for (int u = 0; u < int'(UNITS); ++u) begin
      if (UB'(u) != unit_i) begin
        others_read |= reads_banks[u];
        others_write |= claims_banks[u] | wants_banks[u];
      end
    end
  end
  logic late;
  assign late = LATE[unit_i];
  assign ok_o = !valid[unit_i][1] && (reads_i & in_writing) == 0 && (writes_i & (in_writing | in_reading)) == 0 && (banks(
      reads_i
  ) & others_read) == 0 && (late || (banks(
      writes_i
  ) & others_write) == 0);
  assign idle_o = valid == '0;

  // Grants the claim of a late unit's newest instruction if no other unit holds the bank. If several units claim a bank, the
  // unit with the lowest number has priority.
  logic [UNITS-1:0] claim;
  always_comb begin
    automatic logic [BANKS-1:0] held = '0;
    for (int u = 0; u < int'(UNITS); ++u) held |= claims_banks[u];
    claim = '0;
    for (int u = 0; u < int'(UNITS); ++u) begin
      automatic logic [BANKS-1:0] own = claims_banks[u];
      if (want_i[u] && !claims[u][valid[u][1]] && (wants_banks[u] & held & ~own) == 0) begin
        claim[u] = 1'b1;
        held |= wants_banks[u];
      end
    end
  end
  for (genvar u = 0; u < UNITS; ++u) begin : g_grant
    assign grant_o[u] = want_i[u] && claims[u][valid[u][1]];
  end

  for (genvar u = 0; u < UNITS; ++u) begin : g_unit
    logic issue;
    logic [1:0] after_valid, after_reading, after_claims;  // state after the removal of ended instructions
    logic newest;
    assign issue  = issue_i && unit_i == UB'(u);
    assign newest = valid[u][1];
    always_comb begin
      after_valid   = valid[u];
      after_reading = reading[u];
      after_claims  = claims[u];
      if (read_done_i[u]) after_reading[newest] = 1'b0;
      if (claim[u]) after_claims[newest] = 1'b1;
      if (done_i[u]) begin
        after_valid   = {1'b0, after_valid[1]};
        after_reading = {1'b0, after_reading[1]};
        after_claims  = {1'b0, after_claims[1]};
      end
    end
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        valid[u]   <= '0;
        reading[u] <= '0;
        claims[u]  <= '0;
      end else begin
        valid[u]   <= after_valid;
        reading[u] <= after_reading;
        claims[u]  <= after_claims;
        if (issue) begin
          valid[u][after_valid[0]]   <= 1'b1;
          reading[u][after_valid[0]] <= 1'b1;
          claims[u][after_valid[0]]  <= !LATE[u];
        end
      end
      if (done_i[u]) begin
        reads[u][0]  <= reads[u][1];
        writes[u][0] <= writes[u][1];
      end
      if (issue) begin
        reads[u][after_valid[0]]  <= reads_i;
        writes[u][after_valid[0]] <= writes_i;
      end
    end
  end

endmodule
