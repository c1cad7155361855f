// The limb slots: BANKS banks with read and write ports. Slot s is in bank s mod BANKS.
// A port (of READERS and WRITERS) selects a slot and, for each group (hg_ntt), row / 2. Rows arrive two cycles after read_i.
// A write has an enable and an address for each lane.
// In each cycle a bank serves one reader (or several of the same rows) and one writer. Users of a bank reserve it
// (hg_scoreboard). Two users at once are a fault, which conflict_o reports.
module hg_memory #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned BANKS = 4,
    parameter int unsigned SLOTS = 32,
    parameter int unsigned READERS = 7,
    parameter int unsigned WRITERS = 5,
    localparam int unsigned SB = $clog2(SLOTS),
    localparam int unsigned AW = LOG_N - $clog2(B) - 1
) (
    input  logic                                       clk_i,
    input  logic                                       rst_ni,
    input  logic [READERS-1:0]                         read_i,
    input  logic [READERS-1:0][SB-1:0]                 read_slot_i,
    input  logic [READERS-1:0][   1:0][AW-1:0]         read_address_i,
    output logic [READERS-1:0][   1:0][ B-1:0][ W-1:0] read_data_o,
    input  logic [WRITERS-1:0][   1:0][ B-1:0]         write_i,
    input  logic [WRITERS-1:0][SB-1:0]                 write_slot_i,
    input  logic [WRITERS-1:0][   1:0][ B-1:0][AW-1:0] write_address_i,
    input  logic [WRITERS-1:0][   1:0][ B-1:0][ W-1:0] write_data_i,
    output logic                                       conflict_o
);

  localparam int unsigned BB = $clog2(BANKS);
  localparam int unsigned IB = SB - BB;  // bits of a slot's index in its bank
  if (BANKS < 2 || BANKS != 1 << BB || SLOTS < 2 * BANKS || SLOTS != 1 << SB) begin : g_check
    $error("hg_memory: powers of two of banks and slots, two slots a bank or more");
  end

  logic [BANKS-1:0][1:0][B-1:0][W-1:0] bank_data;
  logic [BANKS-1:0] read_conflict, write_conflict;
  for (genvar k = 0; k < BANKS; ++k) begin : g_bank
    logic [READERS-1:0] reads;
    logic [WRITERS-1:0] writes;
    for (genvar r = 0; r < READERS; ++r) begin : g_reads
      assign reads[r] = read_i[r] && read_slot_i[r][BB-1:0] == BB'(k);
    end
    for (genvar w = 0; w < WRITERS; ++w) begin : g_writes
      assign writes[w] = write_i[w] != 0 && write_slot_i[w][BB-1:0] == BB'(k);
    end
    assign write_conflict[k] = (writes & (writes - 1'b1)) != 0;

    // At most one port selects the bank, or several ports with the same rows. So the addresses of all ports can be
    // combined by OR.
    logic [1:0][IB+AW-1:0] read_address;
    logic [1:0][B-1:0] write;
    logic [1:0][B-1:0][IB+AW-1:0] write_address;
    logic [1:0][B-1:0][W-1:0] write_data;
    always_comb begin
      read_address = '0;
      for (int r = 0; r < int'(READERS); ++r) begin
        for (int g = 0; g < 2; ++g) begin
          if (reads[r]) read_address[g] |= {read_slot_i[r][SB-1:BB], read_address_i[r][g]};
        end
      end
    end
    always_comb begin
      write = '0;
      write_address = '0;
      write_data = '0;
      for (int w = 0; w < int'(WRITERS); ++w) begin
        if (writes[w]) begin
          write |= write_i[w];
          write_data |= write_data_i[w];
          for (int g = 0; g < 2; ++g) begin
            for (int l = 0; l < int'(B); ++l) write_address[g][l] |= {write_slot_i[w][SB-1:BB], write_address_i[w][g][l]};
          end
        end
      end
    end
    always_comb begin
      read_conflict[k] = 1'b0;
      for (int r = 0; r < int'(READERS); ++r) begin
        for (int g = 0; g < 2; ++g) begin
          if (reads[r] && read_address[g] != {read_slot_i[r][SB-1:BB], read_address_i[r][g]}) read_conflict[k] = 1'b1;
        end
      end
    end
    hg_bank #(
        .W(W),
        .B(B),
        .LOG_N(LOG_N),
        .SLOTS(SLOTS / BANKS)
    ) i_bank (
      .clk_i,
      .read_address_i(read_address),
      .read_data_o(bank_data[k]),
      .write_i(write),
      .write_address_i(write_address),
      .write_data_i(write_data)
    );
  end

  logic [READERS-1:0][BB-1:0] bank1, bank2;
  always_ff @(posedge clk_i) begin
    for (int r = 0; r < int'(READERS); ++r) bank1[r] <= read_slot_i[r][BB-1:0];
    bank2 <= bank1;
    conflict_o <= rst_ni && (read_conflict != 0 || write_conflict != 0);
  end
  for (genvar r = 0; r < READERS; ++r) begin : g_data
    assign read_data_o[r] = bank_data[bank2[r]];
  end

endmodule
