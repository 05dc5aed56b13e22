"""The public interface: `ml.trace`, and the `Program` and `Plan` that users hold."""
