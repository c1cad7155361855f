// Delays a word by some cycles. The delay has no reset, so that synthesis can use shift registers. Latency CYCLES (0: a
// wire), one word a cycle.
module hg_delay #(
    parameter int unsigned WIDTH  = 1,
    parameter int unsigned CYCLES = 1
) (
    input  logic             clk_i,
    input  logic [WIDTH-1:0] d_i,
    output logic [WIDTH-1:0] d_o
);

  if (WIDTH < 1) begin : g_check
    $error("hg_delay: WIDTH must be at least 1");
  end

  if (CYCLES == 0) begin : g_wire
    logic unused;
    assign unused = clk_i;
    assign d_o = d_i;
  end else begin : g_line
    logic [WIDTH-1:0] line[CYCLES];
    always_ff @(posedge clk_i) begin
      line[0] <= d_i;
      for (int unsigned i = 1; i < CYCLES; ++i) line[i] <= line[i-1];
    end
    assign d_o = line[CYCLES-1];
  end

endmodule
