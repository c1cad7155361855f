// A read returns the last write before its cycle. No bank has two users, and no write is lost.
// Assumed, because hg_scoreboard and the units' own ports guarantee it: one port at a time writes a bank. Ports that
// read one bank read the same rows of one slot.
module hg_memory_proof #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned BANKS = 4,
    parameter int unsigned SB = 5,
    parameter int unsigned AW = 8,
    parameter int unsigned READERS = 7,
    parameter int unsigned WRITERS = 5,
    localparam int unsigned BB = $clog2(BANKS),
    localparam int unsigned WORDS = 1 << (SB - BB + AW)
) (
    input logic                                       clk_i,
    input logic                                       rst_ni,
    input logic [READERS-1:0]                         read_i,
    input logic [READERS-1:0][SB-1:0]                 read_slot_i,
    input logic [READERS-1:0][   1:0][AW-1:0]         read_address_i,
    input logic [READERS-1:0][   1:0][ B-1:0][ W-1:0] read_data_o,
    input logic [WRITERS-1:0][   1:0][ B-1:0]         write_i,
    input logic [WRITERS-1:0][SB-1:0]                 write_slot_i,
    input logic [WRITERS-1:0][   1:0][ B-1:0][AW-1:0] write_address_i,
    input logic [WRITERS-1:0][   1:0][ B-1:0][ W-1:0] write_data_i,
    input logic                                       conflict_o,
    // The memory of the last lane of group 1 in bank 1. The proof considers one word of this memory.
    input logic [      W-1:0]                         words          [WORDS],
    input logic [      W-1:0]                         read_once
);

  // An arbitrary slot of bank 1 and an arbitrary row of group 1 (row / 2); the word of this row in the last lane, once the
  // word was written.
  logic began = 1'b0, known = 1'b0;
  logic [SB-1:0] slot;
  logic [AW-1:0] address;
  logic [ W-1:0] word;
  logic [READERS-1:0] asked, asked1 = '0, asked2 = '0;
  logic [W-1:0] word1, word2;
  always_comb begin
    for (int r = 0; r < int'(READERS); ++r)
    asked[r] = read_i[r] && read_slot_i[r] == slot && read_address_i[r][1] == address;
  end
  always_ff @(posedge clk_i) begin
    began   <= 1'b1;
    slot    <= slot;
    address <= address;
    asked1  <= known ? asked : '0;
    asked2  <= asked1;
    word1   <= word;
    word2   <= word1;
    for (int w = 0; w < int'(WRITERS); ++w) begin
      if (write_i[w][1][B-1] && write_slot_i[w] == slot && write_address_i[w][1][B-1] == address) begin
        word  <= write_data_i[w][1][B-1];
        known <= 1'b1;
      end
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (slot[BB-1:0] == BB'(1));
    for (int i = 0; i < int'(WRITERS); ++i) begin
      for (int j = 0; j < i; ++j) begin
        assume (write_i[i] == 0 || write_i[j] == 0 || write_slot_i[i][BB-1:0] != write_slot_i[j][BB-1:0]);
      end
    end
    for (int i = 0; i < int'(READERS); ++i) begin
      for (int j = 0; j < i; ++j) begin
        if (read_i[i] && read_i[j] && read_slot_i[i][BB-1:0] == read_slot_i[j][BB-1:0]) begin
          assume (read_slot_i[i] == read_slot_i[j] && read_address_i[i] == read_address_i[j]);
        end
      end
    end
    if (began) assert (!conflict_o);
    for (int r = 0; r < int'(READERS); ++r) if (asked2[r]) assert (read_data_o[r][1][B-1] == word2);
    if (known) assert (words[{slot[SB-1:BB], address}] == word);
    if (asked1 != 0) assert (read_once == word1);
  end

endmodule

bind hg_memory hg_memory_proof #(
    .W(W),
    .B(B),
    .BANKS(BANKS),
    .SB(SB),
    .AW(AW),
    .READERS(READERS),
    .WRITERS(WRITERS)
) i_proof (
  .*,
  .words(g_bank[1].i_bank.g_group[1].g_lane[B-1].i_ram.words),
  .read_once(g_bank[1].i_bank.g_group[1].g_lane[B-1].i_ram.read)
);
