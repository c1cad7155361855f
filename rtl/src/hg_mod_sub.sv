// z = x - y mod q for x, y < q. Latency 2, one difference a cycle; q_i comes with the operands.
module hg_mod_sub #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic [W-1:0] x_i,
    input  logic [W-1:0] y_i,
    input  logic [W-1:0] q_i,
    output logic [W-1:0] z_o
);

  if (W < 2) begin : g_check
    $error("hg_mod_sub: W of at least 2 bits");
  end

  logic [  W:0] rest;
  logic [W-1:0] q;
  always_ff @(posedge clk_i) begin
    rest <= {1'b0, x_i} - {1'b0, y_i};
    q    <= q_i;
    z_o  <= rest[W-1:0] + (rest[W] ? q : '0);
  end

endmodule
