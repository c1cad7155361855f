// A queue of DEPTH words between two handshakes: a word moves when valid and ready are both high. Latency 1, one word a
// cycle; a word that enters an empty queue is visible in the next cycle.
module hg_fifo #(
    parameter int unsigned WIDTH = 32,
    parameter int unsigned DEPTH = 16,
    localparam int unsigned CB = $clog2(DEPTH + 1)
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [WIDTH-1:0] data_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic [WIDTH-1:0] data_o,
    output logic [   CB-1:0] count_o
);

  localparam int unsigned PB = $clog2(DEPTH);
  if (DEPTH < 2 || DEPTH != 1 << PB) begin : g_check
    $error("hg_fifo: DEPTH is a power of two");
  end

  logic [WIDTH-1:0] words[DEPTH];
  logic [PB-1:0] head, tail;
  logic [CB-1:0] count;
  logic put, get;
  assign ready_o = count != CB'(DEPTH);
  assign valid_o = count != 0;
  assign put = valid_i && ready_o;
  assign get = valid_o && ready_i;
  assign data_o = words[head];
  assign count_o = count;
  always_ff @(posedge clk_i) begin
    if (put) words[tail] <= data_i;
    if (!rst_ni) begin
      head  <= '0;
      tail  <= '0;
      count <= '0;
    end else begin
      if (put) tail <= tail + 1'b1;
      if (get) head <= head + 1'b1;
      count <= count + CB'(put) - CB'(get);
    end
  end

endmodule
