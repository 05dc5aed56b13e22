"""What a puzzle is, and how it is played: predictions, tries, hints, proofs and receipts."""
