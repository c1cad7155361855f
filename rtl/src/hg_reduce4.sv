// v mod q for v in [0, 4q): subtracts 0, q, 2q or 3q. Latency 2, one word a cycle; q_i comes with v_i.
module hg_reduce4 #(
    parameter int unsigned W = 30
) (
    input  logic         clk_i,
    input  logic [W+1:0] v_i,
    input  logic [W-1:0] q_i,
    output logic [W-1:0] z_o
);

  if (W < 2) begin : g_check
    $error("hg_reduce4: W of at least 2 bits");
  end

  // Subtracts 2q if the result is not negative, then subtracts q under the same condition.
  logic [W+2:0] less2, less1;
  logic [W+1:0] v;
  logic [W-1:0] q;
  assign less2 = {1'b0, v_i} - {2'b0, q_i, 1'b0};
  assign less1 = {1'b0, v} - {3'b0, q};
  always_ff @(posedge clk_i) begin
    v   <= less2[W+2] ? v_i : less2[W+1:0];
    q   <= q_i;
    z_o <= less1[W+2] ? v[W-1:0] : less1[W-1:0];
  end
  logic unused;
  assign unused = ^less1[W+1:W];

endmodule
