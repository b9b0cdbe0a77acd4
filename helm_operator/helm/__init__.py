"""What the operator asks of Helm."""
