// Properties: the bursts of a transfer cover exactly the transfer, in order. No burst is longer than 256 beats or crosses 4
// KiB. An offered burst stays until it is accepted. Assumed: a transfer starts at a multiple of a beat and has at least one
// beat.
module hg_bursts_proof #(
    parameter int unsigned BYTES = 64,
    parameter int unsigned COUNT = 16
) (
    input logic             clk_i,
    input logic             rst_ni,
    input logic             start_i,
    input logic             idle_o,
    input logic [     63:0] address_i,
    input logic [COUNT-1:0] beats_i,
    input logic             valid_o,
    input logic             ready_i,
    input logic [     63:0] address_o,
    input logic [      7:0] length_o,
    input logic             last_o,
    input logic [COUNT-1:0] left
);

  localparam int unsigned SHIFT = $clog2(BYTES);
  logic began = 1'b0, offered = 1'b0, last_offered;
  logic [63:0] address_offered;
  logic [7:0] length_offered;
  // The remaining transfer: `rest` beats from address `from`.
  logic [63:0] from;
  logic [COUNT-1:0] rest;
  logic [8:0] beats;
  logic [12:0] bytes;
  assign beats = 9'(length_o) + 9'd1;
  assign bytes = 13'(beats) << SHIFT;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    offered <= rst_ni && valid_o && !ready_i;
    address_offered <= address_o;
    length_offered <= length_o;
    last_offered <= last_o;
    if (!rst_ni) begin
      rest <= '0;
    end else if (start_i && idle_o) begin
      from <= address_i;
      rest <= beats_i;
    end else if (valid_o && ready_i) begin
      from <= address_o + 64'(bytes);
      rest <= rest - COUNT'(beats);
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    assume (address_i % 64'(BYTES) == 0 && beats_i != 0);
    if (began) begin
      assert (valid_o == (rest != 0) && idle_o == !valid_o);
      if (valid_o) begin
        assert (address_o == from);
        assert (COUNT'(beats) <= rest);
        assert (13'(address_o[11:0]) + bytes <= 13'd4096);
        assert (last_o == (COUNT'(beats) == rest));
      end
      if (offered) assert (valid_o && address_o == address_offered && length_o == length_offered && last_o == last_offered);
      assert (left == rest);
      if (rest != 0) assert (from % 64'(BYTES) == 0);
    end
  end

endmodule

bind hg_bursts hg_bursts_proof #(
    .BYTES(BYTES),
    .COUNT(COUNT)
) i_proof (.*);
