"""Results of benchmarks and the tables made from them."""
