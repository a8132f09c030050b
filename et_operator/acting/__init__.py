"""Plans become writes: the one executor, and what it checks of the server's answers.

It decides nothing: what to do, and in which order, is in the plan. Nothing else writes.
"""
