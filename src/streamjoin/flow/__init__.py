"""What moves: buffers between the inputs, the cores and the outputs."""
