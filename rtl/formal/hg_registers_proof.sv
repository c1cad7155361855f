// The host's port: each access gets one response, which does not change until it is accepted.
module hg_registers_proof (
    input logic        clk_i,
    input logic        rst_ni,
    input logic        awvalid_i,
    input logic        awready_o,
    input logic        wvalid_i,
    input logic        wready_o,
    input logic        bvalid_o,
    input logic        bready_i,
    input logic [ 1:0] bresp_o,
    input logic        arvalid_i,
    input logic        arready_o,
    input logic        rvalid_o,
    input logic        rready_i,
    input logic [31:0] rdata_o,
    input logic [ 1:0] rresp_o
);

  logic began = 1'b0, writing, reading, write_kept = 1'b0, read_kept = 1'b0;
  logic [31:0] data_kept;
  logic [1:0] write_answer_kept, read_answer_kept;
  always_ff @(posedge clk_i) begin
    began <= 1'b1;
    write_kept <= rst_ni && bvalid_o && !bready_i;
    read_kept <= rst_ni && rvalid_o && !rready_i;
    data_kept <= rdata_o;
    write_answer_kept <= bresp_o;
    read_answer_kept <= rresp_o;
    if (!rst_ni) begin
      writing <= 1'b0;
      reading <= 1'b0;
    end else begin
      if (awvalid_i && awready_o) writing <= 1'b1;
      else if (bvalid_o && bready_i) writing <= 1'b0;
      if (arvalid_i && arready_o) reading <= 1'b1;
      else if (rvalid_o && rready_i) reading <= 1'b0;
    end
  end

  always_comb begin
    assume (began || !rst_ni);
    if (began) begin
      // Both halves of a write are accepted together, but not while the response to another write waits.
      assert ((awvalid_i && awready_o) == (wvalid_i && wready_o));
      assert (bvalid_o == writing && rvalid_o == reading);
      if (awvalid_i && awready_o) assert (!writing);
      if (arvalid_i && arready_o) assert (!reading);
      if (write_kept) assert (bvalid_o && bresp_o == write_answer_kept);
      if (read_kept) assert (rvalid_o && rdata_o == data_kept && rresp_o == read_answer_kept);
      if (bvalid_o) assert (bresp_o == 2'b00 || bresp_o == 2'b10);  // OKAY, SLVERR
      if (rvalid_o) assert (rresp_o == 2'b00 || rresp_o == 2'b10);
    end
  end

endmodule

bind hg_registers hg_registers_proof i_proof (.*);
