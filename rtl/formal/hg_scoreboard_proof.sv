// No slot is written while another instruction reads or writes this slot, nor read while another instruction writes it. At
// most one unit reads a bank, and at most one unit writes a bank. A separate list models the running instructions: at most
// two per unit, the oldest first, with flags for unfinished reads and for claimed write banks. Assumed: units end the
// instructions that they accept, after having read their operands. Units accept another instruction after these reads. A
// late unit claims its write bank only before it writes, and accepts another instruction only after the grant. A late unit
// ends no instruction without a grant.
module hg_scoreboard_proof #(
    parameter int unsigned SLOTS = 32,
    parameter int unsigned TABLES = 10,
    parameter int unsigned BANKS = 4,
    parameter int unsigned UNITS = 6,
    parameter logic [UNITS-1:0] LATE = 1,
    localparam int unsigned ALL = SLOTS + TABLES,
    localparam int unsigned UB = $clog2(UNITS),
    localparam int unsigned BB = $clog2(BANKS)
) (
    input logic                  clk_i,
    input logic                  rst_ni,
    input logic [   UB-1:0]      unit_i,
    input logic [  ALL-1:0]      reads_i,
    input logic [  ALL-1:0]      writes_i,
    input logic                  ok_o,
    input logic                  issue_i,
    input logic [UNITS-1:0]      read_done_i,
    input logic [UNITS-1:0]      done_i,
    input logic [UNITS-1:0]      want_i,
    input logic [UNITS-1:0]      grant_o,
    input logic                  idle_o,
    input logic [UNITS-1:0][1:0] valid,
    input logic [UNITS-1:0][1:0] reading,
    input logic [UNITS-1:0][1:0] claims,
    input logic [  ALL-1:0]      reads      [UNITS][2],
    input logic [  ALL-1:0]      writes     [UNITS][2]
);

  // An arbitrary slot (or table) and an arbitrary bank, both constant.
  logic began = 1'b0;
  logic [$clog2(ALL)-1:0] slot;
  logic [BB-1:0] bank;
  always_ff @(posedge clk_i) begin
    slot  <= slot;
    bank  <= bank;
    began <= 1'b1;
  end

  function automatic logic in_bank(logic [ALL-1:0] slots);
    in_bank = 1'b0;
    for (int s = 0; s < int'(SLOTS); ++s) if (BB'(s) == bank) in_bank |= slots[s];
  endfunction

  typedef struct packed {logic live, reading, may_write, reads_slot, writes_slot, reads_bank, writes_bank;} entry_t;
  entry_t [UNITS-1:0][1:0] list, after;
  logic [UNITS-1:0] newest;
  always_comb begin
    after = list;
    for (int u = 0; u < int'(UNITS); ++u) begin
      newest[u] = list[u][1].live;
      if (read_done_i[u]) after[u][newest[u]].reading = 1'b0;
      if (grant_o[u]) after[u][newest[u]].may_write = 1'b1;
      if (done_i[u]) after[u] = {entry_t'('0), after[u][1]};
      if (issue_i && unit_i == UB'(u)) begin
        after[u][after[u][0].live] = '{
            live: 1'b1,
            reading: 1'b1,
            may_write: !LATE[u],
            reads_slot: reads_i[slot],
            writes_slot: writes_i[slot],
            reads_bank: in_bank(reads_i),
            writes_bank: in_bank(writes_i)
        };
      end
    end
  end
  always_ff @(posedge clk_i) list <= rst_ni ? after : '0;

  // Users of the slot and of the bank. A table is in use until the instruction ends.
  logic [2*UNITS-1:0] uses, writers;
  logic [UNITS-1:0] bank_readers, bank_writers, bank_claims;
  always_comb begin
    bank_readers = '0;
    bank_writers = '0;
    bank_claims  = '0;
    for (int u = 0; u < int'(UNITS); ++u) begin
      for (int e = 0; e < 2; ++e) begin
        automatic entry_t x = list[u][e];
        uses[2*u+e] = x.live && x.reads_slot && (x.reading || 32'(slot) >= SLOTS);
        writers[2*u+e] = x.live && x.writes_slot;
        if (x.live && x.reading && x.reads_bank) bank_readers[u] = 1'b1;
        if (x.live && claims[u][e] && x.writes_bank) bank_claims[u] = 1'b1;
        if (x.live && (x.may_write || (grant_o[u] && newest[u] == 1'(e))) && x.writes_bank) bank_writers[u] = 1'b1;
      end
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (32'(slot) < ALL && 32'(unit_i) < UNITS);
    assume (!issue_i || ok_o);
    for (int u = 0; u < int'(UNITS); ++u) begin
      if (read_done_i[u]) assume (list[u][newest[u]].live && list[u][newest[u]].reading);
      if (want_i[u]) assume (LATE[u] && list[u][0].live);
      if (done_i[u]) assume (list[u][0].live && (!list[u][0].reading || (read_done_i[u] && !newest[u])));
      if (done_i[u]) assume (list[u][0].may_write || (grant_o[u] && !newest[u]));
      if (issue_i && unit_i == UB'(u) && list[u][0].live) begin
        assume (!list[u][newest[u]].reading || read_done_i[u]);
        assume (list[u][newest[u]].may_write || grant_o[u]);
      end
    end
    if (began) begin
      assert ((writers & (writers - 1'b1)) == 0);
      for (int i = 0; i < 2 * int'(UNITS); ++i) if (writers[i]) assert ((uses & ~((2 * UNITS)'(1) << i)) == 0);
      assert ((bank_readers & (bank_readers - 1'b1)) == 0);
      assert ((bank_writers & (bank_writers - 1'b1)) == 0);
      // The scoreboard's list equals the list of this proof, including claims that are not yet reported.
      assert ((bank_claims & (bank_claims - 1'b1)) == 0);
      for (int u = 0; u < int'(UNITS); ++u) begin
        assert (!list[u][1].live || list[u][0].live);
        for (int e = 0; e < 2; ++e) begin
          automatic entry_t x = list[u][e];
          assert (x.live == valid[u][e]);
          if (idle_o) assert (!x.live);
          if (x.live) begin
            assert (x.reading == reading[u][e] && (!x.may_write || claims[u][e]) && (LATE[u] || x.may_write));
            assert (x.reads_slot == reads[u][e][slot] && x.writes_slot == writes[u][e][slot]);
            assert (x.reads_bank == in_bank(reads[u][e]) && x.writes_bank == in_bank(writes[u][e]));
          end else begin
            assert (!reading[u][e] && !claims[u][e]);
          end
        end
      end
    end
  end

endmodule

bind hg_scoreboard hg_scoreboard_proof #(
    .SLOTS (SLOTS),
    .TABLES(TABLES),
    .BANKS (BANKS),
    .UNITS (UNITS),
    .LATE  (LATE)
) i_proof (.*);
