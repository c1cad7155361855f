// z = x + y mod q for x, y < q. Latency 2, one sum a cycle; q_i comes with the operands.
module hg_mod_add #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic [W-1:0] x_i,
    input  logic [W-1:0] y_i,
    input  logic [W-1:0] q_i,
    output logic [W-1:0] z_o
);

  if (W < 2) begin : g_check
    $error("hg_mod_add: W of at least 2 bits");
  end

  logic [W:0] sum;
  logic [W+1:0] less;
  logic [W-1:0] q;
  logic unused;
  assign less   = {1'b0, sum} - {2'b0, q};
  assign unused = less[W];
  always_ff @(posedge clk_i) begin
    sum <= {1'b0, x_i} + {1'b0, y_i};
    q   <= q_i;
    z_o <= less[W+1] ? sum[W-1:0] : less[W-1:0];
  end

endmodule
