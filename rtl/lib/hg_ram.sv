// A memory with one write port and one read port, as block RAM with its output register. A word that is written in cycle
// c can be read from cycle c + 1 on. A read has latency 2; one read a cycle.
module hg_ram #(
    parameter int unsigned WIDTH = 30,
    parameter int unsigned DEPTH = 512,
    localparam int unsigned AW = $clog2(DEPTH)
) (
    input  logic             clk_i,
    input  logic             write_i,
    input  logic [   AW-1:0] write_address_i,
    input  logic [WIDTH-1:0] write_data_i,
    input  logic [   AW-1:0] read_address_i,
    output logic [WIDTH-1:0] read_data_o
);

  if (DEPTH < 2 || WIDTH < 1) begin : g_check
    $error("hg_ram: at least two words of a bit");
  end

  logic [WIDTH-1:0] words[DEPTH];
  logic [WIDTH-1:0] read;
  always_ff @(posedge clk_i) begin
    if (write_i) words[write_address_i] <= write_data_i;
    read <= words[read_address_i];
    read_data_o <= read;
  end

endmodule
