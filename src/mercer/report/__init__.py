"""Results as text, JSON and HTML. Computes nothing, and imports what it needs when it is called."""
