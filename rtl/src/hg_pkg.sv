// Constants that several modules of the co-processor share. Latencies: an operand accepted in cycle c gives its result in
// cycle c + latency. Each module checks its latency against the latency in this package.
package hg_pkg;

  localparam int unsigned PRODUCT_LATENCY = 3;

  // Multipliers: the values of hg_mul's KIND.
  localparam int unsigned KIND_MONTGOMERY = 0;
  localparam int unsigned KIND_SHOUP = 1;
  localparam int unsigned KIND_BARRETT = 2;
  localparam int unsigned KIND_WINDOW = 3;

  localparam int unsigned SHOUP_LATENCY = 2 * PRODUCT_LATENCY + 2;
  localparam int unsigned BARRETT_LATENCY = 3 * PRODUCT_LATENCY + 3;
  localparam int unsigned LANE_LATENCY = BARRETT_LATENCY + 4;
  localparam int unsigned REDUCE_SUM_LATENCY = 2 * PRODUCT_LATENCY + 7;
  localparam int unsigned ADD_LATENCY = 2;
  localparam int unsigned SUB_LATENCY = 2;

  // Numbers of the units, and operations of descriptors (hg_core).
  localparam int unsigned UNIT_NTT = 0;
  localparam int unsigned UNIT_POINTWISE = 1;
  localparam int unsigned UNIT_PERMUTE = 2;
  localparam int unsigned UNIT_CONVERT = 3;
  localparam int unsigned UNIT_LOAD = 4;  // the bus has two units: this one reads, the next one writes
  localparam int unsigned UNIT_STORE = 5;
  localparam logic [7:0] OP_NTT = 8'd1;
  localparam logic [7:0] OP_POINTWISE = 8'd2;
  localparam logic [7:0] OP_PERMUTE = 8'd3;
  localparam logic [7:0] OP_CONVERT = 8'd4;
  localparam logic [7:0] OP_LOAD = 8'd5;
  localparam logic [7:0] OP_STORE = 8'd6;
  localparam logic [7:0] OP_TWIDDLES = 8'd7;
  localparam logic [7:0] OP_CONSTANTS = 8'd8;
  localparam logic [7:0] OP_FENCE = 8'd9;

  // Latency for words of w bits, of which each step reduces `step` bits. The first step starts before the product's last
  // addition.
  function automatic int unsigned montgomery_latency(int unsigned w, int unsigned step);
    return PRODUCT_LATENCY + 2 * (w / step);
  endfunction

  // Number of windows that cover the upper half of a product. Each window shares one bit with the previous one.
  function automatic int unsigned windows(int unsigned w, int unsigned width);
    return 1 + (w - width + width - 2) / (width - 1);
  endfunction
  function automatic int unsigned window_latency(int unsigned w, int unsigned width);
    return PRODUCT_LATENCY + windows(w, width) + 2;
  endfunction

  function automatic int unsigned mul_latency(int unsigned kind, int unsigned w, int unsigned step, int unsigned width);
    case (kind)
      KIND_MONTGOMERY: return montgomery_latency(w, step);
      KIND_SHOUP: return SHOUP_LATENCY;
      KIND_BARRETT: return BARRETT_LATENCY;
      default: return window_latency(w, width);
    endcase
  endfunction

  function automatic int unsigned butterfly_latency(int unsigned w, int unsigned step);
    return montgomery_latency(w, step) + 5;
  endfunction

  // Cycles from the read of a row to its write: addresses, memory (2), order of the groups, lanes, butterfly, lanes
  // again.
  function automatic int unsigned ntt_latency(int unsigned w, int unsigned step);
    return butterfly_latency(w, step) + 6;
  endfunction
  // Cycles between the end of a stage of N = 2^log_n and the start of the next one, in which its rows are written.
  // Partners of consecutive stages are at most N / 4b pairs apart.
  function automatic int unsigned ntt_gap(int unsigned w, int unsigned step, int unsigned b, int unsigned log_n);
    automatic int unsigned ahead = (1 << log_n) / (4 * b);
    return ahead < ntt_latency(w, step) ? ntt_latency(w, step) - ahead : 0;
  endfunction

endpackage
