"""The devices of a mesh: where they stand, what they hold, and to whom they send."""
