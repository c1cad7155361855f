// A bank of limb slots. Rows of B words are in two groups; hg_ntt defines the group of a row. Each lane is a separate
// memory, so a write covers a whole row, a part of it, or lanes in different rows (a permutation of coefficients).
//   Read: one address for each group, two rows in a cycle; latency 2.
//   Write: an address and an enable for each lane of each group.
// Address: {slot, row / 2}. No access ever waits. A word written in cycle c is readable from cycle c + 1 on.
module hg_bank #(
    parameter int unsigned W = 30,
    parameter int unsigned B = 8,
    parameter int unsigned LOG_N = 12,
    parameter int unsigned SLOTS = 8,
    localparam int unsigned AW = $clog2(SLOTS << LOG_N) - $clog2(B) - 1
) (
    input  logic                       clk_i,
    input  logic [1:0][AW-1:0]         read_address_i,
    output logic [1:0][ B-1:0][ W-1:0] read_data_o,
    input  logic [1:0][ B-1:0]         write_i,
    input  logic [1:0][ B-1:0][AW-1:0] write_address_i,
    input  logic [1:0][ B-1:0][ W-1:0] write_data_i
);

  if (SLOTS < 1 || B != 1 << $clog2(B)) begin : g_check
    $error("hg_bank: one slot or more, a power of two of lanes");
  end

  for (genvar g = 0; g < 2; ++g) begin : g_group
    for (genvar l = 0; l < B; ++l) begin : g_lane
      hg_ram #(
          .WIDTH(W),
          .DEPTH(1 << AW)
      ) i_ram (
        .clk_i,
        .write_i(write_i[g][l]),
        .write_address_i(write_address_i[g][l]),
        .write_data_i(write_data_i[g][l]),
        .read_address_i(read_address_i[g]),
        .read_data_o(read_data_o[g][l])
      );
    end
  end

endmodule
