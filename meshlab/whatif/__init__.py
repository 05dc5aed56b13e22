"""What-if: a plan and ranges of sizes or machines come in; out go its costs at each, and where two plans cross."""
