"""The steps, oldest first; a step that has been released never changes."""
