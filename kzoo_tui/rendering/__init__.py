"""How answers and errors look as text: pure functions from views to safe lines."""
