"""Programs: code comes in; out goes a `Program`, the code with a dim name on every axis of every value."""
