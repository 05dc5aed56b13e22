"""Small models: sizes come in; out go the networks that teach and test with."""
