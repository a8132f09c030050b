"""Plans become writes: the one executor, what it checks of an answer, and the Events it records."""
