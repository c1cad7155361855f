// Engines of 1, 2, 4, 8 and 16 butterflies on one polynomial, driven by test_ntt.cpp. Operands and results are plain arrays of words,
// so that the engines' rows and groups are compared with the polynomial's own order.
module bench_ntt #(
    parameter int unsigned W = 30,
    parameter int unsigned LOG_N = 14
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    // Writes one word per cycle: into the operand, or into the table of twiddles.
    input  logic                    put_i,
    input  logic                    put_twiddle_i,
    input  logic [LOG_N-1:0]        put_at_i,
    input  logic [    W-1:0]        put_word_i,
    // Engine b runs if bit b is set.
    input  logic [      4:0]        valid_i,
    output logic [      4:0]        ready_o,
    input  logic                    inverse_i,
    input  logic [      3:0]        log_n_i,
    input  logic [    W-1:0]        q_i,
    input  logic [      4:0]        grant_i,
    output logic [      4:0]        done_o,
    output logic [      4:0]        read_done_o,
    output logic [      4:0]        last_o,
    input  logic [LOG_N-1:0]        get_at_i,
    output logic [      4:0][W-1:0] get_o
);

  logic [W-1:0] words[1<<LOG_N];
  logic [15:0][W-1:0] latest;  // the last twiddles written, the newest last
  always_ff @(posedge clk_i) begin
    if (put_i && !put_twiddle_i) words[put_at_i] <= put_word_i;
    if (put_i && put_twiddle_i) latest <= {put_word_i, latest[15:1]};
  end
  logic put_late;
  logic [LOG_N-1:0] put_at_late;
  always_ff @(posedge clk_i) begin
    put_late <= put_i && put_twiddle_i;
    put_at_late <= put_at_i;
  end

  for (genvar e = 0; e < 5; ++e) begin : g_engine
    localparam int unsigned B = 1 << e;
    localparam int unsigned AW = LOG_N - e - 1;
    logic read, write;
    logic [1:0][AW-1:0] read_address, write_address;
    logic [1:0][B-1:0][W-1:0] read_data, read_data_early, write_data;
    logic [B-1:0][W-1:0] row;
    assign row = latest[15:16-B];
    hg_ntt #(
        .W(W),
        .B(B),
        .LOG_N(LOG_N)
    ) i_ntt (
      .clk_i,
      .rst_ni,
      .valid_i(valid_i[e]),
      .ready_o(ready_o[e]),
      .inverse_i,
      .log_n_i,
      .table_i('0),
      .q_i,
      .read_o(read),
      .read_address_o(read_address),
      .read_data_i(read_data),
      .read_done_o(read_done_o[e]),
      .last_o(last_o[e]),
      .grant_i(grant_i[e]),
      .write_o(write),
      .write_address_o(write_address),
      .write_data_o(write_data),
      .done_o(done_o[e]),
      .table_write_i(put_late && (put_at_late & LOG_N'(B - 1)) == LOG_N'(B - 1)),
      .table_row_i((AW + 1)'(put_at_late >> e)),
      .table_data_i(row)
    );
    logic [W-1:0] result[1<<LOG_N];
    logic [1:0][AW:0] read_row, write_row;
    for (genvar g = 0; g < 2; ++g) begin : g_group
      localparam bit G = g == 1;
      assign read_row[g]  = {read_address[g], G ^ (^read_address[g])};
      assign write_row[g] = {write_address[g], G ^ (^write_address[g])};
    end
    always_ff @(posedge clk_i) begin
      for (int g = 0; g < 2; ++g) begin
        for (int j = 0; j < int'(B); ++j) begin
          // Data that were not requested are invalid.
          read_data_early[g][j] <= read ? words[LOG_N'(int'(read_row[g])*int'(B)+j)] : W'(j);
          if (write) result[LOG_N'(int'(write_row[g])*int'(B)+j)] <= write_data[g][j];
        end
      end
      read_data <= read_data_early;
    end
    assign get_o[e] = result[get_at_i];
  end

endmodule
