// Modules of lib/, driven by test_lib.cpp.
module bench_lib (
    input  logic              clk_i,
    input  logic              rst_ni,
    input  logic              put_i,
    output logic              room_o,
    input  logic [15:0]       word_i,
    output logic              there_o,
    input  logic              get_i,
    output logic [15:0]       word_o,
    output logic [ 2:0]       count_o,
    input  logic              start_i,
    output logic [ 2:0]       idle_o,
    input  logic [63:0]       address_i,
    input  logic [15:0]       beats_i,
    output logic [ 2:0]       burst_o,
    input  logic [ 2:0]       take_i,
    output logic [ 2:0][63:0] burst_address_o,
    output logic [ 2:0][ 7:0] burst_length_o,
    output logic [ 2:0]       burst_last_o,
    input  logic              write_i,
    input  logic [ 3:0]       write_address_i,
    input  logic [ 3:0]       read_address_i,
    output logic [15:0]       read_data_o,
    output logic [15:0]       delayed_o
);

  hg_fifo #(
      .WIDTH(16),
      .DEPTH(4)
  ) i_fifo (
    .clk_i,
    .rst_ni,
    .valid_i(put_i),
    .ready_o(room_o),
    .data_i (word_i),
    .valid_o(there_o),
    .ready_i(get_i),
    .data_o (word_o),
    .count_o
  );
  // Beats of 8, 64 and 128 bytes: buses of cards with 1, 8 and 16 lanes.
  for (genvar i = 0; i < 3; ++i) begin : g_bursts
    hg_bursts #(
        .BYTES(i == 0 ? 8 : i == 1 ? 64 : 128)
    ) i_bursts (
      .clk_i,
      .rst_ni,
      .start_i,
      .idle_o(idle_o[i]),
      .address_i,
      .beats_i,
      .valid_o(burst_o[i]),
      .ready_i(take_i[i]),
      .address_o(burst_address_o[i]),
      .length_o(burst_length_o[i]),
      .last_o(burst_last_o[i])
    );
  end
  hg_ram #(
      .WIDTH(16),
      .DEPTH(16)
  ) i_ram (
    .clk_i,
    .write_i,
    .write_address_i,
    .write_data_i(word_i),
    .read_address_i,
    .read_data_o
  );
  hg_delay #(
      .WIDTH (16),
      .CYCLES(3)
  ) i_delay (
    .clk_i,
    .d_i(word_i),
    .d_o(delayed_o)
  );

endmodule
